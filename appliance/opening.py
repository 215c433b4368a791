"""Opens what must be open before anything is built: the ledger, taken over from whoever had it, phrases, playbooks, memories.

In: settings. Out: :class:`Opened`. Who calls: ``app``, whose exit stack closes everything in reverse.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from appliance.admission.recovery import Recovered, take_over
from appliance.contracts.clock import Clock, IdSource
from appliance.contracts.delivery import PRIORITY_ANNOUNCEMENT
from appliance.contracts.embedding import Embedder
from appliance.contracts.errors import Corrupt, Unavailable
from appliance.contracts.hold import HoldSource
from appliance.contracts.principal import AccessLevel
from appliance.contracts.store import Transaction
from appliance.execution.toolbox.third_party import ThirdParty, find_third_party
from appliance.foundation.id_source import SystemIds
from appliance.foundation.machine_identity import fingerprint
from appliance.foundation.supervisor import Degraded
from appliance.foundation.system_clock import SystemClock
from appliance.ledger_standing import LedgerStanding
from appliance.memory.embedder import choose_embedder
from appliance.memory.memory import Memory
from appliance.memory.procedural import ProcedureRepository
from appliance.planning.phrases import Phrasebook
from appliance.planning.playbooks.playbooks import Playbooks
from appliance.planning.sound_playbooks import load_sound
from appliance.playbook_desk import PART as PLAYBOOK_PART
from appliance.session.lifespan import longest_s
from appliance.settings import Settings
from appliance.settings_last_good import keep_sound
from appliance.settings_rules import shipped_contracts, shipped_tool_levels, shipped_tool_names
from appliance.store import damage, deliveries, holds, identities, operations, salvage, salvages, stopping, witness
from appliance.store.database import Database
from appliance.store.reserve import RESERVE_BYTES

COPY_WHY = "my records may be a copy or an older state, and a hold may be missing in them"
"""Reason of the hold, in words that can be spoken."""


@dataclass(frozen=True, slots=True)
class Opened:
    """What must be opened before anything can be built on it. ``playbook_files``: path -> blob id of what ``playbooks`` were read
    from."""

    settings: Settings
    clock: Clock
    ids: IdSource
    degraded: Degraded
    ledger: Database
    standing: LedgerStanding
    recovered: Recovered
    phrasebook: Phrasebook
    playbooks: Playbooks
    procedures: ProcedureRepository
    playbook_files: Mapping[str, str]
    memory: Memory
    embedder: Embedder | None
    third_party: ThirdParty

    @property
    def origin(self) -> str:
        """This appliance's name in the operation log: the one the coordinator knows it by, if there is a coordinator."""
        return self.settings.sync.device or self.settings.origin


async def open_everything(settings: Settings, stack: contextlib.AsyncExitStack) -> Opened:
    """Open the ledger and take it over, then read phrases, playbooks and memories. ``stack`` closes them in reverse.

    A damaged ledger is salvaged first. Raises as :meth:`Database.open` and :func:`appliance.store.salvage.mend`.
    """
    clock = SystemClock()
    ids = SystemIds(clock)
    degraded = Degraded()
    if settings.config_fault:
        degraded.mark("config", settings.config_fault)
    settings.data_dir.mkdir(mode=0o750, parents=True, exist_ok=True)
    origin = settings.sync.device or settings.origin
    ledger = await stack.enter_async_context(_open_ledger(settings.database, clock, origin))
    machine = await asyncio.to_thread(fingerprint)
    witnessed_epoch = await asyncio.to_thread(witness.read, ledger.path)
    await ledger.transaction(lambda tx: _look_whose(tx, clock, origin, machine, witnessed_epoch))
    recovered = await take_over(ledger, clock, ids, ids.mint("core"), os.getpid(), turn_limit_s=longest_s(settings.session))
    ledger.own(recovered.ownership.epoch)
    await asyncio.to_thread(witness.write, ledger.path, recovered.ownership.epoch)
    await asyncio.to_thread(keep_sound, settings)
    standing = LedgerStanding(ledger, clock, degraded, machine)
    await standing.load()

    phrasebook = await asyncio.to_thread(Phrasebook.load, settings.phrases_dir, settings.plant)
    await ledger.transaction(lambda tx: _queue_words(tx, clock, ids, settings.language, phrasebook))
    procedures = ProcedureRepository(settings.data_dir / "procedures", clock)
    third_party = await asyncio.to_thread(find_third_party, clock, disabled=settings.tools.disabled, taken=shipped_tool_names())
    levels = {**third_party.levels, **shipped_tool_levels()}
    playbooks, phrasebook, files = await _open_playbooks(procedures, settings, phrasebook, levels, degraded, stack)
    embedder, missing = choose_embedder(settings.memory)
    usable = procedures if "procedures" not in degraded.reasons else None
    memory = Memory(ledger, clock, ids, settings.memory, embedder, usable, degraded, missing)
    await memory.start()
    stack.push_async_callback(memory.stop)
    incidents = settings.folder / "incidents.yaml"
    if incidents.exists():
        await memory.seed(incidents, settings.plant.site)
    return Opened(
        settings, clock, ids, degraded, ledger, standing, recovered, phrasebook, playbooks, procedures, files, memory,
        embedder, third_party,
    )  # fmt: skip


