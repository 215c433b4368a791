"""One language's phrase file: hassil's format, plus ``units:``, ``replies:`` and lists that the plant model fills.

language: en
settings: {ignore_whitespace: false}
intents: {read_tag: {data: [{sentences: ["what is the {quantity} of {asset}"], slots: {}}]}}
lists: {asset: {plant: assets}, place: {values: [here, {in: over there, out: there}]}}
expansion_rules: {please: "[please]"}
units: {"%": {hear: [percent], say: "{n} percent"}}
replies: {cancelled: "Nothing was changed."}
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from appliance.foundation.yaml_file import Fault, load_mapping, nearest, refuse, validate
from appliance.planning import replies
from appliance.planning.barred_words import GAP, BarredWords
from appliance.planning.canonical_text import canonical
from appliance.planning.intents import INTENTS, LIMITS, REQUIRED

PlantList = Literal["assets", "tags", "states", "writable_tags", "amounts", "units", "alarms", "playbooks"]
"""What the plant model can fill a list with: spoken names of assets, of tags that measure something, of tags that are on or
off, of tags that can be set; numbers within the reach of those; the words of the units; the texts of the alarms; and the names
of the playbooks, which are none of the plant's but come from outside the file as well."""

TAG_LISTS: tuple[PlantList, ...] = ("writable_tags", "states", "tags")
"""Those that name a tag. To the matcher they are all the same; they differ in what a recogniser is told to expect."""

_REFERENCE = re.compile(r"\{([^}:]+)(?::[^}]+)?\}|<([^>]+)>")
STAND_INS = ("asset", "tag", "amount", "alarm")
"""What an example can name: a machine, one of its values, a number with its unit, an alarm."""

NOTHING_OF_OURS = "not_understood"
"""Key of the examples of what is none of our business: chatter that would be near to something else."""

_BRACES = re.compile(r"\{([^{}]*)\}")
_GLUED = re.compile(r"[\w'][\[({<]|[\])}>][\w']")


