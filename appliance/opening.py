"""Opens what must be open before anything is built: the ledger, taken over from whoever had it, phrases, playbooks, memories.

In: settings. Out: :class:`Opened`. Who calls: ``app``, whose exit stack closes everything in reverse.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

from appliance.admission.recovery import Recovered, take_over
from appliance.contracts.clock import Clock, IdSource
from appliance.contracts.errors import ConfigError, Corrupt, Unavailable
from appliance.foundation.id_source import SystemIds
from appliance.foundation.supervisor import Degraded
from appliance.foundation.system_clock import SystemClock
from appliance.memory.embedder import choose_embedder
from appliance.memory.memory import Memory
from appliance.memory.procedural import ProcedureRepository
from appliance.planning.phrases import Phrasebook
from appliance.planning.playbooks import Playbooks
from appliance.settings import Settings
from appliance.store import operations
from appliance.store.database import Database


@dataclass(frozen=True, slots=True)
class Opened:
    """What must be opened before anything can be built on it."""

    settings: Settings
    clock: Clock
    ids: IdSource
    degraded: Degraded
    ledger: Database
    recovered: Recovered
    phrasebook: Phrasebook
    playbooks: Playbooks
    procedures: ProcedureRepository
    memory: Memory

    @property
    def origin(self) -> str:
        """This appliance's name in the operation log: the one the coordinator knows it by, if there is a coordinator."""
        return self.settings.sync.device or self.settings.origin


async def open_everything(settings: Settings, stack: contextlib.AsyncExitStack) -> Opened:
    """Open the ledger and take it over, then read phrases, playbooks and memories. ``stack`` closes them in reverse."""
    clock = SystemClock()
    ids = SystemIds(clock)
    degraded = Degraded()
    if settings.config_fault:
        degraded.mark("config", settings.config_fault)
    settings.data_dir.mkdir(mode=0o750, parents=True, exist_ok=True)
    ledger = await stack.enter_async_context(_open_ledger(settings.database, clock))
    origin = settings.sync.device or settings.origin
    await ledger.transaction(lambda tx: operations.set_origin(tx, clock, origin))
    recovered = await take_over(ledger, clock, ids, ids.mint("core"), os.getpid())

    phrasebook = await asyncio.to_thread(Phrasebook.load, settings.phrases_dir, settings.plant)
    await asyncio.to_thread(phrasebook.prepare)
    procedures = ProcedureRepository(settings.data_dir / "procedures", clock)
    playbooks = await _open_playbooks(procedures, settings, degraded, stack)
    embedder, missing = choose_embedder(settings.memory)
    usable = procedures if "procedures" not in degraded.reasons else None
    memory = Memory(ledger, clock, ids, settings.memory, embedder, usable, degraded, missing)
    await memory.start()
    stack.push_async_callback(memory.stop)
    incidents = settings.folder / "incidents.yaml"
    if incidents.exists():
        await memory.seed(incidents, settings.plant.site)
    return Opened(settings, clock, ids, degraded, ledger, recovered, phrasebook, playbooks, procedures, memory)


async def _open_playbooks(
    procedures: ProcedureRepository, settings: Settings, degraded: Degraded, stack: contextlib.AsyncExitStack
) -> Playbooks:
    """Read the playbooks from procedural memory; from the configuration, and say so, when that cannot be had.

    A repository that is damaged, or a git that is missing, costs reports and edited playbooks. It must not cost an alarm.
    """
    try:
        await procedures.open(settings.playbooks_dir)
        stack.push_async_callback(procedures.close)
        return await asyncio.to_thread(Playbooks.load, procedures.worktree / "playbooks", await procedures.head())
    except (Unavailable, Corrupt, ConfigError) as error:
        degraded.mark("procedures", f"the shipped playbooks are used: {error.message}")
        return await asyncio.to_thread(Playbooks.load, settings.playbooks_dir, "shipped")


@contextlib.asynccontextmanager
async def _open_ledger(path: Path, clock: Clock) -> AsyncIterator[Database]:
    database = await Database.open(path, clock)
    try:
        yield database
    finally:
        await database.close()
