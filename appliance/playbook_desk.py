"""Playbooks as people look at them, and the way by which their edits come into use while the appliance runs (L5).

In: the folder in procedural memory, and what was read from it. Out: what is in use and what is not; on demand everything new at
once, or nothing and every fault. Who calls: the local API. Nothing is read again by itself: a half-made edit must not answer an
alarm.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from appliance.contracts.errors import Refused, Unavailable
from appliance.contracts.plant import Plant
from appliance.contracts.principal import AccessLevel
from appliance.contracts.tool import ToolContract
from appliance.foundation.supervisor import Degraded
from appliance.memory.procedural import ProcedureRepository
from appliance.planning.phrases import Phrasebook
from appliance.planning.playbooks.playbook_contracts import NO_CONTRACTS
from appliance.planning.playbooks.playbooks import Playbook, Playbooks
from appliance.planning.sound_playbooks import load_whole

log = logging.getLogger(__name__)

PART = "playbook:"
"""With its name: the part that is degraded while a playbook of the folder is not used as it is there."""
_COMMAND = "`floorhand playbooks reload`"

Files = Mapping[str, str]
"""Path of a file below the folder of playbooks -> id of its content."""


class PlaybookDesk:
    """Implements :class:`appliance.contracts.playbook_acts.PlaybookActs`. ``playbooks`` and ``phrasebook`` are those that
    everybody holds, ``read`` the files they were read from. ``levels``: what tools need, ``contracts``: what they
    take, by name. ``taught`` tells the ears."""

    def __init__(
        self,
        procedures: ProcedureRepository,
        playbooks: Playbooks,
        phrasebook: Phrasebook,
        read: Files,
        *,
        plant: Plant,
        levels: Mapping[str, AccessLevel],
        contracts: Mapping[str, ToolContract] = NO_CONTRACTS,
        degraded: Degraded,
        taught: Callable[[], Awaitable[None]],
    ) -> None:
        self._procedures = procedures
        self._playbooks = playbooks
        self._phrasebook = phrasebook
        self._read = dict(read)
        self._plant = plant
        self._levels = levels
        self._contracts = contracts
        self._degraded = degraded
        self._taught = taught
        self._turn = asyncio.Lock()

    @property
    def folder(self) -> Path:
        """Where the playbooks in use are edited."""
        return self._procedures.worktree / "playbooks"

    async def playbooks(self) -> Sequence[Mapping[str, Any]]:
        """As the protocol says."""
        here, shipped = await self._files()
        whys = self._whys(here)
        names = sorted({*self._playbooks.names, *whys})
        return [self._glance(name, here, shipped, whys) for name in names]

    async def playbook(self, name: str) -> Mapping[str, Any]:
        """As the protocol says."""
        here, shipped = await self._files()
        whys = self._whys(here)
        found = self._playbooks.find(name)
        if found is None and name not in whys:
            raise Refused(f"there is no playbook {name}", cure="`floorhand playbooks list` shows them.", playbook=name)
        glance = self._glance(name, here, shipped, whys)
        place = self.folder / name if found is None else Path(found.path).parent
        return {**glance, "folder": str(place), **({} if found is None else _in_full(found))}

    async def take_up(self, by: str) -> Mapping[str, Any]:
        """As the protocol says."""
        async with self._turn:
            if why := self._procedures.fault:
                raise Unavailable(f"the folder of the playbooks cannot be used: {why}")
            here, _ = await self._procedures.playbook_files()
            playbooks, phrasebook = await asyncio.to_thread(
                load_whole, self.folder, self._phrasebook, self._levels, self._plant, self._contracts
            )  # fmt: skip
            playbooks.commit = await self._procedures.commit_edits(f"Edits of playbooks taken up by {by}")
            changed = {name: self._how(name, playbooks) for name in _differing(self._read, here)}
            self._playbooks.become(playbooks)  # from here to the end of what is done at once nobody else runs: a plan is made of
            self._phrasebook.become(phrasebook)  # the one state or of the other
            self._read = here
            for part in [each for each in self._degraded.reasons if each.startswith(PART)]:
                self._degraded.clear(part)
            log.info("playbooks.taken_up", extra={"by": by, "commit": playbooks.commit, "changed": changed})
            await self._taught()
            return {"commit": playbooks.commit, "changed": changed, "folder": str(self.folder)}

    async def not_taken_up(self) -> Sequence[str]:
        """Return the names of the playbooks whose files are other than those that were read."""
        here, _ = await self._files()
        return _differing(self._read, here)

    async def _files(self) -> tuple[Files, Files]:
        """What is in the folder and what was shipped; nothing when the folder is not in use."""
        return ({}, {}) if self._procedures.fault else await self._procedures.playbook_files()

    def _whys(self, here: Files) -> dict[str, str]:
        """Playbook -> what of it is not in use, and why."""
        whys = {part.removeprefix(PART): why for part, why in self._degraded.reasons.items() if part.startswith(PART)}
        for name in _differing(self._read, here):
            whys[name] = f"{_edit(name, self._read, here)} and not taken up: {_COMMAND}"
        return whys

    def _glance(self, name: str, here: Files, shipped: Files, whys: Mapping[str, str]) -> dict[str, Any]:
        found = self._playbooks.find(name)
        triggers = None if found is None else found.triggers
        return {
            "name": name,
            "description": "" if found is None else found.description,
            "access": "" if found is None else found.access,
            "faults": [] if triggers is None else triggers.faults,
            "names": {} if triggers is None else triggers.names,
            "phrases": {} if triggers is None else triggers.phrases,
            "source": self._source(name, here, shipped),
            "why": whys.get(name, ""),
        }

    def _source(self, name: str, here: Files, shipped: Files) -> str:
        found = self._playbooks.find(name)
        if found is not None and not Path(found.path).is_relative_to(self.folder):
            return "configuration"
        own, theirs = _of(name, here), _of(name, shipped)
        return "made here" if not theirs else "as shipped" if own == theirs else "edited here"

    def _how(self, name: str, after: Playbooks) -> str:
        if after.find(name) is None:
            return "gone"
        return "new" if self._playbooks.find(name) is None else "changed"


def _of(name: str, files: Files) -> dict[str, str]:
    return {path: content for path, content in files.items() if path.startswith(f"{name}/")}


def _differing(before: Files, after: Files) -> list[str]:
    """Names of the playbooks of which a file is new, other or gone; files beside their folders belong to none."""
    paths = [path for path in before.keys() | after.keys() if before.get(path) != after.get(path) and "/" in path]
    return sorted({path.partition("/")[0] for path in paths})


def _edit(name: str, before: Files, after: Files) -> str:
    if not _of(name, before):
        return "made"
    return "edited" if _of(name, after) else "deleted"


def _in_full(playbook: Playbook) -> dict[str, Any]:
    return {
        "languages": None if playbook.languages is None else sorted(playbook.languages),
        "parameters": {name: each.model_dump(mode="json") for name, each in playbook.parameters.items()},
        "steps": [step.model_dump(mode="json") for step in playbook.steps],
        "guidance": playbook.guidance,
    }
