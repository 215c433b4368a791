"""The adapter of hassil: parses its sentence templates, and matches what was heard against them.

Importing this module imports hassil (measured 0.1 to 0.2 s of CPU on x86), so it is imported when first needed.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import hassil
from hassil.expression import Alternative, Group, ListReference, Permutation, RuleReference, TextChunk
from hassil.parser import ParseError

from appliance.contracts.errors import ConfigError
from appliance.planning.canonical_text import canonical
from appliance.planning.expressions import EMPTY, Expression, Use, choice, sequence, words
from appliance.planning.phrase_file import TAG_LISTS, PhraseFile, SlotWords, as_hassil
from appliance.planning.vocabulary import Vocabulary

_SYNTAX = frozenset("()[]{}<>|;")


@dataclass(frozen=True, slots=True)
class Match:
    """One complete reading of a sentence. ``literal`` counts the letters that templates matched word for word."""

    intent: str
    slots: dict[str, Any]
    literal: int


class Matcher:
    """Matches canonical text against one language's templates. Holds no state between sentences."""

    def __init__(self, phrases: PhraseFile, vocabulary: Vocabulary, file: str) -> None:
        """Parses every template now.

        Raises:
            ConfigError: a template that hassil cannot parse.
        """
        spaced = not phrases.settings.ignore_whitespace

        def form(text: str) -> str:
            return canonical(text, phrases.language, spaced=spaced)

        def rewrite(template: str) -> str:
            return rewrite_literals(template, form, spaced=spaced)

        for key, template in phrases.templates():
            parsed(rewrite(template), file, key)
        self._intents = hassil.Intents.from_dict(as_hassil(phrases, rewrite))
        self._lists: dict[str, hassil.SlotList] = {
            name: _slot_list(name, phrases.lists[name], vocabulary, form, rewrite) for name in phrases.lists
        }
        for intent in self._intents.intents.values():
            for block in intent.data:
                _ = block.sentences  # parsed here rather than during the first conversation

    def matches(self, text: str) -> Iterator[Match]:
        """Yield every complete reading of ``text``, which must be canonical."""
        for found in hassil.recognize_all(text, self._intents, slot_lists=self._lists):
            slots = {name: entity.value for name, entity in found.entities.items()}
            yield Match(found.intent.name, slots, found.text_chunks_matched)


def rewrite_literals(template: str, form: Callable[[str], str], *, spaced: bool) -> str:
    """Return a template with ``form`` applied to its literal words; its syntax and the spaces round it stay."""
    written: list[str] = []
    literal = ""
    depth_in_name = 0

    def flush() -> None:
        nonlocal literal
        if literal:
            core = form(literal)
            ahead = " " if spaced and literal[0].isspace() else ""
            behind = " " if spaced and literal[-1].isspace() and core else ""
            written.append(f"{ahead}{core}{behind}")
            literal = ""

    for character in template:
        if depth_in_name == 0 and character not in _SYNTAX:
            literal += character
            continue
        flush()
        depth_in_name += (character in "{<") - (character in "}>")
        written.append(character)
    flush()
    return "".join(written)


def parsed(template: str, file: str, key: str) -> Expression:
    """Return a template as an expression of words, rules and lists.

    Raises:
        ConfigError: hassil cannot parse it.
    """
    try:
        return _expression(hassil.parse_sentence(template).expression)
    except (ParseError, AssertionError, ValueError) as error:
        cure = "See hassil's templates: (a|b), [optional], {list}, <rule>."
        raise ConfigError(f"not a template: {template!r} ({error})", file=file, key=key, cure=cure) from error


def _expression(found: Any) -> Expression:
    match found:
        case TextChunk():
            return words(found.original_text)
        case ListReference():
            return Use(found.list_name, is_list=True)
        case RuleReference():
            return Use(found.rule_name)
        case Alternative():
            return choice(*(_expression(item) for item in found.items))
        case Permutation():
            orders = itertools.permutations([_expression(item) for item in found.items])
            return choice(*(sequence(*order) for order in orders))
        case Group():
            return sequence(*(_expression(item) for item in found.items))
        case _:
            return EMPTY


class _Amounts(hassil.RangeSlotList):
    """Any decimal number: limits are the planner's business, so that a number beyond them is understood and refused."""

    def get_numbers(self) -> Any:
        return _EveryNumber()


class _EveryNumber:
    def __contains__(self, number: float) -> bool:
        return True


def _slot_list(
    name: str, source: SlotWords, vocabulary: Vocabulary, form: Callable[[str], str], rewrite: Callable[[str], str]
) -> hassil.SlotList:
    if source.range is not None:
        return hassil.RangeSlotList(name, source.range.lowest, source.range.highest, words=False)
    if source.plant == "amounts":
        return _Amounts(name, 0, 0, fraction_type=hassil.RangeFractionType.TENTHS, words=False)
    if source.plant == "assets":
        pairs: list[tuple[str, Any]] = [(n.canonical, asset) for asset, names in vocabulary.assets.items() for n in names]
    elif source.plant == "playbooks":
        pairs = [(n.canonical, playbook) for playbook, names in vocabulary.playbooks.items() for n in names]
    elif source.plant == "alarms":
        pairs = [(name.canonical, alarm) for alarm, name in vocabulary.alarms.items()]
    elif source.plant in TAG_LISTS:
        # Every tag's name, whatever the list: that a tag cannot be set is an answer, not a sentence nobody understands.
        pairs = [(n, n) for n in dict.fromkeys(n.canonical for names in vocabulary.tags.values() for n in names)]
    elif source.plant == "units":
        pairs = [(form(word), symbol) for word, symbol in vocabulary.unit_words]
    else:
        values = [(v, v) if isinstance(v, str) else (v.heard, v.meant) for v in source.values or ()]
        return hassil.TextSlotList.from_tuples([(rewrite(heard), meant) for heard, meant in values], name=name)
    return hassil.TextSlotList.from_tuples(pairs, allow_template=False, name=name)