def _look_whose(tx: Transaction, clock: Clock, origin: str, machine: str, witnessed_epoch: int) -> None:
    """See before ownership is taken whose ledger this is, and that nothing goes on of which rows are missing.

    Where it may be a copy, or older than what was, nobody knows whether it should be on hold: it is, until a person releases it.
    """
    operations.set_origin(tx, clock, origin)
    salvages.stop_what_was_under_way(tx, clock)
    if identities.compare(tx, clock, machine, witnessed_epoch):
        stopping.stop_what_a_copy_had_under_way(tx, clock)
        holds.begin(tx, clock, HoldSource.PERSON, by=holds.ITSELF, reason=COPY_WHY)


def _queue_words(tx: Transaction, clock: Clock, ids: IdSource, language: str, book: Phrasebook) -> None:
    """Have it said that the ledger was damaged, once, and that it may be a copy, at every start until somebody adopts it."""
    names = ["ledger_salvaged"] if salvages.take_untold(tx, clock) else []
    names += ["machine_changed"] if identities.is_in_doubt(tx) else []
    names += ["hold"] if names and holds.in_force(tx) else []
    for name in names:
        text, priority = book.replies(language)[name], PRIORITY_ANNOUNCEMENT["high"]
        deliveries.queue(tx, clock, ids, turn_id=None, language=language, text=text, priority=priority)


async def _open_playbooks(
    procedures: ProcedureRepository,
    settings: Settings,
    phrasebook: Phrasebook,
    levels: Mapping[str, AccessLevel],
    degraded: Degraded,
    stack: contextlib.AsyncExitStack,
) -> tuple[Playbooks, Phrasebook, Mapping[str, str]]:
    """Read the playbooks from procedural memory; from the configuration, and say so, when that cannot be had. Return them with
    the phrasebook that knows how they are asked for, prepared, and with the files they were read from. ``levels``: what tools
    need, by name.

    A repository that is damaged, or a git that is missing, costs reports and edited playbooks; a playbook with a fault costs
    itself, marked as ``playbook:NAME``. Neither may cost an alarm.
    """
    configured = settings.playbooks_dir
    try:
        await procedures.open(configured)
        stack.push_async_callback(procedures.close)
        folder, commit = procedures.worktree / "playbooks", await procedures.head()
        files, _ = await procedures.playbook_files()
    except (Unavailable, Corrupt) as error:
        degraded.mark("procedures", f"the shipped playbooks are used: {error.message}")
        folder, commit, files = configured, "shipped", {}
    sound = await asyncio.to_thread(load_sound, folder, commit, configured, phrasebook, levels, shipped_contracts())
    for name, fault in sound.unsound.items():
        instead = "the configured one is used" if sound.playbooks.find(name) is not None else "it is left out"
        degraded.mark(f"{PLAYBOOK_PART}{name}", f"something is wrong with the playbook {name}, so {instead}: {fault.message}")
    return sound.playbooks, sound.phrasebook, files


@contextlib.asynccontextmanager
async def _open_ledger(path: Path, clock: Clock, origin: str) -> AsyncIterator[Database]:
    async def attempt() -> Database:
        return await Database.open(
            path, clock, reserve_bytes=RESERVE_BYTES, prepare=lambda file: salvage.mend(file, clock, origin)
        )

    try:
        database = await attempt()
    except Corrupt as error:  # what the look before it did not reach
        await asyncio.to_thread(damage.suspect, path, error.message)
        database = await attempt()
    try:
        yield database
    finally:
        await database.close()
