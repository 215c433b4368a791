"""What can be asked of a phrasebook because of playbooks: their own sentences, and their names. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from appliance.contracts.plant import Plant
from appliance.planning.phrase_file import IntentPhrases, PhraseFile, Sentences, template_faults
from appliance.planning.playbooks.playbook_steps import ASSET, AssetParameter
from appliance.planning.playbooks.playbooks import Playbook, Playbooks
from appliance.planning.vocabulary import canonical
from appliance.planning.yaml_file import Fault, refuse_all

RUN = "run_playbook"
"""The intent of a playbook's own sentences; its slot ``playbook`` says which."""


@dataclass(frozen=True, slots=True)
class AskedFor:
    """The playbooks that speak one language. ``names``: what each is called. ``fitting``: the assets it can be asked for, of one
    that is about a machine."""

    names: Mapping[str, Sequence[str]]
    fitting: Mapping[str, frozenset[str]]


def asked_for(file: PhraseFile, plant: Plant, playbooks: Playbooks) -> tuple[PhraseFile, AskedFor]:
    """Return a language's phrases with the sentences of playbooks in them, and what else is to be known of these.

    Raises:
        ConfigError: naming every fault of their sentences: file, key and cure.
    """
    spoken = [playbooks[name] for name in playbooks.names if playbooks[name].speaks(file.language)]
    blocks: list[Sentences] = []
    faults: list[tuple[str, Fault]] = []
    for playbook in spoken:
        sentences = playbook.triggers.phrases.get(file.language, [])
        for n, sentence in enumerate(sentences):
            key = f"triggers.phrases.{file.language}.{n}"
            faults += [(playbook.path, fault) for fault in template_faults(file, key, sentence)]
        if sentences:
            blocks.append(Sentences(sentences=sentences, slots={"playbook": playbook.name}))
    names = {p.name: p.triggers.names.get(file.language) or _own_name(p, file) for p in spoken}
    faults += _shared_names(spoken, names, file)
    if faults:
        raise refuse_all(faults)
    fitting = {p.name: fit for p in spoken if (fit := assets_for(p, plant)) is not None}
    own = file.intents.get(RUN)
    data = [*(own.data if own else ()), *blocks]
    intents = dict(file.intents) | ({RUN: IntentPhrases(data=data)} if data else {})
    return file.model_copy(update={"intents": intents}), AskedFor(names, fitting)


def _shared_names(
    spoken: Sequence[Playbook], names: Mapping[str, Sequence[str]], file: PhraseFile
) -> Iterator[tuple[str, Fault]]:
    """Yield the names that two playbooks have: nobody could say which is meant."""
    owners: dict[str, str] = {}
    for playbook in spoken:
        for name in names[playbook.name]:
            form = canonical(name, file.language, spaced=not file.settings.ignore_whitespace)
            if (owner := owners.setdefault(form, playbook.name)) != playbook.name:
                key = f"triggers.names.{file.language}"
                yield playbook.path, (key, f"{name!r} is also a name of {owner}", "Give it another name.")


def assets_for(playbook: Playbook, plant: Plant) -> frozenset[str] | None:
    """Return the assets a playbook can be asked for; None when it is about no machine."""
    parameter = playbook.parameters.get(ASSET)
    if not isinstance(parameter, AssetParameter):
        return None
    return frozenset(a.id for a in plant.assets if all(f"{a.id}.{tag}" in plant.tag_by_key for tag in parameter.tags))


def _own_name(playbook: Playbook, file: PhraseFile) -> list[str]:
    """The name of its folder is English."""
    return [playbook.name.replace("-", " ")] if file.language == "en" else []
