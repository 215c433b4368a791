"""Every room between the doors and the loudspeaker in one process: a real ledger, phrases, playbooks, memory, git. The field is
a table, and whoever would speak is the test."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from appliance.admission.gate import Gate
from appliance.admission.queue import AdmissionQueue
from appliance.admission.recovery import Recovered, take_over
from appliance.agent_rooms import AgentRooms
from appliance.alarm_turns import AlarmTurns
from appliance.alarms.floods import Floods
from appliance.alarms.reannounce import Reannouncer
from appliance.alarms.settings import AlarmSettings
from appliance.conductor import Conductor, Rooms
from appliance.contracts.admission import Admission
from appliance.contracts.alarm import AlarmChange, AlarmEvent
from appliance.contracts.embedding import Embedder
from appliance.contracts.model import LanguageModel
from appliance.contracts.operation import OperationLane
from appliance.contracts.plant import Plant
from appliance.contracts.speech import Utterance
from appliance.coordination.availability import Availability
from appliance.execution.approval.settings import ApprovalSettings
from appliance.execution.spill import Spill
from appliance.execution.tickets.escalation import Escalation
from appliance.execution.workers.warden import Warden
from appliance.foundation.supervisor import Degraded
from appliance.intake.console_door import ConsoleDoor
from appliance.intake.voice_door import VoiceDoor
from appliance.memory.memory import Memory
from appliance.memory.procedural import ProcedureRepository
from appliance.memory.settings import MemorySettings
from appliance.planning.interjections import Interjections
from appliance.planning.phrases import Phrasebook
from appliance.planning.playbooks.playbooks import Playbooks
from appliance.session.lease_keeper import LeaseKeeper
from appliance.session.questions import Questions
from appliance.session.settings import SessionSettings
from appliance.session.turn_watch import TurnWatch
from appliance.session.turns import Turns
from appliance.store import admissions, deliveries
from appliance.store.history import HISTORY_FILE, History
from appliance.store.history_settings import HistorySettings
from tests.support.alarms import AlarmBench
from tests.support.bus import TableBus
from tests.support.ledger import Bench, open_bench
from tests.support.planning import phrasebook_for, shipped_phrasebook, shipped_plant, shipped_playbooks
from tests.support.plans import phrasing
from tests.support.tool_ports import TOOL_PORTS

Change = Callable[[Rooms], Rooms]
_WITHIN_S = 60.0
QUICK = AlarmSettings(settle_s=0.01, longest_settle_s=0.05)


@dataclass
class Hall:
    """The rooms, with a conductor that leads while the hall is open."""

    bench: Bench
    bus: TableBus
    memory: Memory
    procedures: ProcedureRepository
    degraded: Degraded
    availability: Availability
    session: SessionSettings
    change: Change
    alarm_settings: AlarmSettings = QUICK
    plant: Plant = field(default_factory=shipped_plant)
    rules: ApprovalSettings = field(default_factory=ApprovalSettings)
    model: LanguageModel | None = None
    embedder: Embedder | None = None
    playbooks: Playbooks = field(default_factory=shipped_playbooks)
    history: History = field(init=False)
    delivered: int = 0
    beats: int = 0
    heard: int = 0
    gate_notified: int = 0

    def build(self, epoch: int, *, sessions: int = 4) -> None:
        """Build doors, rooms and conductor for an epoch."""
        bench, plant, wording = self.bench, self.plant, phrasing(self.plant)
        ledger, clock, ids = bench.database, bench.clock, bench.ids
        ledger.own(epoch)
        self.alarms = AlarmBench(
            ledger, clock, ids, plant, epoch, self.alarm_settings, notify=self._note_admitted, degraded=self.degraded
        )
        queue = AdmissionQueue(ledger, clock)
        self.floods = Floods(ledger, clock, ids, self.alarm_settings, wake=queue.wake)
        self.reannouncer = Reannouncer(ledger, clock, ids, self.alarm_settings, wake=queue.wake)
        turns = Turns(ledger, clock, ids, epoch, self.session)
        self.watch = TurnWatch(turns, ledger, clock, ids)
        self.keeper = LeaseKeeper(ledger, clock, ids, epoch)
        phrasebook = phrasebook_of(plant, self.playbooks)
        self.agent = agent = AgentRooms(
            ledger=ledger, clock=clock, ids=ids, epoch=epoch, plant=plant, bus=self.bus, memory=self.memory,
            procedures=self.procedures, wording=wording, phrasebook=phrasebook, playbooks=self.playbooks,
            alarm_hands=self.alarms.handling, alarm_shelf=self.alarms.inhibitions, history=self.history, **TOOL_PORTS,
            rules=self.rules, model=self.model, embedder=self.embedder, degraded=self.degraded,
            escalator=Escalation(clock, ids, wording, takers=(), origin="line-3", language="en"),
            spill=Spill(ledger.path.parent / "spill"), warden=Warden(ledger.path.parent / "tools"),
            delivered=self._note_delivered,
            progress=self.watch.progress, settle_waits=lambda: [0.0] * 3, retry_waits=lambda: iter([0.0] * 9),
        )  # fmt: skip
        rooms = Rooms(
            ledger=ledger,
            queue=queue,
            turns=turns,
            alarms=AlarmTurns(
                ledger=ledger, turns=turns, planner=agent.planner, floods=self.floods, availability=self.availability,
                plant=plant, clock=clock, announced=self.reannouncer.notify,
            ),
            questions=Questions(ledger, clock),
            phrasebook=phrasebook,
            planner=agent.planner,
            planners=agent.planners,
            gate=agent.approvals,
            toolbox=agent.toolbox,
            runner=agent.runner,
            wording=wording,
            availability=self.availability,
            clock=clock,
            ids=ids,
            faults=agent.faults,
        )  # fmt: skip
        self.rooms = self.change(rooms)
        self.gate = Gate(ledger, clock, ids, notify=self._note_admitted)
        self.alarm_door = self.alarms.door
        is_interjection = Interjections(phrasebook)
        self.console_door = ConsoleDoor(self.gate, ids, is_interjection)
        self.voice_door = VoiceDoor(self.gate, is_interjection)
        self.conductor = Conductor(
            self.rooms, language="en", sessions=sessions, delivered=self._note_delivered, beat=self._note_beat,
            look_for_unanswered_s=0.01,
        )  # fmt: skip
        ledger.on_commit(self.conductor.bells.notify)

    def _note_admitted(self) -> None:
        self.gate_notified += 1
        self.rooms.queue.wake()

    def _note_delivered(self) -> None:
        self.delivered += 1

    def _note_beat(self) -> None:
        self.beats += 1

    # leading --------------------------------------------------------------------------------------------------------
    def open(self) -> None:
        """Let the conductor lead."""
        self.closing = asyncio.Event()
        self._leading = asyncio.create_task(self.conductor.run_until(self.closing))
        if hasattr(self, "_ringing"):
            self._ringing.cancel()  # of a conductor that ended by itself
        self._ringing = asyncio.create_task(self.conductor.bells.run())

    async def close(self) -> None:
        """Take nothing more; let what runs end."""
        self.closing.set()
        async with asyncio.timeout(_WITHIN_S):
            await self._leading
        await self._fall_silent()

    async def die(self) -> None:
        """Stop where it stands: nothing is written any more, whatever is under way."""
        self._leading.cancel()
        await asyncio.gather(self._leading, return_exceptions=True)
        await self._fall_silent()

    async def _fall_silent(self) -> None:
        self._ringing.cancel()
        await asyncio.gather(self._ringing, return_exceptions=True)

    async def restart(self) -> Recovered:
        """Be another process on the same ledger. It leads once it is opened."""
        bench = self.bench
        bench.database.own((await bench.one("SELECT max(epoch) AS newest FROM owner"))["newest"])  # it opens the file anew
        recovered = await take_over(bench.database, bench.clock, bench.ids, "again", os.getpid())
        self.build(recovered.ownership.epoch)
        return recovered

    # what comes in ----------------------------------------------------------------------------------------------------
    async def say(self, text: str, *, by: str = "console", language: str = "en") -> Admission:
        """Type a sentence; return its admission once it has ended."""
        return await self.ended((await self.console_door.admit(text, language, by)).admission)

    async def utter(self, text: str, *, spoke_mono_ns: int | None = None) -> Admission:
        """Speak a sentence that ended now, or at ``spoke_mono_ns``; return its admission once it has ended."""
        self.heard += 1
        now_ns = self.bench.clock.monotonic_ns()
        spoke_ns = now_ns if spoke_mono_ns is None else spoke_mono_ns
        utterance = Utterance(f"ut_{self.heard}", text, "en", "test", None, spoke_ns - 10**9, spoke_ns, now_ns)
        return await self.ended((await self.voice_door.admit(utterance)).admission)

    async def alarm(self, **changes: Any) -> Admission:
        """Report an alarm; return its admission once it has ended."""
        journalled = await self.alarm_door.admit(hot(self.bench, **changes))
        assert journalled.admission is not None, journalled.disposition
        return await self.ended(journalled.admission)

    async def ended(self, admission: Admission) -> Admission:
        """Return an admission as it is once it is terminal."""
        async with asyncio.timeout(_WITHIN_S), self.conductor.ended:
            while (now := await self.look(admission)).status != "terminal":
                await self.conductor.ended.wait()
            return now

    async def look(self, admission: Admission) -> Admission:
        """Return an admission as it is."""
        (row,) = await self.bench.database.fetch("SELECT * FROM admission WHERE id = ?", (admission.id,))
        return admissions.to_admission(row)

    # what goes out ----------------------------------------------------------------------------------------------------
    async def said(self, turn_id: str | None = None) -> list[str]:
        """Everything queued for the loudspeaker, or a turn's share of it, in order."""
        rows = await self.bench.rows("SELECT lead, text FROM delivery WHERE ?1 IS NULL OR turn_id = ?1 ORDER BY seq", turn_id)
        return [f"{row['lead']} {row['text']}".strip() for row in rows]

    async def speak_all(self) -> None:
        """Be the loudspeaker: everything queued has sounded, now."""
        bench = self.bench

        def work(tx: Any) -> None:
            while (delivery := deliveries.begin_next(tx, bench.clock)) is not None:
                deliveries.finish(tx, bench.clock, delivery.id, first_audio_mono_ns=bench.clock.monotonic_ns())
                bench.clock.advance(1)  # one after the other

        await bench.database.transaction(work)

    async def turn(self, turn_id: str | None) -> dict[str, Any]:
        """One turn's row."""
        return await self.bench.one("SELECT * FROM turn WHERE id = ?", turn_id)

    async def questions(self) -> list[str]:
        """Open questions, oldest first."""
        rows = await self.bench.rows("SELECT question FROM confirmation WHERE status = 'pending' ORDER BY asked_seq")
        return [row["question"] for row in rows]

    async def audit(self) -> None:
        """What must hold whenever nothing runs: every admission has ended, and every lane's log is unbroken."""
        left = await self.bench.rows("SELECT id, status FROM admission WHERE status <> 'terminal'")
        assert left == []
        for lane in OperationLane:
            await self.bench.kinds(lane)


