"""Builds every object in reading order, owns the one task group, and ends everything in the right order.

In: settings. Out: an exit code. Who calls: ``__main__``. What depends on hardware or network is supervised: it may be away
without keeping the core from being READY; what it means to be degraded is named in ``status``.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from appliance.admission.gate import Gate
from appliance.admission.queue import AdmissionQueue
from appliance.admission.recovery import Recovered, take_over
from appliance.conductor import Conductor, Rooms
from appliance.console.api import LocalApi
from appliance.contracts.clock import Clock, IdSource
from appliance.contracts.errors import ConfigError, Corrupt, Refused, Unavailable
from appliance.coordination import availability
from appliance.coordination.availability import Availability
from appliance.core import RunningCore, Standing
from appliance.delivery.announcer import Announcer
from appliance.delivery.dispatcher import Dispatcher
from appliance.delivery.phrasing import Phrasing
from appliance.execution.runner import Runner
from appliance.execution.shipped import shipped_tools
from appliance.execution.toolbox import Toolbox
from appliance.foundation.id_source import SystemIds
from appliance.foundation.supervisor import Degraded, supervise
from appliance.foundation.system_clock import SystemClock
from appliance.health.sd_notify import ServiceNotifier
from appliance.health.vitals import read_vitals
from appliance.health.watchdog import LoopWatchdog, ManagerWatchdog, Progress, StartWatchdog
from appliance.intake.alarm_door import AlarmDoor
from appliance.intake.console_door import ConsoleDoor
from appliance.intake.voice_door import VoiceDoor
from appliance.memory.embedder import choose_embedder
from appliance.memory.memory import Memory
from appliance.memory.procedural import ProcedureRepository
from appliance.planning.phrases import Phrasebook
from appliance.planning.planner import Planner
from appliance.planning.playbooks import Playbooks
from appliance.session.questions import Questions
from appliance.session.turns import Turns
from appliance.settings import Settings
from appliance.store import confirmations, operations, owners
from appliance.store.database import Database
from appliance.sync.downlink import Downlink
from appliance.sync.http_link import HttpCoordinator
from appliance.sync.uplink import Uplink
from drivers.alarms.states import advance_alarm
from drivers.gpio.push_to_talk import PushToTalk
from drivers.modbus.bus import ModbusBus
from drivers.mqtt.session import MqttSession
from drivers.mqtt.topics import IncomingMessage, parse_alarm
from voice.link import VoiceLink

log = logging.getLogger(__name__)

_FINISH_TURNS_S = 10.0  # at SIGTERM a running turn gets this long; what is left goes on after the next start
_FINISH_SPEECH_S = 5.0
_FLUSH_S = 5.0


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


class Appliance:
    """Everything that runs, built and not yet started."""

    def __init__(self, opened: Opened, stack: contextlib.AsyncExitStack) -> None:
        settings, clock, ledger, degraded = opened.settings, opened.clock, opened.ledger, opened.degraded
        self.opened, self.settings, self.clock, self.ids = opened, settings, clock, opened.ids
        self.ledger, self.degraded, self.phrasebook = ledger, degraded, opened.phrasebook
        self.standing = Standing(origin=opened.origin, epoch=opened.recovered.ownership.epoch)
        self.wording = Phrasing({lang: opened.phrasebook.replies(lang) for lang in settings.languages}, settings.plant)
        self.field_bus = ModbusBus(settings.plant, clock, degraded)
        stack.push_async_callback(self.field_bus.close)
        self.voice = VoiceLink(settings.voice, settings.socket.parent, clock, opened.ids, degraded)
        self.dispatcher = Dispatcher(ledger, clock, self.voice, self.wording)
        ledger.on_trouble = lambda why: degraded.mark("ledger", why) if why else degraded.clear("ledger")
        self._written = asyncio.Event()
        ledger.on_commit(self._written.set)
        self.voice.ready_listeners.append(self.dispatcher.voice_ready)
        self.availability = Availability(ledger, clock, degraded)
        self._build_conductor(self.standing.epoch)
        self._build_doors()
        self._build_sync(stack)

    def _build_conductor(self, epoch: int) -> None:
        settings, ledger, clock, ids = self.settings, self.ledger, self.clock, self.ids
        self.queue = AdmissionQueue(ledger, clock)
        self.turns = Turns(ledger, clock, ids, epoch, settings.session)
        tools = shipped_tools(
            plant=settings.plant,
            bus=self.field_bus,
            recaller=self.opened.memory,
            writer=self.opened.memory,
            procedures=self.opened.procedures,
            wording=self.wording,
            clock=clock,
            ids=ids,
            advance_alarm=advance_alarm,
        )
        toolbox = Toolbox(tools)
        bounds_s = {tool.contract.name: tool.contract.sla.max_execution_time_ms / 1000 for tool in tools}
        planner = Planner(self.phrasebook, self.opened.playbooks, settings.plant, bounds_s)
        delivered = self.dispatcher.notify
        self.runner = Runner(ledger, toolbox, clock, ids, epoch, self.wording, delivered=delivered)
        rooms = Rooms(
            ledger=ledger,
            queue=self.queue,
            turns=self.turns,
            questions=Questions(ledger, clock),
            phrasebook=self.phrasebook,
            planner=planner,
            runner=self.runner,
            wording=self.wording,
            availability=self.availability,
            plant=settings.plant,
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
        settings, plant = self.settings, self.settings.plant
        gate = Gate(self.ledger, self.clock, self.ids, notify=self.queue.wake)
        alarm_door = AlarmDoor(gate, plant, self.clock, advance_alarm)
        self.voice_door = VoiceDoor(gate)

        async def take_message(message: IncomingMessage) -> None:
            await alarm_door.admit(parse_alarm(message, plant))

        self.mqtt = MqttSession(settings.mqtt, self.clock, self.degraded, take_message)
        core = RunningCore(
            self.standing,
            ledger=self.ledger,
            clock=self.clock,
            ids=self.ids,
            plant=plant,
            field_bus=self.field_bus,
            door=ConsoleDoor(gate, self.ids),
            runner=self.runner,
            turns=self.turns,
            availability=self.availability,
            degraded=self.degraded,
            ended=self.conductor.ended,
            delivered=self.dispatcher.notify,
        )
        self.standing.facts |= {
            "voice": self.voice.facts,
            "mqtt_connected": lambda: self.mqtt.is_connected,
            "turns_running": lambda: self.conductor.running_turns,
            "memory_knows_likeness": lambda: self.opened.memory.knows_likeness,
        }
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
        async with asyncio.TaskGroup() as group:

            def service(name: str, run: Callable[[], Awaitable[None]]) -> asyncio.Task[None]:
                """Start what may be away; it is restarted and named while it is."""
                return group.create_task(supervise(name, run, self.clock, self.degraded), name=name)

            closing = asyncio.Event()
            conductor = group.create_task(self.conductor.run_until(closing), name="conductor")
            speaking = group.create_task(self.dispatcher.run(), name="dispatcher")
            doors = [
                service("mqtt", self.mqtt.run),
                service("listening", self._listen),
                service("expecting", self._expect_answers),
            ]
            others = [
                service("voice", self.voice.run),
                service("field", self.field_bus.run),
                service("memory", self.opened.memory.run),
                service("announcer", self._announcer().run),
                service("unanswered", self.conductor.abandon_unanswered),
                service("manager watchdog", ManagerWatchdog(self.progress, notifier).run),
                service("loop watchdog", LoopWatchdog().run),
            ]
            if self.settings.gpio.push_to_talk_pin is not None:
                doors.append(service("push-to-talk", self._follow_button))
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

    async def _follow_button(self) -> None:
        """Pass the push-to-talk button on to the ears, for ever."""
        changes: asyncio.Queue[bool] = asyncio.Queue()
        pin = self.settings.gpio.push_to_talk_pin
        assert pin is not None  # else this service is not started
        button = PushToTalk(pin, self.clock, self.degraded, lambda pressed, _: changes.put_nowait(pressed))
        async with asyncio.TaskGroup() as group:
            group.create_task(button.run(), name="button")
            while True:
                try:
                    await self.voice.listen(await changes.get())
                except Unavailable as error:  # the voice process is being started again; whoever holds the button sees no light
                    log.warning("button.nobody_listens", extra={"why": error.message})

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
        )


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


async def _end(tasks: list[asyncio.Task[None]]) -> None:
    """Cancel services and wait until they have cleaned up."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
