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

from appliance.admission.gate import Gate
from appliance.admission.queue import AdmissionQueue
from appliance.alarm_rooms import AlarmRooms
from appliance.alarm_turns import AlarmTurns
from appliance.alarms.floods import Floods
from appliance.alarms.reannounce import Reannouncer
from appliance.conductor import Conductor, Rooms
from appliance.console.api import LocalApi
from appliance.contracts.errors import Refused, Unavailable
from appliance.coordination import availability
from appliance.coordination.availability import Availability
from appliance.core import RunningCore, Standing
from appliance.delivery.alarm_messages import alarm_messages
from appliance.delivery.announcer import Announcer, told_by_alarms
from appliance.delivery.dispatcher import Dispatcher
from appliance.delivery.phrasing import Phrasing
from appliance.execution.runner import Runner
from appliance.execution.shipped import shipped_tools
from appliance.execution.toolbox import Toolbox
from appliance.field_rooms import FieldRooms, FieldSources
from appliance.foundation.supervisor import supervise
from appliance.health.sd_notify import ServiceNotifier
from appliance.health.vitals import read_vitals
from appliance.health.watchdog import LoopWatchdog, ManagerWatchdog, Progress, StartWatchdog
from appliance.intake.console_door import ConsoleDoor
from appliance.intake.voice_door import VoiceDoor
from appliance.machine_panel import MachinePanel
from appliance.opening import Opened, open_everything
from appliance.planning.planner import Planner
from appliance.session.questions import Questions
from appliance.session.turns import Turns
from appliance.settings import Settings
from appliance.store import confirmations, owners
from appliance.sync.downlink import Downlink
from appliance.sync.http_link import HttpCoordinator
from appliance.sync.uplink import Uplink
from drivers.alarms.first_out import first_out
from drivers.alarms.states import advance_alarm
from voice.link import VoiceLink

log = logging.getLogger(__name__)

_FINISH_TURNS_S = 10.0  # at SIGTERM a running turn gets this long; what is left goes on after the next start
_FINISH_SPEECH_S = 5.0
_FLUSH_S = 5.0
_COMMITS_TOGETHER_S = 0.1  # an alarm is a dozen commits; nobody can answer a question sooner after it was put


async def serve(settings: Settings) -> int:
    """Run the core until SIGTERM or SIGINT; return the exit code.

    Raises:
        OwnedElsewhere: another core owns this data folder.
        Corrupt: the ledger does not verify as a database.
        ConfigError: phrases or playbooks cannot be used.
    """
    notifier = ServiceNotifier()
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    async with contextlib.AsyncExitStack() as stack:
        with StartWatchdog():
            appliance = Appliance(await open_everything(settings, stack), stack)
        await appliance.run(stopping, notifier)
    return 0


