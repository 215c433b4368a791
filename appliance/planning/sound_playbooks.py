"""Loads what is sound of the playbooks in use: a fault costs its playbook alone, and those that run it.

In: the folder in use, and the one that came with the program. Out: the playbooks, the phrasebook that knows them, and what is
wrong with those that are not used. In the place of a playbook with a fault comes the one of its name from the program's folder,
if that is sound. Who calls: whoever opens the appliance; a configuration is checked by ``Playbooks.load``, which takes no fault.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from appliance.contracts.errors import ConfigError
from appliance.contracts.plant import Plant
from appliance.contracts.principal import AccessLevel
from appliance.contracts.tool import ToolContract
from appliance.foundation.yaml_file import Fault, nearest, refuse_all
from appliance.planning.phrases import Phrasebook
from appliance.planning.playbooks.playbook_contracts import NO_CONTRACTS
from appliance.planning.playbooks.playbook_sense import senseless_steps
from appliance.planning.playbooks.playbooks import Playbook, Playbooks, Wrong, read_playbooks, wrong_between


@dataclass(frozen=True, slots=True)
class Sound:
    """``unsound``: playbook -> what is wrong with it. ``phrasebook`` is prepared."""

    playbooks: Playbooks
    phrasebook: Phrasebook
    unsound: Mapping[str, ConfigError]


def load_sound(
    folder: Path,
    commit: str,
    came_with: Path,
    phrasebook: Phrasebook,
    levels: Mapping[str, AccessLevel],
    contracts: Mapping[str, ToolContract] = NO_CONTRACTS,
) -> Sound:
    """Return what can be used of ``folder``. ``levels``: what tools need, ``contracts``: what they take, by name, of those that
    are known."""
    kept, wrong = read_playbooks(folder)
    spare, _ = read_playbooks(came_with)
    ours_first = list(spare)  # of two with one name, the other one loses it
    unsound: dict[str, list[Wrong]] = {}
    while wrong or (wrong := _wrong_with(kept, ours_first, phrasebook, levels, contracts)):
        for name in dict.fromkeys(each.playbook for each in wrong):
            unsound.setdefault(name, [each for each in wrong if each.playbook == name])  # of a spare one nothing more is told
            kept.pop(name, None)
            if (instead := spare.pop(name, None)) is not None:
                kept[name] = instead
        wrong = []
    playbooks = Playbooks(kept, commit)
    known = phrasebook.knowing(playbooks)
    known.prepare()
    told = {name: refuse_all([(each.path, each.fault) for each in found]) for name, found in unsound.items()}
    return Sound(playbooks, known, told)


def load_whole(
    folder: Path,
    phrasebook: Phrasebook,
    levels: Mapping[str, AccessLevel],
    plant: Plant,
    contracts: Mapping[str, ToolContract] = NO_CONTRACTS,
) -> tuple[Playbooks, Phrasebook]:
    """Return all of ``folder``, of no commit yet, and a prepared phrasebook that knows it, to take the place of what is in use.

    Raises:
        ConfigError: naming every fault. Where a start has to do with what is sound, somebody waits here who can mend the rest.
    """
    playbooks = Playbooks.load(folder, "", levels, contracts)
    known = phrasebook.knowing(playbooks)
    known.prepare()
    wrong: list[tuple[str, Fault]] = list(senseless_steps(playbooks, plant))
    for alarm in plant.alarms:
        if alarm.playbook not in playbooks.for_faults:
            what = f"the alarm {alarm.id} needs the playbook {alarm.playbook!r}, and it is not there or for no fault"
            wrong.append((str(folder), (alarm.playbook, what, nearest(alarm.playbook, playbooks.for_faults))))
    if wrong:
        raise refuse_all(wrong)
    return playbooks, known


def _wrong_with(
    playbooks: Mapping[str, Playbook],
    first: Sequence[str],
    phrasebook: Phrasebook,
    levels: Mapping[str, AccessLevel],
    contracts: Mapping[str, ToolContract],
) -> list[Wrong]:
    ordered = [playbooks[name] for name in dict.fromkeys((*first, *sorted(playbooks))) if name in playbooks]
    return [*wrong_between(playbooks, levels, contracts), *phrasebook.wrong_with(ordered)]