def phrasebook_of(plant: Plant, playbooks: Playbooks | None = None) -> Phrasebook:
    """The shipped phrases about a plant, with what its playbooks can be asked by."""
    is_shipped = plant is shipped_plant() and playbooks in (None, shipped_playbooks())
    return shipped_phrasebook() if is_shipped else phrasebook_for(plant, playbooks)


def hot(bench: Bench, **changes: Any) -> AlarmEvent:
    """The shipped plant's over-temperature alarm."""
    event = AlarmEvent("line_3_plc", "motor_3_over_temperature", "7-1", AlarmChange.RAISED, 94.2, "degC", bench.clock.utc(), 5)
    return replace(event, **changes)


LOW_PRESSURE: dict[str, Any] = {"alarm_id": "pump_3_low_pressure", "activation": "7-2", "value": 1.9, "unit": "bar"}


@asynccontextmanager
async def open_hall(
    folder: Path, *, change: Change = lambda rooms: rooms, session: SessionSettings | None = None, sessions: int = 4,
    is_open: bool = True, alarms: AlarmSettings = QUICK, plant: Plant | None = None, rules: ApprovalSettings | None = None,
    model: LanguageModel | None = None, embedder: Embedder | None = None, playbooks: Playbooks | None = None,
) -> AsyncIterator[Hall]:  # fmt: skip
    """Build all rooms in ``folder`` and lead until the end, after which nothing may be left over."""
    async with open_bench(folder) as bench:
        procedures = ProcedureRepository(folder / "procedures", bench.clock)
        await procedures.open(folder / "none")  # playbooks are read where they ship; here only reports are filed
        degraded = Degraded()
        memory = Memory(bench.database, bench.clock, bench.ids, MemorySettings(), None, procedures, degraded)
        availability = Availability(bench.database, bench.clock, degraded)
        plant = plant or shipped_plant()
        bus = TableBus(plant, bench.clock)
        hall = Hall(
            bench, bus, memory, procedures, degraded, availability, session or SessionSettings(), change, alarms, plant,
            rules or ApprovalSettings(), model, embedder, playbooks or shipped_playbooks(),
        )  # fmt: skip
        hall.history = History(folder / HISTORY_FILE, plant, bench.clock, degraded, HistorySettings())
        hall.build(bench.epoch, sessions=sessions)
        try:
            if is_open:
                hall.open()
            yield hall
            if not hall.closing.is_set():
                await hall.close()
            await hall.audit()
        finally:
            if hasattr(hall, "_leading"):
                await hall.die()
            await hall.history.close()
            await memory.stop()
            await procedures.close()
