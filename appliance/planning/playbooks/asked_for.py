"""What can be asked of a phrasebook because of playbooks: their own sentences, and their names. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from appliance.contracts.errors import ConfigError
from appliance.contracts.plant import Plant
from appliance.foundation.yaml_file import fault_of, nearest, refuse_all
from appliance.planning.canonical_text import canonical
from appliance.planning.expressions import Choice, Expression, Sequence, Use
from appliance.planning.phrase_file import IntentPhrases, PhraseFile, Sentences, template_faults
from appliance.planning.playbooks.playbook_steps import ASSET, AssetParameter
from appliance.planning.playbooks.playbooks import Playbook, Playbooks, Wrong
from appliance.planning.spoken_numbers import NUMBER_LANGUAGES

RUN = "run_playbook"
"""The intent of a playbook's own sentences; its slot ``playbook`` says which."""


@dataclass(frozen=True, slots=True)
class AskedFor:
    """The playbooks that speak one language. ``names``: what each is called. ``fitting``: the assets it can be asked for, of one
    that is about a machine."""

    names: Mapping[str, list[str]]
    fitting: Mapping[str, frozenset[str]]


def asked_for(file: PhraseFile, plant: Plant, playbooks: Playbooks) -> tuple[PhraseFile, AskedFor]:
    """Return a language's phrases with the sentences of playbooks in them, and what else is to be known of these.

    Raises:
        ConfigError: naming every fault of their sentences: file, key and cure.
    """
    if wrong := sentence_faults(file, map(playbooks.__getitem__, playbooks.names)):
        raise refuse_all([(each.path, each.fault) for each in wrong])
    spoken = [playbooks[name] for name in playbooks.names if playbooks[name].speaks(file.language)]
    asked_by = {p.name: p.triggers.phrases.get(file.language, []) for p in spoken}
    blocks = [Sentences(sentences=told, slots={"playbook": name}) for name, told in asked_by.items() if told]
    names = {p.name: _names(p, file) for p in spoken}
    fitting = {p.name: fit for p in spoken if (fit := assets_for(p, plant)) is not None}
    own = file.intents.get(RUN)
    data = [*(own.data if own else ()), *blocks]
    intents = dict(file.intents) | ({RUN: IntentPhrases(data=data)} if data else {})
    return file.model_copy(update={"intents": intents}), AskedFor(names, fitting)


def sentence_faults(file: PhraseFile, playbooks: Iterable[Playbook]) -> list[Wrong]:
    """Return what is wrong with the sentences and names of playbooks in one language. A name that two have is the second one's
    fault."""
    wrong: list[Wrong] = []
    owners: dict[str, str] = {}
    for playbook in playbooks:
        if not playbook.speaks(file.language):
            continue
        for n, sentence in enumerate(playbook.triggers.phrases.get(file.language, [])):
            key = f"triggers.phrases.{file.language}.{n}"
            wrong += [Wrong(playbook.name, playbook.path, fault) for fault in template_faults(file, key, sentence)]
        for n, name in enumerate(playbook.triggers.names.get(file.language, [])):
            key, cure = f"triggers.names.{file.language}.{n}", "Write what people say; only sentences are templates."
            if set(name) & set("()[]{}<>|"):
                wrong.append(Wrong(playbook.name, playbook.path, (key, f"{name!r} has brackets or a bar", cure)))
            elif not canonical(name, file.language, spaced=not file.settings.ignore_whitespace):
                wrong.append(Wrong(playbook.name, playbook.path, (key, f"{name!r} has no letters", cure)))
        for name in _names(playbook, file):
            form = canonical(name, file.language, spaced=not file.settings.ignore_whitespace)
            if (owner := owners.setdefault(form, playbook.name)) != playbook.name:
                fault = (f"triggers.names.{file.language}", f"{name!r} is also a name of {owner}", "Give it another name.")
                wrong.append(Wrong(playbook.name, playbook.path, fault))
    return wrong


def unparsed(file: PhraseFile, playbooks: Iterable[Playbook]) -> Iterator[Wrong]:
    """Yield the sentences of playbooks in one language that the matcher cannot parse. It is imported for that."""
    from appliance.planning.templates import parsed

    def rule(name: str) -> Expression:
        return parsed(file.expansion_rules[name], file.language, f"expansion_rules.{name}")

    for playbook in playbooks:
        for n, sentence in enumerate(playbook.triggers.phrases.get(file.language, [])):
            key = f"triggers.phrases.{file.language}.{n}"
            try:
                said = parsed(sentence, playbook.path, key)
                if _can_be_nothing(said, rule):
                    fault = (key, f"{sentence!r} can be said with no word at all", "Leave a word outside the brackets.")
                    yield Wrong(playbook.name, playbook.path, fault)
            except ConfigError as error:
                yield Wrong(playbook.name, playbook.path, fault_of(error))


def _can_be_nothing(said: Expression, rule: Callable[[str], Expression]) -> bool:
    match said:
        case Choice(options):
            return any(_can_be_nothing(option, rule) for option in options)
        case Sequence(parts):
            return all(_can_be_nothing(part, rule) for part in parts)
        case Use(name, is_list=False):
            return _can_be_nothing(rule(name), rule)
        case _:
            return False


def unknown_languages(known: Collection[str], playbooks: Iterable[Playbook]) -> Iterator[Wrong]:
    """Yield the languages of playbooks that nobody here speaks; those that are shipped may be left out by a site."""
    spoken = {*known, *NUMBER_LANGUAGES}
    for playbook in playbooks:
        for key, told in (("phrases", playbook.triggers.phrases), ("names", playbook.triggers.names)):
            for language in sorted(set(told) - spoken):
                fault = (f"triggers.{key}.{language}", "is a language without phrases", nearest(language, spoken))
                yield Wrong(playbook.name, playbook.path, fault)


def assets_for(playbook: Playbook, plant: Plant) -> frozenset[str] | None:
    """Return the assets a playbook can be asked for; None when it is about no machine."""
    parameter = playbook.parameters.get(ASSET)
    if not isinstance(parameter, AssetParameter):
        return None
    return frozenset(a.id for a in plant.assets if all(f"{a.id}.{tag}" in plant.tag_by_key for tag in parameter.tags))


def _names(playbook: Playbook, file: PhraseFile) -> list[str]:
    """What people call it. The name of its folder is English."""
    own = [playbook.name.replace("-", " ")] if file.language == "en" else []
    return playbook.triggers.names.get(file.language) or own
