"""One core: every room between the doors and the outside world, real, on one ledger. Built as ``appliance.app`` builds it."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path

from appliance.admission.gate import Gate
from appliance.admission.queue import AdmissionQueue
from appliance.admission.recovery import Recovered, take_over
from appliance.agent_rooms import AgentRooms
from appliance.alarm_rooms import AlarmRooms
from appliance.alarm_turns import AlarmTurns
from appliance.alarms.floods import Floods
from appliance.alarms.reannounce import Reannouncer
from appliance.alarms.settings import AlarmSettings
from appliance.conductor import Conductor, Rooms
from appliance.contracts.clock import Clock, IdSource
from appliance.contracts.plant import Plant
from appliance.contracts.ports import Broker, FieldBus, Mouth, ProcedureStore
from appliance.coordination.availability import Availability
from appliance.delivery.alarm_messages import alarm_messages
from appliance.delivery.dispatcher import Dispatcher
from appliance.delivery.phrasing import Phrasing
from appliance.delivery.publisher import Publisher
from appliance.execution.approval.settings import ApprovalSettings
from appliance.execution.spill import Spill
from appliance.execution.tickets.escalation import Escalation
from appliance.execution.tools.notify import Receivers
from appliance.execution.workers.warden import Warden
from appliance.foundation.supervisor import Degraded
from appliance.holding import Holding
from appliance.intake.console_door import ConsoleDoor
from appliance.intake.voice_door import VoiceDoor
from appliance.memory.memory import Memory
from appliance.memory.settings import MemorySettings
from appliance.planning.interjections import Interjections
from appliance.planning.phrases import Phrasebook
from appliance.planning.playbooks.playbooks import Playbooks
from appliance.session.lease_keeper import LeaseKeeper
from appliance.session.questions import Questions
from appliance.session.settings import SessionSettings
from appliance.session.turn_watch import TurnWatch
from appliance.session.turns import Turns
from appliance.settings_yaml import read_document
from appliance.store import operations, owners
from appliance.store.database import Database
from appliance.store.history import History
from appliance.store.history_settings import HistorySettings
from drivers.alarms.states import advance_alarm

CONFIG = Path(__file__).parents[1] / "config"
ORIGIN = "line-3"
LANGUAGE = "en"

_ALARMS = AlarmSettings(settle_s=0.0, longest_settle_s=0.0)  # nothing else comes with the alarm of the story
_SESSIONS = 4
_UNTIL_TOLD_S = 3600.0  # a voice that is away says itself when it is back


@dataclass(frozen=True, slots=True)
class Site:
    """What is read once and shared by every life: the shipped plant, phrases and playbooks."""

    plant: Plant
    phrasebook: Phrasebook
    playbooks: Playbooks
    wording: Phrasing

    @classmethod
    def shipped(cls) -> Site:
        """Read what ships."""
        plant = Plant.model_validate(read_document(CONFIG / "plant.yaml", {}).tree)
        phrasebook = Phrasebook.load(CONFIG / "phrases", plant)
        phrasebook.prepare()
        wording = Phrasing({LANGUAGE: phrasebook.replies(LANGUAGE)}, plant)
        return cls(plant, phrasebook, Playbooks.load(CONFIG / "playbooks", "c0ffee"), wording)


@dataclass(frozen=True, slots=True)
class Outlets:
    """What of the outside world a core is handed."""

    bus: FieldBus
    mouth: Mouth
    broker: Broker
    procedures: ProcedureStore


class Core:
    """The rooms of one process. ``await open(...)``, ``start()``, and ``close()`` or death."""

    def __init__(self, site: Site, clock: Clock, ids: IdSource, outlets: Outlets, ledger: Database, recovered: Recovered) -> None:
        """Build everything; nothing runs before :meth:`start`."""
        self.site, self.clock, self.ids, self.ledger, self.recovered = site, clock, ids, ledger, recovered
        epoch, degraded = recovered.ownership.epoch, Degraded()
        availability = Availability(ledger, clock, degraded)
        self.dispatcher = Dispatcher(ledger, clock, ids, outlets.mouth, site.wording, waits=lambda: repeat(_UNTIL_TOLD_S))
        self.publisher = Publisher(ledger, clock, outlets.broker, waits=lambda: repeat(0.0))
        self.queue = AdmissionQueue(ledger, clock)
        self.gate = Gate(ledger, clock, ids, notify=self.queue.wake)
        self.alarms = AlarmRooms(
            ledger, clock, ids, site.plant, _ALARMS, self.gate, degraded, advance_alarm, epoch=epoch,
            publish=alarm_messages(clock, ids, ORIGIN),
        )  # fmt: skip
        ledger.on_commit(self.alarms.changes.notify)
        self.alarms.changes.stirred.append(self.publisher.notify)
        self.memory = Memory(ledger, clock, ids, MemorySettings(), None, None, degraded)
        self.turns = Turns(ledger, clock, ids, epoch, SessionSettings())
        self.floods = Floods(ledger, clock, ids, _ALARMS, wake=self.queue.wake)
        self.alarms.changes.stirred.append(self.floods.notify)
        self.reannouncer = Reannouncer(ledger, clock, ids, _ALARMS, wake=self.queue.wake)
        self.watch = TurnWatch(self.turns, ledger, clock, ids)
        self.keeper = LeaseKeeper(ledger, clock, ids, epoch)
        agent = AgentRooms(
            ledger=ledger, clock=clock, ids=ids, epoch=epoch, plant=site.plant, bus=outlets.bus, memory=self.memory,
            procedures=outlets.procedures, wording=site.wording, phrasebook=site.phrasebook, playbooks=site.playbooks,
            alarm_hands=self.alarms.handling, alarm_shelf=self.alarms.inhibitions, delivered=self.dispatcher.notify,
            history=History(Path(), site.plant, clock, degraded, HistorySettings()),  # nothing is polled, so nothing is kept
            progress=self.watch.progress, settle_waits=lambda: [0.0] * 3, retry_waits=lambda: repeat(0.0),
            rules=ApprovalSettings(), model=None, embedder=None, degraded=degraded,
            escalator=Escalation(clock, ids, site.wording, takers=(), origin=ORIGIN, language=LANGUAGE),
            spill=Spill(ledger.path.parent / "spill"), warden=Warden(ledger.path.parent / "tools"),
            receivers=Receivers((), f"floorhand/{ORIGIN}/notices", ORIGIN), read_vitals=dict,
        )  # fmt: skip
        self.runner = agent.runner
        alarm_turns = AlarmTurns(
            ledger=ledger, turns=self.turns, planner=agent.planner, floods=self.floods, availability=availability,
            plant=site.plant, clock=clock, announced=self.reannouncer.notify,
        )  # fmt: skip
        rooms = Rooms(
            ledger=ledger, queue=self.queue, turns=self.turns, alarms=alarm_turns, questions=Questions(ledger, clock),
            phrasebook=site.phrasebook, planner=agent.planner, planners=agent.planners, gate=agent.approvals,
            toolbox=agent.toolbox, runner=self.runner, wording=site.wording,
            availability=availability, clock=clock, ids=ids, faults=agent.faults,
        )  # fmt: skip
        self.conductor = Conductor(
            rooms, language=LANGUAGE, sessions=_SESSIONS, delivered=self.dispatcher.notify, beat=lambda: None,
        )  # fmt: skip
        ledger.on_commit(self.conductor.bells.notify)
        self.holding = Holding(
            ledger, clock, ids, site.wording, language=LANGUAGE, client_id=ORIGIN, has_key=False, queued=self._queued
        )
        is_interjection = Interjections(site.phrasebook)
        self.console_door = ConsoleDoor(self.gate, ids, is_interjection)
        self.voice_door = VoiceDoor(self.gate, is_interjection)
        self._services: list[asyncio.Task[None]] = []

    @classmethod
    async def open(cls, path: Path, site: Site, clock: Clock, ids: IdSource, outlets: Outlets) -> Core:
        """Open the ledger, take it over from whoever had it, and build the rooms."""
        ledger = await Database.open(path, clock)
        await ledger.transaction(lambda tx: operations.set_origin(tx, clock, ORIGIN))
        recovered = await take_over(ledger, clock, ids, ids.mint("core"), os.getpid())
        ledger.own(recovered.ownership.epoch)
        core = cls(site, clock, ids, outlets, ledger, recovered)
        await core.memory.start()
        return core

    async def start(self) -> None:
        """Begin to lead, speak and publish."""
        await self.holding.load()
        recovered = self.recovered
        await self.conductor.tell_recovered(len(recovered.resumed), recovered.suspended, recovered.stopped)
        await self.alarms.door.name_missing()
        self._closing = asyncio.Event()
        self._leading = asyncio.create_task(self.conductor.run_until(self._closing), name="conductor")
        services = [
            self.dispatcher.run, self.publisher.run, self.alarms.changes.run, self.alarms.inhibitions.run, self.floods.run,
            self.reannouncer.run, self.conductor.unanswered.run, self.conductor.bells.run, self.watch.run, self.keeper.run,
        ]  # fmt: skip
        self._services = [asyncio.create_task(run(), name=run.__qualname__) for run in services]

    def _queued(self) -> None:
        self.dispatcher.notify()
        self.publisher.notify()

    @property
    def failed(self) -> list[BaseException]:
        """What ended a service that should run for ever."""
        tasks = [self._leading, *self._services]
        return [error for task in tasks if task.done() and not task.cancelled() and (error := task.exception()) is not None]

    async def close(self) -> None:
        """End in order and leave the receipt of a clean shutdown."""
        self._closing.set()
        await self._leading
        await self.abandon()
        await self.ledger.transaction(lambda tx: owners.release(tx, self.clock, self.recovered.ownership.epoch))
        await self.memory.stop()
        await self.ledger.close()

    async def abandon(self) -> None:
        """Stop every task where it stands."""
        tasks = [self._leading, *self._services]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
