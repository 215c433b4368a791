"""The phrasebook: from what was heard to an intent, and the sentences that are said back.

One YAML file a language (:mod:`phrase_file`), lists filled from the plant model (:mod:`vocabulary`). Loading reads and
checks the files; the matcher itself (hassil) is imported when it is first needed, or by :meth:`Phrasebook.prepare`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from appliance.contracts.errors import ConfigError, Malformed
from appliance.contracts.plan import Intent
from appliance.contracts.plant import Plant
from appliance.contracts.speech import Grammar
from appliance.foundation.canonical import canonical_json
from appliance.planning.canonical_text import canonical
from appliance.planning.phrase_file import TAG_LISTS, PhraseFile, load_phrase_file
from appliance.planning.playbooks.asked_for import AskedFor, asked_for, sentence_faults, unknown_languages, unparsed
from appliance.planning.playbooks.playbooks import Playbook, Playbooks, Wrong
from appliance.planning.vocabulary import Vocabulary
from appliance.planning.whole_numbers import stands_whole

if TYPE_CHECKING:
    from appliance.planning.templates import Match, Matcher

_CODE = ("code_1", "code_2", "code_3")
"""Slots of a code that is read back digit by digit; they come out as one, ``code``."""
_LONGEST = 300  # characters; a spoken command has a tenth of that, and matching time grows with length


class Phrases:
    """One language: its file, its words for this plant, its matcher."""

    def __init__(self, file: PhraseFile, plant: Plant, path: str, asked_for: AskedFor | None = None) -> None:
        """``asked_for``: the playbooks that can be asked for; their sentences are in ``file`` already."""
        self.file = file
        self.path = path
        self.plant = plant
        self.fitting: Mapping[str, frozenset[str]] = asked_for.fitting if asked_for else {}
        self.language = file.language
        self.spaced = not file.settings.ignore_whitespace
        names = asked_for.names if asked_for else None
        self.vocabulary = Vocabulary(plant, file.language, file.units, spaced=self.spaced, playbooks=names)
        self._order = {name: n for n, name in enumerate(file.intents)}
        self._asset_lists = {name for name, source in file.lists.items() if source.plant == "assets"}
        self._tag_lists = {name for name, source in file.lists.items() if source.plant in TAG_LISTS}
        self._number_lists = {name for name, source in file.lists.items() if source.plant == "amounts" or source.range}

    def knowing(self, playbooks: Playbooks) -> Phrases:
        """Return the language with these playbooks in it.

        Raises:
            ConfigError: naming every fault of their sentences.
        """
        file, known = asked_for(self.file, self.plant, playbooks)
        return Phrases(file, self.plant, self.path, known)

    @cached_property
    def matcher(self) -> Matcher:
        """The matcher; building it parses every template. Raises ConfigError for one that cannot be parsed."""
        from appliance.planning.templates import Matcher

        return Matcher(self.file, self.vocabulary, self.path)

    def understand(self, text: str) -> Intent | None:
        """Return what ``text`` means, or None when no template matches it from first to last word and number."""
        if len(text) > _LONGEST:
            return None
        form = canonical(text, self.language, spaced=self.spaced)
        readings = [(self._resolved(match), match) for match in self.matcher.matches(form)] if form else []
        if not readings:
            return None
        slots, match = min(readings, key=lambda reading: self._rank(*reading))
        if not all(self.says(float(value), text) for name, value in slots.items() if name in self._number_lists):
            return None
        return Intent(match.intent, self.language, text, slots)

    def says(self, number: float, text: str) -> bool:
        """Return whether a number stands whole in ``text``: the 10 of "10/20" or of "1e1" does not."""
        return stands_whole(number, text, self.language, spaced=self.spaced)

    def reply(self, name: str, **values: str) -> str:
        """Return a reply with its placeholders filled by words.

        Raises:
            Malformed: no such reply, or a placeholder without a value.
        """
        template = self.file.replies.get(name)
        if template is None:
            raise Malformed(f"no reply {name!r} in {self.language}", name=name)
        try:
            return template.format_map(values)
        except KeyError as error:
            raise Malformed(f"reply {name!r} needs {error}", name=name) from error

    def _rank(self, slots: Mapping[str, Any], match: Match) -> tuple[bool, int, int, str]:
        """Order of readings: possible before impossible, more literal words first, then the file's order, then the slots."""
        return "refusal" in slots, -match.literal, self._order[match.intent], canonical_json(dict(slots))

    def _resolved(self, match: Match) -> dict[str, Any]:
        """Turn names into plant keys. A tag its asset does not have becomes a ``refusal``: the reply that says so."""
        slots: dict[str, Any] = {}
        asset = quantity = None
        code = "".join(str(match.slots.get(name, "")) for name in _CODE)
        for name, value in match.slots.items():
            if name in self._asset_lists:
                asset = value
            elif name in self._tag_lists:
                quantity = value
            else:
                slots[name] = int(value) if isinstance(value, float) and value.is_integer() else value
        if code:
            slots = {name: value for name, value in slots.items() if name not in _CODE} | {"code": code}
        if asset is not None:
            slots["asset"] = asset
        if quantity is not None:
            key = self.vocabulary.key_of.get((str(asset), quantity))
            slots |= {"quantity": quantity, "refusal": "no_such_tag"} if key is None else {"tag": key}
        if (fitting := self.fitting.get(str(slots.get("playbook")))) is not None and asset is not None and asset not in fitting:
            slots["refusal"] = "playbook_not_for"
        return slots