class _Closed(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Settings(_Closed):
    """``ignore_whitespace``: the language is written without spaces; in templates they part the recogniser's words."""

    ignore_whitespace: bool = False


class Sentences(_Closed):
    """Templates that mean the same; ``slots`` are set whenever one of them matches."""

    sentences: list[str] = Field(min_length=1)
    slots: dict[str, str | bool | float] = {}


class IntentPhrases(_Closed):
    """All ways to say one intent."""

    data: list[Sentences] = Field(min_length=1)


class ListValue(_Closed):
    """``heard`` (key ``in``) is what is said, ``meant`` (key ``out``) what it stands for."""

    heard: str = Field(alias="in")
    meant: str | float | bool = Field(alias="out")


class Range(_Closed):
    """Whole numbers, both ends included."""

    lowest: int = Field(alias="from")
    highest: int = Field(alias="to")


class SlotWords(_Closed):
    """A list: its values, a range of numbers, or what the plant model has. Exactly one of the three."""

    values: list[str | ListValue] | None = None
    range: Range | None = None
    plant: PlantList | None = None

    @model_validator(mode="after")
    def _one_source(self) -> SlotWords:
        if sum(source is not None for source in (self.values, self.range, self.plant)) != 1:
            raise ValueError("a list has exactly one of values, range and plant")
        return self


class Unit(_Closed):
    """``hear`` are the words people use, ``say`` how a number ``{n}`` of it is said."""

    hear: list[str] = Field(min_length=1)
    say: str

    @model_validator(mode="after")
    def _says_the_number(self) -> Unit:
        if "{n}" not in self.say:
            raise ValueError("say must contain {n}")
        return self


class Examples(_Closed):
    """What people say when they mean the sentence ``means``, which is one of the phrases: ``{asset}`` stands for the machine they
    name. Without ``means`` it is what is none of our business."""

    means: str = ""
    say: list[str] = Field(min_length=1)


class ExampleWords(_Closed):
    """``stand_ins``: words that stand for names when likeness is looked at, so that no machine's name makes a difference.
    ``never``: words of what is no question about now, nor an order; ``never_an_order``: those that only an order has not;
    ``never_in``: those of one intent; ``always_in``: those of which one intent has at least one (``planning.barred_words``)."""

    stand_ins: dict[str, str] = {}
    never: list[str] = []
    never_an_order: list[str] = []
    never_in: dict[str, list[str]] = {}
    always_in: dict[str, list[str]] = {}
    intents: dict[str, list[Examples]] = {}


class PhraseFile(_Closed):
    """A validated phrase file. ``full_stop`` ends a sentence in this language. ``examples`` are for wording nobody foresaw."""

    language: str
    settings: Settings = Settings()
    intents: dict[str, IntentPhrases] = Field(min_length=1)
    lists: dict[str, SlotWords] = {}
    expansion_rules: dict[str, str] = {}
    units: dict[str, Unit] = {}
    replies: dict[str, str] = {}
    examples: ExampleWords = ExampleWords()
    full_stop: str = "."

    def templates(self) -> Iterator[tuple[str, str]]:
        """Yield (key, template) of every sentence and rule."""
        for name, intent in self.intents.items():
            for n, block in enumerate(intent.data):
                yield from ((f"intents.{name}.data.{n}.sentences.{m}", text) for m, text in enumerate(block.sentences))
        yield from ((f"expansion_rules.{name}", body) for name, body in self.expansion_rules.items())


def load_phrase_file(path: Path) -> PhraseFile:
    """Read and check ``<language>.yaml``.

    Raises:
        ConfigError: naming every fault with its key and its cure.
    """
    phrases = validate(PhraseFile, load_mapping(path), str(path))
    faults = [
        *_language_fault(phrases, path),
        *_intent_faults(phrases),
        *_template_faults(phrases),
        *_example_faults(phrases),
        *_untaken_faults(phrases),
        *replies.faults_of(phrases.replies),
    ]
    if faults:
        raise refuse(str(path), faults)
    return phrases


def references(template: str) -> tuple[set[str], set[str]]:
    """Return the names of the lists and of the rules a template uses."""
    found = _REFERENCE.findall(template)
    return {name for name, _ in found if name}, {rule for _, rule in found if rule}


def _language_fault(phrases: PhraseFile, path: Path) -> list[Fault]:
    if phrases.language == path.stem:
        return []
    return [("language", f"is {phrases.language!r} in a file named {path.name}", f"Write `language: {path.stem}`.")]


def _intent_faults(phrases: PhraseFile) -> list[Fault]:
    faults = [(f"intents.{n}", "is not a known intent", nearest(n, INTENTS)) for n in phrases.intents if n not in INTENTS]
    faults += [(f"intents.{n}", "is missing", f"Say how people {n}.") for n in REQUIRED if n not in phrases.intents]
    for name, intent in phrases.intents.items():
        for n, block in enumerate(intent.data):
            key = f"intents.{name}.data.{n}"
            limit = block.slots.get("limit", LIMITS[0])
            if limit not in LIMITS:
                faults.append((f"{key}.slots.limit", f"is {limit!r}", nearest(str(limit), LIMITS)))
            for m, template in enumerate(block.sentences):
                named = _what_is_named(phrases, template, frozenset()) | set(block.slots)
                faults += [
                    (f"{key}.sentences.{m}", f"names no {lacking}", f"Use a list or a slot that gives the {lacking}.")
                    for lacking in sorted(INTENTS.get(name, frozenset()) - named)
                ]
    return faults


def _what_is_named(phrases: PhraseFile, template: str, seen: frozenset[str]) -> set[str]:
    """Which of asset, tag, amount and alarm a template names, through its rules as well."""
    meaning = {"assets": "asset", "amounts": "amount", "alarms": "alarm", "playbooks": "playbook"}
    meaning |= dict.fromkeys(TAG_LISTS, "tag")
    lists, rules = references(template)
    named = {meaning.get(str(phrases.lists[n].plant), n) for n in lists if n in phrases.lists}
    for rule in rules - seen:
        named |= _what_is_named(phrases, phrases.expansion_rules.get(rule, ""), seen | {rule})
    return named


def _template_faults(phrases: PhraseFile) -> list[Fault]:
    faults: list[Fault] = []
    for key, template in phrases.templates():
        faults += template_faults(phrases, key, template)
    return faults + _circles(phrases.expansion_rules)


def _example_faults(phrases: PhraseFile) -> Iterator[Fault]:
    """What of the examples can be seen without a plant: whether their intents and the names in braces are known."""
    for kind in sorted(set(phrases.examples.stand_ins) - set(STAND_INS)):
        yield f"examples.stand_ins.{kind}", "is not known", nearest(kind, STAND_INS)
    for intent, labelled in phrases.examples.intents.items():
        key = f"examples.intents.{intent}"
        if intent != NOTHING_OF_OURS and intent not in phrases.intents:
            yield key, "is none of the intents above", nearest(intent, phrases.intents)
        for n, label in enumerate(labelled):
            if bool(label.means) is (intent == NOTHING_OF_OURS):
                wrong, cure = ("means nothing here", "Leave it out.") if label.means else ("is missing", "Write what it means.")
                yield f"{key}.{n}.means", wrong, cure
            for m, text in enumerate((label.means, *label.say)):
                where = f"{key}.{n}.say.{m - 1}" if m else f"{key}.{n}.means"
                named = set(_BRACES.findall(text))
                for name in sorted(named - set(STAND_INS)):
                    yield where, f"unknown name {{{name}}}", nearest(name, STAND_INS)
                if m and label.means and named != set(_BRACES.findall(label.means)):
                    yield where, "names other things than what it means", f"Name the same as in {label.means!r}."


def shown(example: str, phrases: PhraseFile) -> str:
    """Return an example, or one of its words, as the likeness of utterances is looked at: ``{asset}`` as its stand-in."""
    plain = example
    for kind, stand_in in phrases.examples.stand_ins.items():
        plain = plain.replace(f"{{{kind}}}", stand_in)
    return canonical(plain, phrases.language, spaced=not phrases.settings.ignore_whitespace)


def barred_words(phrases: PhraseFile) -> BarredWords:
    """Return the words by which a language's utterances are kept from examples."""
    words, spaced = phrases.examples, not phrases.settings.ignore_whitespace
    lists = words.never, words.never_an_order, words.never_in, words.always_in
    return BarredWords(*lists, lambda text: shown(text, phrases), spaced=spaced)


def _untaken_faults(phrases: PhraseFile) -> Iterator[Fault]:
    """What could never be taken and would not be missed: examples with a word that bars them, or that mean two things."""
    words = phrases.examples
    lists = {"never": words.never, "never_an_order": words.never_an_order}
    by_intent = {"never_in": words.never_in, "always_in": words.always_in}
    lists |= {f"{name}.{intent}": listed for name, of in by_intent.items() for intent, listed in of.items()}
    for name, listed in lists.items():
        for n, word in enumerate(listed):
            if not any(shown(part, phrases) for part in word.split(GAP)):
                yield f"examples.{name}.{n}", f"{word!r} has no letters", "Write a word, or leave it out."
    for name, intent in ((name, intent) for name, of in by_intent.items() for intent in of):
        if intent not in words.intents or intent == NOTHING_OF_OURS:
            yield f"examples.{name}.{intent}", "has no examples", nearest(intent, set(words.intents) - {NOTHING_OF_OURS})
    barred = barred_words(phrases)
    meant: dict[str, tuple[str, str]] = {}
    for intent, labelled in words.intents.items():
        for n, label in enumerate(labelled):
            for m, text in enumerate(label.say):
                key, form = f"examples.intents.{intent}.{n}.say.{m}", shown(text, phrases)
                if intent != NOTHING_OF_OURS and (found := barred.found(intent, form)):
                    cure = f"Say it without that word, or take the word out of examples.{found[0]}."
                    yield key, f"{text!r} has the word {found[1]!r}, so it would never be taken", cure
                if barred.lacks(intent, form):
                    cure = f"Say it with one, or add its word to examples.always_in.{intent}."
                    yield key, f"{text!r} has none of the words that it always has, so it would never be taken", cure
                first, means = meant.setdefault(form, (key, label.means))
                if means != label.means:
                    yield key, f"{text!r} means something else at {first}, so neither would be taken", "Leave one of them out."


def template_faults(phrases: PhraseFile, key: str, template: str) -> list[Fault]:
    """Return what is wrong with one template in the terms of a phrase file; ``key`` is where it stands."""
    lists, rules = references(template)
    faults = [(key, f"unknown list {{{n}}}", nearest(n, phrases.lists)) for n in sorted(lists - set(phrases.lists))]
    faults += [
        (key, f"unknown rule <{n}>", nearest(n, phrases.expansion_rules)) for n in sorted(rules - set(phrases.expansion_rules))
    ]
    if not phrases.settings.ignore_whitespace and (glued := _GLUED.search(template)):
        cure = "Put a space there and write whole words: (pump|pumps)."
        faults.append((key, f"a word is glued to a bracket at {glued[0]!r}", cure))
    if _unpaired(template):
        faults.append((key, "brackets do not pair", "Close every ( [ { and <."))
    if template.strip() == "":
        faults.append((key, "is empty", "Write a sentence."))
    return faults


def _unpaired(template: str) -> bool:
    waiting: list[str] = []
    pairs = {")": "(", "]": "[", "}": "{", ">": "<"}
    for character in template:
        if character in pairs.values():
            waiting.append(character)
        elif character in pairs and (not waiting or waiting.pop() != pairs[character]):
            return True
    return bool(waiting)


def _circles(rules: Mapping[str, str]) -> list[Fault]:
    """Rules that use themselves, which no matcher could ever finish."""

    def reaches(name: str, target: str, seen: frozenset[str]) -> bool:
        used = references(rules.get(name, ""))[1]
        return target in used or any(reaches(n, target, seen | {n}) for n in used - seen)

    return [
        (f"expansion_rules.{name}", "uses itself", "Write it without itself.")
        for name in rules
        if reaches(name, name, frozenset({name}))
    ]


def as_hassil(phrases: PhraseFile, rewrite: Callable[[str], str]) -> dict[str, Any]:
    """Return intents and rules in hassil's own form, each template passed through ``rewrite``."""
    return {
        "language": phrases.language,
        "settings": {"ignore_whitespace": phrases.settings.ignore_whitespace},
        "intents": {
            name: {"data": [{"sentences": [rewrite(s) for s in block.sentences], "slots": block.slots} for block in intent.data]}
            for name, intent in phrases.intents.items()
        },
        "expansion_rules": {name: rewrite(body) for name, body in phrases.expansion_rules.items()},
    }
