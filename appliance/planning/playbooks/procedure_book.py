"""The playbooks as they can be asked for: listed, read, and turned into steps. Implements ``contracts.procedures.Procedures``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from appliance.contracts.errors import Malformed, Refused
from appliance.contracts.plan import Step
from appliance.contracts.plant import Plant
from appliance.contracts.principal import AccessLevel
from appliance.contracts.procedures import Procedure
from appliance.foundation.sentence import capital
from appliance.planning.phrase_file import references
from appliance.planning.phrases import Phrasebook
from appliance.planning.playbooks.asked_for import RUN, assets_for
from appliance.planning.playbooks.playbook_filler import Filler, Occasion
from appliance.planning.playbooks.playbook_steps import ASSET, NumberParameter, RunPlaybook, tool_of
from appliance.planning.playbooks.playbooks import Playbook, Playbooks
from appliance.planning.sample_sentence import sample_of
from appliance.planning.tongue import Tongue

_HAN = re.compile(r"[\u3400-\u9fff]")
_HEADING = re.compile(r"^#.*$", re.MULTILINE)
_MARKS = re.compile(r"[*_`>|]+|^\s*[-+]\s+", re.MULTILINE)
_SPACES = re.compile(r"\s+")
_MOST_READ = 1_200  # characters of a page that is read aloud: a minute and a half of speech
_SENTENCE_END = re.compile(r"(?<=[.!?。！？])\s*")


@dataclass(frozen=True, slots=True)
class ProcedureBook:
    """The playbooks of one state of procedural memory, for one plant. ``phrasebook`` has to know them."""

    playbooks: Playbooks
    phrasebook: Phrasebook
    plant: Plant

    def listed(self, language: str, level: AccessLevel) -> tuple[Procedure, ...]:
        """Return those that speak a language and are not above ``level``, by name."""
        tongue = self._tongue(language)
        found = map(self.playbooks.__getitem__, self.playbooks.names)
        return tuple(self._procedure(p, tongue) for p in found if p.level <= level and p.speaks(language))

    def find(self, name: str, language: str, level: AccessLevel) -> Procedure:
        """Return one.

        Raises:
            Refused: there is none of this name, or not for this level; the message is the sentence to say.
        """
        tongue = self._tongue(language)
        return self._procedure(self._known(name, tongue, level), tongue)

    def made_of(self, name: str) -> Any:
        """Return all that running one would do, as JSON; see the port."""
        if self.playbooks.find(name) is None:
            return None
        made: dict[str, Any] = {}
        waiting = [name]
        while waiting:
            playbook = self.playbooks.find(waiting.pop())
            if playbook is not None and playbook.name not in made:
                parameters = {key: each.model_dump(mode="json") for key, each in playbook.parameters.items()}
                made[playbook.name] = [parameters, [step.model_dump(mode="json") for step in playbook.steps]]
                waiting += [step.arguments.playbook for step in playbook.steps if isinstance(step, RunPlaybook)]
        return made

    def steps_of(self, name: str, given: Mapping[str, Any], language: str, level: AccessLevel) -> tuple[Step, ...]:
        """Return the steps of one that is asked for with these parameters.

        Raises:
            Refused: there is none, it is only for alarms, it is not for this machine, or something is missing; the message is the
                sentence to say.
            Malformed: it has no such parameter.
        """
        tongue = self._tongue(language)
        playbook = self._known(name, tongue, level)
        title = tongue.phrases.vocabulary.spoken_playbook(playbook.name)
        if playbook.is_for_alarms_only:
            raise Refused(tongue.reply("playbook_for_alarms", title=title))
        for strange in sorted(set(given) - set(playbook.parameters)):
            valid = ", ".join(playbook.parameters) or "none"
            raise Malformed(f"the procedure {name} has no parameter {strange!r}; valid: {valid}", parameter=strange)
        if set(playbook.parameters) - set(given):
            raise self._needs(playbook, tongue, title)
        words = {key: self._checked(playbook, key, value, tongue, title) for key, value in given.items()}
        return Filler(Occasion(self.plant.site, dict(given), words), tongue, playbook).steps()

    def _known(self, name: str, tongue: Tongue, level: AccessLevel) -> Playbook:
        playbook = self.playbooks.find(name)
        if playbook is None or playbook.level > level or not playbook.speaks(tongue.language):
            is_hidden = playbook is not None and playbook.level > level
            said = tongue.reply("playbook_unknown")  # not its name: that could be any sentence
            raise Refused(said, playbook=name, is_hidden=is_hidden, is_known=is_hidden)
        return playbook

    def _checked(self, playbook: Playbook, name: str, value: Any, tongue: Tongue, title: str) -> str:
        """Return a parameter in words.

        Raises:
            Refused: a machine it is not for or that is none here, or a number out of its bounds.
        """
        if name == ASSET:
            if value not in self.plant.asset_by_id:
                raise self._needs(playbook, tongue, title)
            fitting = assets_for(playbook, self.plant)
            if fitting is not None and value not in fitting:
                raise Refused(capital(tongue.reply("playbook_not_for", asset=tongue.asset(str(value)), title=title)))
            return tongue.asset(str(value))
        parameter = playbook.parameters[name]
        assert isinstance(parameter, NumberParameter)  # the only other kind
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not parameter.low <= value <= parameter.high:
            raise Refused(capital(tongue.reply("playbook_bounds", low=f"{parameter.low:g}", high=f"{parameter.high:g}")))
        return f"{value:g}"

    def _needs(self, playbook: Playbook, tongue: Tongue, title: str) -> Refused:
        example = self._example(playbook, tongue) or "…"
        return Refused(capital(tongue.reply("playbook_needs", title=title, example=example)), playbook=playbook.name)

    def _procedure(self, playbook: Playbook, tongue: Tongue) -> Procedure:
        known = self.phrasebook.replies(tongue.language)
        steps = tuple(known.get(f"what_{tool_of(step)}", tool_of(step).replace("_", " ")) for step in playbook.steps)
        return Procedure(
            name=playbook.name,
            title=tongue.phrases.vocabulary.spoken_playbook(playbook.name),
            description=playbook.description,
            level=playbook.level,
            guidance=playbook.guidance,
            steps=steps,
            text=_read_aloud(playbook.guidance, steps, tongue),
            parameters=tuple(playbook.parameters),
            is_for_alarms=playbook.is_for_alarms_only,
            example=self._example(playbook, tongue),
        )

    def _example(self, playbook: Playbook, tongue: Tongue) -> str:
        """A sentence that asks for it, about a machine it is for."""
        sentences = playbook.triggers.phrases.get(tongue.language) or _by_name(playbook, tongue)
        fitting = assets_for(playbook, self.plant)
        named = [a.id for a in self.plant.assets if fitting is None or a.id in fitting]
        asset = next((a for a in named if tongue.phrases.vocabulary.assets[a]), "")
        if not sentences or (fitting is not None and not asset):
            return ""
        low = {name: f"{p.low:g}" for name, p in playbook.parameters.items() if isinstance(p, NumberParameter)}
        title = tongue.phrases.vocabulary.spoken_playbook(playbook.name)
        return sample_of(sentences[0], tongue.phrases, low | {ASSET: tongue.asset(asset), "playbook": title})

    def _tongue(self, language: str) -> Tongue:
        return Tongue(self.phrasebook.phrases(language), self.plant)


def _by_name(playbook: Playbook, tongue: Tongue) -> list[str]:
    """The sentences of the phrases that ask for any playbook by its name, with its machine if it is for one; none where a number
    would have to be said as well."""
    own = tongue.phrases.file.intents.get(RUN)
    if own is None or set(playbook.parameters) - {ASSET}:
        return []
    sentences = [sentence for block in own.data for sentence in block.sentences]
    is_asked = {"playbook", *playbook.parameters}
    return [sentence for sentence in sentences if references(sentence)[0] == is_asked]


def _read_aloud(guidance: str, steps: tuple[str, ...], tongue: Tongue) -> str:
    """The page without its marks, if it is written in the language; else the steps."""
    plain = _SPACES.sub(" ", _MARKS.sub("", _HEADING.sub("", guidance))).strip()
    if not plain or bool(_HAN.search(plain)) is not (tongue.language == "zh"):
        return tongue.reply("playbook_steps", steps="; ".join(f"{n}. {step}" for n, step in enumerate(dict.fromkeys(steps), 1)))
    if len(plain) <= _MOST_READ:
        return plain
    kept = ""
    for sentence in _SENTENCE_END.split(plain):
        if len(kept) + len(sentence) > _MOST_READ:
            break
        kept = f"{kept} {sentence}".strip()
    return kept or plain[:_MOST_READ]