class Appliance:
    """Everything that runs, built and not yet started."""

    def __init__(self, opened: Opened, stack: contextlib.AsyncExitStack) -> None:
        settings, clock, ledger, degraded = opened.settings, opened.clock, opened.ledger, opened.degraded
        self.opened, self.settings, self.clock, self.ids = opened, settings, clock, opened.ids
        self.ledger, self.degraded, self.phrasebook = ledger, degraded, opened.phrasebook
        self.standing = Standing(origin=opened.origin, epoch=opened.recovered.ownership.epoch)
        self.wording = Phrasing({lang: opened.phrasebook.replies(lang) for lang in settings.languages}, settings.plant)
        self.sources = FieldSources(settings.plant, clock, degraded)
        self.voice = VoiceLink(settings.voice, settings.socket.parent, clock, opened.ids, degraded)
        self.dispatcher = Dispatcher(ledger, clock, self.voice, self.wording)
        ledger.on_trouble = lambda why: degraded.mark("ledger", why) if why else degraded.clear("ledger")
        self._written = asyncio.Event()
        ledger.on_commit(self._written.set)
        self.voice.ready_listeners.append(self.dispatcher.voice_ready)
        self.availability = Availability(ledger, clock, degraded)
        self._build_alarms(stack)
        self._build_conductor(self.standing.epoch)
        self._build_doors()
        self._build_sync(stack)

    def _build_alarms(self, stack: contextlib.AsyncExitStack) -> None:
        settings, ledger, clock, ids, degraded = self.settings, self.ledger, self.clock, self.ids, self.degraded
        self.queue = AdmissionQueue(ledger, clock)
        self.gate = Gate(ledger, clock, ids, notify=self.queue.wake)
        publish = alarm_messages(clock, ids, settings.mqtt.client_id)
        epoch = self.standing.epoch
        self.alarms = AlarmRooms(
            ledger, clock, ids, settings.plant, settings.alarms, self.gate, degraded, advance_alarm, epoch=epoch, publish=publish
        )
        ledger.on_commit(self.alarms.changes.notify)
        self.field = FieldRooms(self.sources, self.alarms, settings.mqtt, settings.plant, ledger, clock, ids, degraded)
        stack.push_async_callback(self.field.close)
        self.panel: MachinePanel | None = None
        if settings.gpio.is_used:
            self.panel = MachinePanel(settings.gpio, ledger, clock, degraded, self.alarms.handling, self.voice)
            self.alarms.changes.stirred.append(self.panel.notify)

    def _build_conductor(self, epoch: int) -> None:
        settings, ledger, clock, ids = self.settings, self.ledger, self.clock, self.ids
        self.turns = Turns(ledger, clock, ids, epoch, settings.session)
        tools = shipped_tools(
            plant=settings.plant,
            bus=self.sources.bus,
            recaller=self.opened.memory,
            writer=self.opened.memory,
            procedures=self.opened.procedures,
            wording=self.wording,
            clock=clock,
            ids=ids,
            alarm_hands=self.alarms.handling,
            alarm_shelf=self.alarms.inhibitions,
        )
        toolbox = Toolbox(tools)
        bounds_s = {tool.contract.name: tool.contract.sla.max_execution_time_ms / 1000 for tool in tools}
        planner = Planner(self.phrasebook, self.opened.playbooks, settings.plant, bounds_s)
        delivered = self.dispatcher.notify
        wake = self.queue.wake
        self.floods = Floods(ledger, clock, ids, epoch, settings.alarms, wake=wake, first_out=first_out)
        self.alarms.changes.stirred.append(self.floods.notify)
        self.reannouncer = Reannouncer(ledger, clock, ids, epoch, settings.alarms, wake=wake)
        self.runner = Runner(ledger, toolbox, clock, ids, epoch, self.wording, delivered=delivered)
        rooms = Rooms(
            ledger=ledger,
            queue=self.queue,
            turns=self.turns,
            alarms=AlarmTurns(
                ledger=ledger,
                turns=self.turns,
                planner=planner,
                floods=self.floods,
                availability=self.availability,
                plant=settings.plant,
                clock=clock,
                announced=self.reannouncer.notify,
            ),
            questions=Questions(ledger, clock),
            phrasebook=self.phrasebook,
            planner=planner,
            runner=self.runner,
            wording=self.wording,
            availability=self.availability,
            clock=clock,
            ids=ids,
        )
        self.planner = planner
        self.progress = Progress(clock, lambda: self.conductor.running_turns == 0)
        self.conductor = Conductor(
            rooms,
            language=settings.language,
            sessions=settings.session.turns_at_once,
            delivered=delivered,
            beat=self.progress.beat,
        )

    def _build_doors(self) -> None:
        settings = self.settings
        self.voice_door = VoiceDoor(self.gate)
        core = RunningCore(
            self.standing,
            ledger=self.ledger,
            clock=self.clock,
            ids=self.ids,
            plant=settings.plant,
            field_bus=self.sources.bus,
            door=ConsoleDoor(self.gate, self.ids),
            runner=self.runner,
            turns=self.turns,
            availability=self.availability,
            alarms=self.alarms.desk,
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
        )

    def _build_sync(self, stack: contextlib.AsyncExitStack) -> None:
        settings = self.settings.sync
        self.uplink: Uplink | None = None
        self.downlink: Downlink | None = None
        if settings.is_enabled:
            link = HttpCoordinator(settings)
            stack.push_async_callback(link.close)
            self.uplink = Uplink(self.ledger, link, self.clock, settings, self.availability, self.degraded)
            self.downlink = Downlink(self.ledger, link, self.clock, settings, self.availability)
            self.ledger.on_commit(self.uplink.notify)

    # running ------------------------------------------------------------------------------------------------------
    async def run(self, stopping: asyncio.Event, notifier: ServiceNotifier) -> None:
        """Start every service, tell that we are ready, and end in order once ``stopping`` is set."""
        if self.uplink is not None:
            await self.availability.load()  # turns that go on before sync has tried are offline if the last ones were
        recovered = self.opened.recovered
        await self.conductor.tell_recovered(len(recovered.resumed), recovered.suspended)
        await self.alarms.door.name_missing()
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
                service("listening", self._listen),
                service("expecting", self._expect_answers),
            ]
            others = [
                service("voice", self.voice.run),
                *(service(name, run) for name, run in self.field.services.items()),
                service("alarm changes", self.alarms.changes.run),
                service("inhibitions", self.alarms.inhibitions.run),
                service("memory", self.opened.memory.run),
                service("announcer", self._announcer().run),
                service("floods", self.floods.run),
                service("reannouncer", self.reannouncer.run),
                service("unanswered", self.conductor.abandon_unanswered),
                service("manager watchdog", ManagerWatchdog(self.progress, notifier).run),
                service("loop watchdog", LoopWatchdog().run),
            ]
            if self.panel is not None:
                doors.append(service("panel", self.panel.run))
            if self.uplink is not None and self.downlink is not None:
                others += [service("uplink", self.uplink.run), service("downlink", self.downlink.run)]
            api = service("local api", self.local_api.run)
            await self.local_api.serving.wait()
            self.standing.ready = True
            notifier.ready(f"epoch {self.standing.epoch}")
            log.info("core.ready", extra={"epoch": self.standing.epoch, "resumed": len(recovered.resumed)})

            await stopping.wait()
            log.info("core.stopping")
            notifier.stopping()
            self.standing.stopping = True
            await _end(doors)
            closing.set()
            await asyncio.wait({conductor}, timeout=_FINISH_TURNS_S)
            await self.dispatcher.finish(_FINISH_SPEECH_S)
            await _end([conductor, speaking])
            if self.uplink is not None and self.availability.is_online:
                await self.uplink.drain(_FLUSH_S)
            await _end([api, *others])
        await self.ledger.transaction(lambda tx: owners.release(tx, self.clock, self.standing.epoch))
        log.info("core.stopped")

    async def _listen(self) -> None:
        """Give the voice process its grammar and admit what it hears, for ever."""
        language = self.settings.language
        grammar = await asyncio.to_thread(self.phrasebook.grammar, language)
        await self.voice.load_grammar(grammar, self.planner.leads(language))
        async for utterance in self.voice.utterances():
            try:
                await self.voice_door.admit(utterance)
            except (Refused, Unavailable) as error:  # one sentence is lost; the next may be taken
                log.error("utterance.not_admitted", extra={"utterance": utterance.id, "why": error.message})

    async def _expect_answers(self) -> None:
        """Tell the ears whether a question is open, whenever that changes: a short "no" must not be taken for clatter."""
        told: bool | None = None
        while True:
            self._written.clear()
            rows = await self.ledger.fetch(confirmations.PENDING_COUNT)
            if told is not (pending := rows[0]["pending"] > 0):
                await self.voice.expect_answer(pending)
                told = pending
            await self._written.wait()
            await asyncio.sleep(_COMMITS_TOGETHER_S)

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