class Phrasebook:
    """All languages of the appliance."""

    def __init__(self, languages: Mapping[str, Phrases], without_playbooks: Phrasebook | None = None) -> None:
        self._languages = dict(languages)
        self._without_playbooks = without_playbooks

    @staticmethod
    def load(folder: Path, plant: Plant) -> Phrasebook:
        """Read every ``<language>.yaml`` of ``folder``.

        Raises:
            ConfigError: no file, or a fault in one: file, key and cure are named, with the nearest valid name.
        """
        paths = sorted(folder.glob("*.yaml"))
        if not paths:
            raise ConfigError("holds no phrase file", file=str(folder), key="(folder)", cure="Add en.yaml.")
        files = {path: load_phrase_file(path) for path in paths}
        return Phrasebook({file.language: Phrases(file, plant, str(path)) for path, file in files.items()})

    def knowing(self, playbooks: Playbooks) -> Phrasebook:
        """Return a phrasebook in which these playbooks can be asked for, by their sentences and by their names, and no others.

        Raises:
            ConfigError: naming every fault of their sentences: file, key and cure.
        """
        plain = self._without_playbooks or self
        return Phrasebook({language: phrases.knowing(playbooks) for language, phrases in plain._languages.items()}, plain)

    def become(self, other: Phrasebook) -> None:
        """Know from now on what ``other`` knows, for everybody who holds this one."""
        self._languages = other._languages

    def wrong_with(self, playbooks: Sequence[Playbook]) -> list[Wrong]:
        """Return what is wrong with the sentences and names of playbooks, in every language; a name that two have is the later
        one's fault. Imports the matcher."""
        files = [phrases.file for phrases in self._languages.values()]
        wrong = [*unknown_languages(self.languages, playbooks)]
        wrong += [each for file in files for each in sentence_faults(file, playbooks)]
        return wrong or [each for file in files for each in unparsed(file, playbooks)]

    @property
    def languages(self) -> tuple[str, ...]:
        """Languages that can be understood and spoken, sorted."""
        return tuple(sorted(self._languages))

    def prepare(self) -> None:
        """Import the matcher and parse every template now (0.1 to 0.2 s of CPU on x86), instead of at the first utterance.

        Raises:
            ConfigError: a template that cannot be parsed.
        """
        for phrases in self._languages.values():
            _ = phrases.matcher

    def understand(self, text: str, language: str) -> Intent | None:
        """Return the intent of a whole sentence, or None when it is not one of the phrases.

        Slots hold plant keys: ``tag`` = "motor_3.temperature", ``asset`` = "motor_3". A combination that does not exist
        (the temperature of a pump without one) comes back with ``asset``, ``quantity`` and ``refusal`` = "no_such_tag".

        Raises:
            Malformed: a language without phrases.
        """
        return self.phrases(language).understand(text)

    def grammar(self, language: str) -> Grammar:
        """Return what can be said in ``language``, for a recogniser.

        Raises:
            Malformed: a language without phrases.
            ConfigError: a template that cannot be parsed.
        """
        from appliance.planning.grammar import compile_grammar

        return compile_grammar(self.phrases(language))

    def replies(self, language: str) -> Mapping[str, str]:
        """Return reply name -> sentence template of one language.

        Raises:
            Malformed: a language without phrases.
        """
        return self.phrases(language).file.replies

    def reply(self, name: str, language: str, **values: str) -> str:
        """Return a reply with its placeholders filled by words.

        Raises:
            Malformed: a language without phrases, no such reply, or a placeholder without a value.
        """
        return self.phrases(language).reply(name, **values)

    def phrases(self, language: str) -> Phrases:
        """Return one language.

        Raises:
            Malformed: a language without phrases.
        """
        found = self._languages.get(language)
        if found is None:
            raise Malformed(f"no phrases for the language {language!r}; there are {', '.join(self.languages)}", language=language)
        return found
