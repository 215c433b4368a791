"""Compiles the phrase templates into a recogniser's grammar: what can be said is what can be recognised.

The grammar is narrower than the matcher in two places. Only asset and tag combinations that exist are in it, because a
recogniser can only choose among what it is given; and of the names of tags in a sentence that sets one, only those of
writable tags. Every sentence of the grammar is understood by the matcher.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from appliance.contracts.speech import Grammar
from appliance.planning.expressions import NOTHING, Choice, Expression, Rules, Sequence, Use, choice, jsgf, sequence, words
from appliance.planning.number_grammar import numbers
from appliance.planning.phrase_file import TAG_LISTS
from appliance.planning.phrases import Phrases
from appliance.planning.templates import parsed, rewrite_literals
from appliance.planning.vocabulary import AssetGroup, Name

MOST_SENTENCES = 4_000
"""Bound of the sampled sentences (contract of ``Grammar``)."""

CONFIRMATION = ("confirm", "deny")
"""Intents that answer a question."""

_GOLDEN = 0.6180339887498949  # steps of this share of the whole spread samples evenly over every choice (Weyl sequence)


def compile_grammar(phrases: Phrases) -> Grammar:
    """Return the grammar of one language for its plant.

    Raises:
        ConfigError: a template that cannot be parsed.
    """
    compiler = _Compiler(phrases)
    intents = compiler.intents()
    command = choice(*intents.values())
    confirm = choice(*(intents[name] for name in CONFIRMATION if name in intents))
    rules = compiler.rules
    name = f"floorhand_{phrases.language}"
    vocabulary = tuple(sorted(set(rules.terminals(command))))
    return Grammar(
        language=phrases.language,
        jsgf=_written(name, command, rules),
        confirm_jsgf=_written(f"{name}_confirm", confirm, rules),
        words=vocabulary,
        sentences=_sampled(rules, list(intents.values()), vocabulary),
    )


def _written(name: str, command: Expression, rules: Rules) -> str:
    used = rules.used_by(command)
    return jsgf(name, command, {rule: body for rule, body in rules.bodies.items() if rule in used})


def _sampled(rules: Rules, intents: list[Expression], vocabulary: tuple[str, ...]) -> tuple[str, ...]:
    """Return at most MOST_SENTENCES different sentences: all of an intent with few, an even spread of one with many, and one for
    each word of the vocabulary that would be missing."""
    shares: dict[int, int] = {}
    left = max(MOST_SENTENCES - len(vocabulary), MOST_SENTENCES // 2)
    by_size = sorted(range(len(intents)), key=lambda n: rules.count(intents[n]))
    for position, n in enumerate(by_size):
        shares[n] = min(rules.count(intents[n]), left // (len(by_size) - position))
        left -= shares[n]
    sentences: dict[str, None] = {}
    for n, intent in enumerate(intents):
        total = rules.count(intent)
        step = _coprime(total)
        sentences |= {" ".join(rules.nth(intent, i * step % total)): None for i in range(shares[n])}
    missing = set(vocabulary) - {word for sentence in sentences for word in sentence.split()}
    for word in sorted(missing)[: MOST_SENTENCES - len(sentences)]:
        sentences |= {" ".join(said): None for intent in intents if (said := rules.with_word(intent, word)) is not None}
    return tuple(sentences)[:MOST_SENTENCES]


def _coprime(total: int) -> int:
    """The step nearest the golden share of ``total`` that visits every number below it."""
    step = max(1, int(total * _GOLDEN))
    while math.gcd(step, total) != 1:
        step += 1
    return step


@dataclass(frozen=True, slots=True)
class _Binding:
    """The group of assets that a sentence is being compiled for; ``label`` tells its rules from those of other groups."""

    label: str
    group: AssetGroup
    playbook: tuple[Name, ...] = ()


@dataclass(slots=True)
class _Compiler:
    phrases: Phrases
    rules: Rules = field(default_factory=Rules)
    _templates: dict[str, Expression] = field(default_factory=dict)

    def intents(self) -> dict[str, Expression]:
        """Intent name -> everything that says it; intents that this plant leaves without a sentence are not there."""
        file = self.phrases.file
        self._templates = {name: self._parsed(body, f"expansion_rules.{name}") for name, body in file.expansion_rules.items()}
        compiled: dict[str, Expression] = {}
        for name, intent in file.intents.items():
            sentences = [
                self._filled(self._parsed(text, f"intents.{name}"), self._binding_of(str(block.slots.get("playbook", ""))))
                for block in intent.data
                for text in block.sentences
            ]
            body = self.rules.define(name, choice(*sentences))
            if body != NOTHING:
                compiled[name] = body
        return compiled

    def _filled(self, template: Expression, binding: _Binding | None) -> Expression:
        """Fill rules and lists in. Where a tag and its asset meet, each group of assets is offered with its own tags only."""
        if binding is None and isinstance(template, Sequence) and (kind := self._pair_meeting_in(template)):
            return choice(*(self._filled(template, b) for b in self._bindings(kind)))
        match template:
            case Sequence(parts):
                return sequence(*(self._filled(part, binding) for part in parts))
            case Choice(options):
                return choice(*(self._filled(option, binding) for option in options))
            case Use(name, is_list=True):
                return self._list(name, binding)
            case Use(name):
                body = self._templates[name]
                label = f"_{binding.label}" if binding and self._plant_sources(body) else ""
                return self._named(f"rule_{name}{label}", lambda: self._filled(body, binding))
            case _:
                return template

    def _named(self, name: str, body: Callable[[], Expression]) -> Expression:
        return Use(name) if name in self.rules.bodies else self.rules.define(name, body())

    def _list(self, name: str, binding: _Binding | None) -> Expression:
        source, vocabulary, language = self.phrases.file.lists[name], self.phrases.vocabulary, self.phrases.language
        rule = f"list_{name}"
        match source.plant:
            case None if source.range is not None:
                return numbers(source.range.lowest, source.range.highest, False, language, self.rules, rule)
            case None:
                values = [v if isinstance(v, str) else v.heard for v in source.values or ()]
                return self._named(rule, lambda: choice(*(self._parsed(v, f"lists.{name}") for v in values)))
            case "amounts":
                lowest, highest = vocabulary.amounts
                return numbers(lowest, highest, vocabulary.has_tenths, language, self.rules, rule) if highest else NOTHING
            case "units":
                return self._named(rule, lambda: choice(*(self._words(word) for word in vocabulary.set_unit_words)))
            case "alarms":
                return self._named(rule, lambda: self._names(vocabulary.alarms.values()))
            case "playbooks":
                names = binding.playbook if binding else [n for found in vocabulary.playbooks.values() for n in found]
            case "assets":
                names = binding.group.assets if binding else [n for found in vocabulary.assets.values() for n in found]
            case kind:
                tags = vocabulary.tags_of_kind(kind)
                names = binding.group.tags if binding else [n for tag in tags for n in vocabulary.tags[tag.key]]
        return self._named(f"{rule}_{binding.label}" if binding else rule, lambda: self._names(names))

    def _names(self, names: Iterable[Name]) -> Expression:
        return choice(*(self._words(name.written) for name in names))

    def _words(self, name: str) -> Expression:
        return words(self.phrases.vocabulary.said_by_recogniser(name))

    def _parsed(self, template: str, key: str) -> Expression:
        spoken = rewrite_literals(template, self.phrases.vocabulary.said_by_recogniser, spaced=True)
        return parsed(spoken, self.phrases.path, key)

    def _binding_of(self, playbook: str) -> _Binding | None:
        """The machines a playbook can be asked for; None when it is about none."""
        fitting, vocabulary = self.phrases.fitting.get(playbook), self.phrases.vocabulary
        if fitting is None:
            return None
        assets = tuple(name for asset, names in vocabulary.assets.items() if asset in fitting for name in names)
        label = f"playbook_{sorted(self.phrases.fitting).index(playbook)}"
        return _Binding(label, AssetGroup(assets, ()), vocabulary.playbooks.get(playbook, ()))

    def _bindings(self, kind: str) -> list[_Binding]:
        if kind == "playbooks":
            return [binding for playbook in self.phrases.fitting if (binding := self._binding_of(playbook)) is not None]
        groups = self.phrases.vocabulary.groups(kind)
        return [_Binding(f"{kind}_{n}", group) for n, group in enumerate(groups, start=1)]

    def _pair_meeting_in(self, template: Sequence) -> str:
        """The kind of tags, or playbooks, when parts of this very sequence bring an asset and one of them together; else ""."""
        by_part = [self._plant_sources(part) for part in template.parts]
        if sum(bool(sources) for sources in by_part) < 2:
            return ""
        sources = set().union(*by_part)
        return next((kind for kind in (*TAG_LISTS, "playbooks") if kind in sources and "assets" in sources), "")

    def _plant_sources(self, template: Expression) -> set[str]:
        """Which of assets, tags, writable tags and playbooks a template names, through its rules as well."""
        match template:
            case Sequence(inner) | Choice(inner):
                return set().union(*(self._plant_sources(part) for part in inner))
            case Use(name, is_list=True):
                return {str(self.phrases.file.lists[name].plant)} & {"assets", "playbooks", *TAG_LISTS}
            case Use(name):
                return self._plant_sources(self._templates[name])
            case _:
                return set()
