"""Builds every object in reading order, owns the one task group, and ends everything in the right order.

In: settings. Out: an exit code. Who calls: ``__main__``. What depends on hardware or network is supervised: it may be away
without keeping the core from being READY; what it means to be degraded is named in ``status``.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
from collections.abc import Awaitable, Callable

from appliance.access.keys import KeyRing
from appliance.admission.gate import Gate
from appliance.admission.queue import AdmissionQueue
from appliance.alarm_rooms import AlarmRooms
from appliance.alarm_turns import AlarmTurns
from appliance.alarms.floods import Floods
from appliance.alarms.reannounce import Reannouncer
from appliance.conductor import Conductor, Rooms
from appliance.configured_agent import ConfiguredAgent
from appliance.console.api import LocalApi
from appliance.contracts.errors import Corrupt, FloorhandError, Unavailable
from appliance.coordination import availability
from appliance.coordination.availability import Availability
from appliance.core import RunningCore, Standing
from appliance.delivery.announcer import Announcer, told_by_alarms
from appliance.delivery.phrasing import Phrasing
from appliance.delivery_rooms import DeliveryRooms
from appliance.failed_start import tell_failed_start
from appliance.field_rooms import FieldRooms, FieldSources
from appliance.foundation.supervisor import supervise
from appliance.health.sd_notify import ServiceNotifier
from appliance.health.status_line import status_line
from appliance.health.vitals import read_vitals
from appliance.health.watchdog import EXIT_TRY_AGAIN, LoopWatchdog, ManagerWatchdog, Progress, StartWatchdog
from appliance.hearing import Hearing
from appliance.intake.console_door import ConsoleDoor
from appliance.intake.voice_door import VoiceDoor
from appliance.machine_panel import MachinePanel
from appliance.opening import Opened, open_everything
from appliance.operating import Operating
from appliance.planning.interjections import Interjections
from appliance.session.questions import Questions
from appliance.session.turn_watch import TurnWatch
from appliance.session.turns import Turns
from appliance.settings import Settings
from appliance.store import owners
from appliance.sync_rooms import SyncRooms
from appliance.watch_rooms import WatchRooms
from appliance.words import Words
from drivers.alarms.first_out import first_out
from drivers.alarms.states import advance_alarm
from voice.link import VoiceLink

log = logging.getLogger(__name__)

_FINISH_TURNS_S = 10.0  # at SIGTERM a running turn gets this long; what is left goes on after the next start
_FINISH_DELIVERY_S = 5.0  # what is being said or sent; what is left goes on after the next start


async def serve(settings: Settings) -> int:
    """Run the core until SIGTERM or SIGINT, or until its ledger is found damaged; return the exit code.

    Raises:
        OwnedElsewhere: another core owns this data folder.
        Unavailable: its storage cannot be used; it was said and published, as far as that was possible.
        Corrupt: the ledger is damaged and could not be mended; told likewise.
        ConfigError: phrases or playbooks cannot be used.
    """
    notifier = ServiceNotifier()
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    async with contextlib.AsyncExitStack() as stack:
        try:
            with StartWatchdog():
                opened = await open_everything(settings, stack)
        except (Unavailable, Corrupt) as error:
            await tell_failed_start(settings, error)
            raise
        appliance = Appliance(opened, stack)
        try:
            await appliance.run(stopping, notifier)
        except* FloorhandError:
            if opened.ledger.fatal is None:  # else it is the ledger's end, that some part met first
                raise
        if isinstance(opened.ledger.fatal, Corrupt):
            return EXIT_TRY_AGAIN  # the next start mends what can be mended
        if opened.ledger.fatal is not None:
            raise opened.ledger.fatal
    return 0


class Appliance:
    """Everything that runs, built and not yet started."""

    def __init__(self, opened: Opened, stack: contextlib.AsyncExitStack) -> None:
        settings, clock, ledger, degraded = opened.settings, opened.clock, opened.ledger, opened.degraded
        self.opened, self.settings, self.clock, self.ids = opened, settings, clock, opened.ids
        self.ledger, self.degraded, self.phrasebook = ledger, degraded, opened.phrasebook
        self.standing = Standing(origin=opened.origin, epoch=opened.recovered.ownership.epoch)
        self.wording = Phrasing({lang: opened.phrasebook.replies(lang) for lang in settings.languages}, settings.plant)
        self.sources = FieldSources(settings.plant, clock, degraded, settings.history, settings.data_dir)
        self.voice = VoiceLink(settings.voice, settings.socket.parent, clock, opened.ids, degraded)
        self.delivery = DeliveryRooms(
            settings, ledger, clock, opened.ids, self.wording, self.voice, degraded, opened.origin
        )  # fmt: skip
        self.dispatcher = self.delivery.dispatcher
        self.availability = Availability(ledger, clock, degraded)
        self.keys = KeyRing(settings.data_dir, opened.origin, settings.sync.coordinator)
        self.watches = WatchRooms(
            opened, self.wording, stack, self.standing.epoch,
            queued=self._wake_outboxes, may_be_over=lambda part: self.agent.may_be_over(part),
        )  # fmt: skip
        self._notifier: ServiceNotifier | None = None
        self._build_alarms(stack)
        self._build_conductor(self.standing.epoch, stack)
        self._build_doors()
        self.sync = SyncRooms(opened, self.availability, self.keys, stack)

    def _build_alarms(self, stack: contextlib.AsyncExitStack) -> None:
        settings, ledger, clock, ids, degraded = self.settings, self.ledger, self.clock, self.ids, self.degraded
        self.queue = AdmissionQueue(ledger, clock)
        self.gate = Gate(
            ledger, clock, ids, notify=self.queue.wake, question_limit_s=settings.session.confirm_limit_s,
            session_limit=settings.session.open_limit, refuses_talk=ledger.refuses_talk,
        )  # fmt: skip
        publish = self.delivery.publish_alarm
        epoch = self.standing.epoch
        self.alarms = AlarmRooms(
            ledger, clock, ids, settings.plant, settings.alarms, self.gate, degraded, advance_alarm, epoch=epoch, publish=publish
        )
        ledger.on_commit(self.alarms.changes.notify)
        self.alarms.changes.stirred.append(self.delivery.webhooks.notify)
        self.field = FieldRooms(
            self.sources, self.alarms, settings.mqtt, settings.plant, ledger, clock, ids, degraded, self.delivery.failures
        )
        stack.push_async_callback(self.field.close)
        self.delivery.tell_trouble(self.field.listener.session, self.opened.standing)
        self.panel: MachinePanel | None = None
        if settings.gpio.is_used:
            holding = self.watches.holding
            self.panel = MachinePanel(settings.gpio, ledger, clock, degraded, self.alarms.handling, self.voice, holding)
            self.alarms.changes.stirred.append(self.panel.notify)

    def _build_conductor(self, epoch: int, stack: contextlib.AsyncExitStack) -> None:
        settings, ledger, clock, ids = self.settings, self.ledger, self.clock, self.ids
        self.turns = Turns(ledger, clock, ids, epoch, settings.session)
        self.turn_watch = TurnWatch(self.turns, ledger, clock, ids)
        delivered = self._delivered
        self.agent = ConfiguredAgent(
            self.opened, epoch=epoch, gate=self.gate, sources=self.sources, alarms=self.alarms, delivery=self.delivery,
            wording=self.wording, delivered=delivered, progress=self.turn_watch.progress, stack=stack,
        )  # fmt: skip
        self.watches.clock.listeners.append(self.agent.later.schedule.notify)
        agent = self.agent.rooms
        self.runner, self.planner = agent.runner, agent.planner
        self.floods = Floods(ledger, clock, ids, settings.alarms, wake=self.queue.wake, first_out=first_out)
        self.alarms.changes.stirred.append(self.floods.notify)
        self.reannouncer = Reannouncer(ledger, clock, ids, settings.alarms, wake=self.queue.wake)
        rooms = Rooms(
            ledger=ledger,
            queue=self.queue,
            turns=self.turns,
            alarms=AlarmTurns(
                ledger=ledger,
                turns=self.turns,
                planner=self.planner,
                floods=self.floods,
                availability=self.availability,
                plant=settings.plant,
                clock=clock,
                announced=self.reannouncer.notify,
            ),
            questions=Questions(ledger, clock),
            phrasebook=self.phrasebook,
            planner=self.planner,
            planners=agent.planners,
            gate=agent.approvals,
            toolbox=agent.toolbox,
            runner=self.runner,
            wording=self.wording,
            availability=self.availability,
            clock=clock,
            ids=ids,
            faults=agent.faults,
        )
        self.progress = Progress(clock, lambda: self.conductor.running_turns == 0)
        self.conductor = Conductor(
            rooms,
            language=settings.language,
            sessions=settings.session.turns_at_once,
            delivered=delivered,
            beat=self.progress.beat,
        )
        ledger.on_commit(self.conductor.bells.notify)

    def _build_doors(self) -> None:
        settings = self.settings
        is_interjection = Interjections(self.phrasebook)
        door = VoiceDoor(self.gate, is_interjection, settings.access.who_speaks())
        words = Words(self.wording, self.clock, self.ids, settings.language)
        self.hearing = Hearing(self.voice, door, self.phrasebook, self.planner, self.ledger, words, self.dispatcher.notify)
        self.ledger.on_commit(self.hearing.notify)
        operating = Operating(
            self.ledger,
            self.clock,
            holding=self.watches.holding,
            draining=self.conductor.lanes,
            turns_running=lambda: self.conductor.running_turns,
            stop_turn=self.conductor.stop_turn,
            verify_unknown=self.runner.verify_unknown,
            audit_watch=self.watches.audit,
            drain_changed=self._tell_manager,
        )
        core = RunningCore(
            self.standing,
            ledger=self.ledger,
            clock=self.clock,
            ids=self.ids,
            plant=settings.plant,
            field_bus=self.sources.bus,
            door=ConsoleDoor(self.gate, self.ids, is_interjection, settings.access.who_types()),
            runner=self.runner,
            turns=self.turns,
            availability=self.availability,
            alarms=self.alarms.desk,
            operating=operating,
            degraded=self.degraded,
            ended=self.conductor.ended,
            delivered=self.dispatcher.notify,
        )
        self.standing.facts |= {
            "voice": self.voice.facts,
            "mqtt_connected": lambda: self.field.listener.session.is_connected,
            "mqtt": self.field.listener.session.counts.as_facts,
            "alarm_scan": self.field.scan.as_facts,
            "turns_running": lambda: self.conductor.running_turns,
            "memory_knows_likeness": lambda: self.opened.memory.knows_likeness,
            "draining": lambda: self.conductor.lanes.is_draining,
            "deliveries": self.delivery.failures.as_facts,
            **self.agent.facts,
            **self.watches.facts,
        }
        if self.panel is not None:
            self.standing.facts["panel"] = self.panel.facts
        self.local_api = LocalApi(
            core,
            self.ledger,
            lambda: read_vitals(settings.data_dir).to_json(),
            path=settings.socket,
            language=settings.language,
            languages=settings.languages,
            acts=self.agent.acts(self.keys, self.sources.history, self.hearing.teach),
            refuses_talk=self.ledger.refuses_talk,
        )

    # running ------------------------------------------------------------------------------------------------------
    async def run(self, stopping: asyncio.Event, notifier: ServiceNotifier) -> None:
        """Start every service, tell that we are ready, and end in order once ``stopping`` is set."""
        await self.sync.load()
        recovered = self.opened.recovered
        await self.conductor.tell_recovered(len(recovered.resumed), recovered.suspended, recovered.stopped, recovered.broken)
        await self.alarms.door.name_missing()
        self._notifier = notifier
        self.watches.holding.listeners.append(self._tell_manager)
        self.degraded.listeners.append(lambda _part, _why: self._tell_manager())
        await self.watches.holding.load()
        self.ledger.on_fatal = lambda _: stopping.set()
        await self.field.start()
        async with asyncio.TaskGroup() as group:

            def service(name: str, run: Callable[[], Awaitable[None]]) -> asyncio.Task[None]:
                """Start what may be away; it is restarted and named while it is."""
                return group.create_task(supervise(name, run, self.clock, self.degraded), name=name)

            closing = asyncio.Event()
            conductor = group.create_task(self.conductor.run_until(closing), name="conductor")
            speaking = group.create_task(self.dispatcher.run(), name="dispatcher")
            doors = [
                service("mqtt", self.field.listener.run),
                service("listening", self.hearing.listen),
                service("expecting", self.hearing.expect_answers),
                service("schedule", self.agent.later.schedule.run),
            ]
            others = [
                service("voice", self.voice.run),
                *(service(name, run) for part in (self.field, self.watches, self.agent) for name, run in part.services.items()),
                service("last words", self.delivery.last_words.run),
                service("webhooks", self.delivery.webhooks.run),
                service("bells", self.conductor.bells.run),
                service("turn watch", self.turn_watch.run),
                service("alarm changes", self.alarms.changes.run),
                service("inhibitions", self.alarms.inhibitions.run),
                service("memory", self.opened.memory.run),
                service("announcer", self._announcer().run),
                service("floods", self.floods.run),
                service("reannouncer", self.reannouncer.run),
                service("unanswered", self.conductor.unanswered.run),
                service("manager watchdog", ManagerWatchdog(self.progress, notifier).run),
                service("loop watchdog", LoopWatchdog().run),
            ]
            if self.panel is not None:
                doors.append(service("panel", self.panel.run))
            others += [service(name, run) for name, run in self.sync.services.items()]
            api = service("local api", self.local_api.run)
            await self.local_api.serving.wait()
            await self.watches.housekeeping.started.wait()
            self.standing.ready = True
            notifier.ready(self._status_line())
            log.info("core.ready", extra={"epoch": self.standing.epoch, "resumed": len(recovered.resumed)})

            await stopping.wait()
            log.info("core.stopping")
            notifier.stopping()
            self.standing.stopping = True
            await _end(doors)
            closing.set()
            await asyncio.wait({conductor}, timeout=_FINISH_TURNS_S)
            outboxes = (self.dispatcher, self.field.publisher, self.delivery.webhooks)
            await asyncio.gather(*(outbox.finish(_FINISH_DELIVERY_S) for outbox in outboxes))
            await _end([conductor, speaking])
            self.standing.leads_no_more = True
            async with self.conductor.ended:
                self.conductor.ended.notify_all()  # whoever waits for an answer is told how far it is
            await self.sync.finish()
            if self.ledger.fatal is not None:
                await self.delivery.say_last_words(_FINISH_DELIVERY_S)
            await _end([api, *others])
        if self.ledger.fatal is None:
            await self.ledger.transaction(lambda tx: owners.release(tx, self.clock, self.standing.epoch))
            await self.watches.housekeeping.witness()
        log.info("core.stopped")

    def _delivered(self) -> None:
        """A turn queued words, a message or a ticket, or asked for a later check."""
        self._wake_outboxes()
        self.delivery.webhooks.notify()
        self.agent.later.notify()

    def _wake_outboxes(self) -> None:
        """Words and messages were queued by whoever is no turn."""
        self.dispatcher.notify()
        self.field.publisher.notify()

    def _status_line(self) -> str:
        return status_line(
            self.standing.epoch,
            on_hold=self.watches.holding.is_on,
            is_draining=self.conductor.lanes.is_draining,
            degraded=list(self.degraded.reasons),
            needs_attention=self.watches.attention.needs_attention(),
        )

    def _tell_manager(self) -> None:
        if self._notifier is not None:
            self._notifier.status(self._status_line())

    def _announcer(self) -> Announcer:
        return Announcer(
            self.ledger,
            self.clock,
            self.ids,
            self.wording,
            self.degraded,
            language=self.settings.language,
            delivered=self.dispatcher.notify,
            said_lost=frozenset() if self.availability.is_online else frozenset({availability.PART}),
            silent=told_by_alarms(self.settings.plant),
        )


async def _end(tasks: list[asyncio.Task[None]]) -> None:
    """Cancel services and wait until they have cleaned up."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
