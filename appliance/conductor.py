"""One turn, from door to sync. Read this file first: it is the only one that knows the order of the rooms.

    doors -> admission -> session -> planning -> execution -> memory -> delivery -> sync

A door (``intake``) makes an outside event durable. Here the next admission is taken, lane by lane; a session opens a turn
for it; planning makes a plan, which is data; execution runs the plan's steps, each journalled before and after. Memory and
delivery are steps of the plan: what a turn remembers and says is written in the same ledger. Sync carries the ledger's
operations to the coordinator by itself.

Interjections ("stop that", "what are you doing") are led beside all this, past busy lanes, as turns of their own.

Parts of the conductor have files of their own: ``alarm_turns`` (which alarms get a turn), ``turn_planning`` (a plan and its
guards), ``joining`` (what is added to a running turn), ``bells`` (how a running turn hears of a stop), ``lanes`` (and draining),
``unanswered`` (questions that end), ``failed_turns`` (what broke), ``words``.

After a crash nothing here needs to know: ``admission.recovery`` admits a successor for every turn that was under way, and
``_go_on_with`` goes on where the ledger says it stopped.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from appliance.admission.queue import AdmissionQueue
from appliance.after_restart import AfterRestart
from appliance.alarm_turns import AlarmTurns
from appliance.bells import Bells
from appliance.contracts import lane as lane_names
from appliance.contracts.admission import (
    Admission,
    AdmissionStatus,
    Outcome,
    RequestKind,
)
from appliance.contracts.clock import Clock, IdSource
from appliance.contracts.effect import Confirmation
from appliance.contracts.errors import Fault, FloorhandError, OwnedElsewhere, Refused, Unavailable
from appliance.contracts.interrupt import Cause
from appliance.contracts.plan import Intent
from appliance.contracts.planning import PlanGate, PlanMaker
from appliance.contracts.ports import Wording
from appliance.contracts.principal import asker_of, principal_of
from appliance.contracts.store import Ledger
from appliance.contracts.turn import Turn, TurnEvent, TurnState
from appliance.coordination.availability import Availability
from appliance.execution.runner import Runner
from appliance.execution.stretch import RunOutcome
from appliance.execution.toolbox.toolbox import Toolbox
from appliance.execution.turn_signal import TurnSignal
from appliance.execution.urgency import urgency_of
from appliance.failed_turns import FailedTurns
from appliance.foundation.log import current_turn
from appliance.foundation.supervisor import Faults, contained
from appliance.joining import Joining, heard
from appliance.lanes import Lanes
from appliance.planning.phrases import Phrasebook
from appliance.planning.planner import Planner
from appliance.session.questions import Questions
from appliance.session.turns import Turns, both
from appliance.store import admissions, interrupts, stopping, turns
from appliance.turn_planning import TurnPlanning
from appliance.unanswered import LOOK_EVERY_S, Unanswered
from appliance.words import Words

log = logging.getLogger(__name__)

_ASK_LEDGER_AGAIN_S = 1.0  # while the card is full or does not answer: a try that fails writes nothing
_INTERJECTIONS_AT_ONCE = 4  # each is a few rows and a sentence; they are led beside the turns and never wait for one


@dataclass(frozen=True, slots=True)
class Rooms:
    """What the conductor leads; built by ``app``."""

    ledger: Ledger
    queue: AdmissionQueue
    turns: Turns
    alarms: AlarmTurns
    questions: Questions
    phrasebook: Phrasebook
    planner: Planner
    planners: PlanMaker
    gate: PlanGate
    toolbox: Toolbox
    runner: Runner
    wording: Wording
    availability: Availability
    clock: Clock
    ids: IdSource
    faults: Faults


class Conductor:
    """Takes admissions and leads each through its turn. One turn a lane, at most ``sessions`` lanes at once."""

    def __init__(
        self,
        rooms: Rooms,
        *,
        language: str,
        sessions: int,
        delivered: Callable[[], None],
        beat: Callable[[], None],
        look_for_unanswered_s: float = LOOK_EVERY_S,
    ) -> None:
        self._rooms = rooms
        self._language = language
        self._delivered = delivered
        self._beat = beat
        self._words = Words(rooms.wording, rooms.clock, rooms.ids, language)
        self._planning = TurnPlanning(
            rooms.ledger, rooms.turns, rooms.alarms, rooms.planners, rooms.gate, rooms.toolbox, rooms.availability, self._words
        )
        self._joining = Joining(rooms.ledger, rooms.turns, rooms.phrasebook, self._planning, self._words, rooms.clock)
        self._failed = FailedTurns(rooms.ledger, rooms.turns, self._words, self._planning.untold, language, delivered)
        self._room_for = {False: asyncio.Semaphore(sessions), True: asyncio.Semaphore(_INTERJECTIONS_AT_ONCE)}
        self.bells = Bells(rooms.ledger)
        """Service; its ``notify`` is to be called after each commit of the ledger."""
        self.lanes = Lanes(rooms.queue.wake)
        """What is led where; can be drained."""
        self.ended = self.lanes.ended
        """Notified whenever a lane becomes free, and when questions were abandoned."""
        self.unanswered = Unanswered(rooms.turns, self._words, delivered, self.ended, every_s=look_for_unanswered_s)
        """Service that ends questions nobody answers."""

    @property
    def running_turns(self) -> int:
        """Turns being led right now."""
        return self.lanes.led

    async def run_until(self, closing: asyncio.Event) -> None:
        """Take admissions and lead their turns. Once ``closing`` is set nothing new is taken, and this returns when the turns
        that run have ended. Cancellation interrupts them; the ledger knows them."""
        async with asyncio.TaskGroup() as group:
            taking = [
                group.create_task(self._take_all(group, interjections=False), name="taking admissions"),
                group.create_task(self._take_all(group, interjections=True), name="taking interjections"),
            ]
            await closing.wait()
            for task in taking:
                task.cancel()

    async def _take_all(self, group: asyncio.TaskGroup, *, interjections: bool) -> None:
        room_for = self._room_for[interjections]
        while True:
            await room_for.acquire()
            try:
                admission, is_talk = await self._next(interjections)
            except Fault as fault:
                room_for.release()
                await self._end_unread(fault)
                continue
            except asyncio.CancelledError:
                room_for.release()
                raise
            self._beat()
            self.lanes.begin(admission.id, admission.lane, is_talk=is_talk)
            group.create_task(self._lead(admission, room_for), name=f"turn {admission.id}")

    async def _next(self, interjections: bool) -> tuple[Admission, bool]:
        """Return the next admission that may be led now, and whether it is talk."""
        queue, alarms = self._rooms.queue, self._rooms.alarms
        while True:
            admission = await queue.next(self.lanes.closed, lambda: alarms.are_held, interjections=interjections)
            try:
                is_talk = not interjections and await contained(self._is_talk(admission))
            except Fault:  # its own turn will meet the same, and end of it
                is_talk = False
            if self.lanes.is_busy(admission.lane):  # an answer took the lane while the queue was looking
                continue
            if is_talk and self.lanes.is_draining:
                self.lanes.put_off(admission.lane)
                continue
            return admission, is_talk

    async def _is_talk(self, admission: Admission) -> bool:
        """Whether an admission is no alarm's: talk, and work that goes on after a restart, wait while the appliance drains."""
        if admission.kind is RequestKind.RESUME and not lane_names.is_beside(admission.lane):
            rows = await self._rooms.ledger.fetch(turns.BY_ID, (str(admission.payload["turn_id"]),))
            return not any(turns.to_turn(row).is_about_alarms for row in rows)
        return admission.kind is RequestKind.UTTERANCE

    async def _end_unread(self, fault: Fault) -> None:
        """End what waits and cannot be read. A fault that is no row's is raised: what is broken is the appliance."""
        if "admission" not in fault.facts:
            raise fault
        self._rooms.faults.note(fault)
        try:
            await self._failed.end_unread(str(fault.facts["admission"]), fault)
        except Unavailable:  # nothing could be written: it comes again
            await asyncio.sleep(_ASK_LEDGER_AGAIN_S)

    async def _lead(self, admission: Admission, room_for: asyncio.Semaphore) -> None:
        """Lead an admission to its terminal record, whatever breaks on the way, and free its lane. A fault in the program costs
        the turn that met it: nothing of it is resumed.

        Raises:
            OwnedElsewhere: another process took the ledger over; this one must end.
            FloorhandError: not even that it failed could be recorded: what is broken is no turn's.
        """
        failures: list[FloorhandError] = []
        try:
            while True:
                try:
                    leading = self._failed.end(admission, failures) if failures else self._go_on(admission)
                    await self._rooms.faults.contained(leading)
                    return
                except OwnedElsewhere:
                    raise
                except Unavailable as away:  # nothing could be written: the ledger still says where to go on
                    log.warning("turn.waits_for_ledger", extra={"admission": admission.id, "why": away.message})
                    await asyncio.sleep(_ASK_LEDGER_AGAIN_S)
                except FloorhandError as error:
                    if len(failures) > 1:
                        raise
                    log.error("turn.failed", extra={"admission": admission.id, "code": error.code, "why": error.message})
                    failures.append(error)
        finally:
            room_for.release()
            await self.lanes.end(admission.id, admission.lane)

    async def _go_on(self, admission: Admission) -> None:
        """Begin with an admission, or go on with the turn that it was started for already."""
        known = (await self._rooms.ledger.fetch(admissions.STATE_OF, (admission.id,)))[0]
        if known["status"] == AdmissionStatus.TERMINAL:
            return
        if known["turn_id"]:
            await self._go_on_with(await self._rooms.turns.load(known["turn_id"]), admission)
            return
        match admission.kind:
            case RequestKind.ALARM | RequestKind.FLOOD:
                turn = await self._rooms.alarms.open(admission, self._language)
                if turn is not None:
                    await self._work(turn, admission)
            case RequestKind.UTTERANCE | RequestKind.INTERJECTION:
                await self._utterance(admission)
            case RequestKind.RESUME:
                await self._go_on_with(await self._rooms.turns.resume(admission), admission)

    async def _go_on_with(self, turn: Turn, admission: Admission) -> None:
        """Plan a turn again if it has no plan yet, else run what is left of it."""
        if turn.state in turns.ACTIVE:
            await self._work(turn, admission)
            return
        # It had already ended or asks a question; only its admission may not be closed yet.
        known = (await self._rooms.ledger.fetch(admissions.STATE_OF, (admission.id,)))[0]
        if known["status"] != AdmissionStatus.TERMINAL:
            await self._rooms.turns.close_admission(admission, Outcome.DONE)

    # speech and typing ----------------------------------------------------------------------------------------------
    async def _utterance(self, admission: Admission) -> None:
        """Understand a sentence: an answer goes to the question it answers, anything else becomes a plan."""
        rooms, payload = self._rooms, admission.payload
        language = str(payload["language"])
        intent = rooms.phrasebook.understand(str(payload["text"]), language)
        decided_mono_ns = rooms.clock.monotonic_ns()
        intent = intent or Intent("not_understood", language, str(payload["text"]))
        if intent.slots.get("that") and self.lanes.is_busy(lane_names.own(admission.lane)):
            intent = replace(intent, name="stop_work", slots={})  # "cancel that" is about one's own work while there is some
        if intent.name in ("confirm", "deny"):
            verdict = await rooms.questions.meant_by(intent, admission)
            if isinstance(verdict, Confirmation):
                await self._answer(verdict, intent, admission, decided_mono_ns)
                return
            intent = verdict
        await self._open_and_work(admission, intent, decided_mono_ns)

    async def _answer(self, question: Confirmation, intent: Intent, admission: Admission, decided_mono_ns: int) -> None:
        """Give a question its answer and go on with the turn that asked it."""
        rooms = self._rooms
        asker = await rooms.turns.load(question.turn_id)
        if not await self.lanes.lead_once_free(asker.lane, admission.lane, lambda: rooms.questions.is_open(question)):
            await self._open_and_work(admission, Intent("nothing_pending", intent.language, intent.text), decided_mono_ns)
            return
        try:
            account = heard(admission, intent.name, rooms.clock, decided_mono_ns)
            try:
                turn = await rooms.turns.answer(
                    question.id, intent.name == "confirm", admission, heard=account, who=principal_of(admission.payload)
                )
            except Refused:
                if await rooms.questions.is_open(question):
                    raise
                await self._open_and_work(admission, Intent("nothing_pending", intent.language, intent.text), decided_mono_ns)
                return
            await self._work(turn, admission)
        finally:
            if asker.lane != admission.lane:
                await self.lanes.free(asker.lane)

    async def _open_and_work(self, admission: Admission, intent: Intent, decided_mono_ns: int) -> None:
        rooms = self._rooms
        context: dict[str, Any] = {
            "slots": dict(intent.slots),
            "said": intent.text,
            "by": admission.payload["by"],
            **asker_of(admission.payload),
            "heard": heard(admission, intent.name, rooms.clock, decided_mono_ns),
        }
        turn = await rooms.turns.open(
            admission,
            language=intent.language,
            intent=intent.name,
            context=context,
            offline=not rooms.availability.is_online,
        )
        await self._work(turn, admission)

    # planning and execution -----------------------------------------------------------------------------------------
    async def _work(self, turn: Turn, admission: Admission) -> None:
        """Plan a turn, run its plan and let in what joins it, until it ends or waits for an answer."""
        current_turn.set(turn.id)
        with self.bells.of(turn) as signal:
            going_on: Turn | None = turn
            while going_on is not None:
                turn = going_on
                if turn.state is TurnState.PLANNING:
                    planned = await self._planning.plan(turn, admission, signal)
                    going_on = await self._heed(turn, admission, signal) if planned is None else planned
                    if going_on.state is not TurnState.EXECUTING:
                        self._delivered()  # it was said why
                elif turn.state is TurnState.EXECUTING:
                    outcome = await self._rooms.runner.run(turn, signal)
                    self._beat()
                    going_on = await self._after(outcome, turn, admission, signal)
                else:
                    going_on = None

    async def _heed(self, turn: Turn, admission: Admission, signal: TurnSignal) -> Turn:
        """Look what a turn that is being planned was rung for: a stop ends it, a redirect makes it another one."""
        signal.answer()
        stop = await self._rooms.ledger.transaction(lambda tx: interrupts.stop_of(tx, turn.id))
        if stop is not None:
            return await self._stop(turn, admission, stop.cause, stop.reason)
        return await self._joining.take_up(turn, signal) if signal.steered else turn

    async def _after(self, outcome: RunOutcome, turn: Turn, admission: Admission, signal: TurnSignal) -> Turn | None:
        """Do what a run's end asks for; return the turn if it goes on."""
        ending, untold = self._rooms.turns.end, self._planning.untold(turn)
        match outcome.kind:
            case "steered":
                turn = await self._joining.take_up(turn, signal)
                self._delivered()
                return turn
            case "finished":
                if (going_on := await self._planning.go_on(turn, signal)) is not None:
                    return await self._heed(going_on, admission, signal) if signal.is_rung else going_on
                await ending(turn.id, TurnEvent.FINISHED, admission.id, Outcome.DONE, also=untold)
            case "waiting":
                await ending(turn.id, TurnEvent.ASKED, admission.id, Outcome.DONE, also=untold)
            case "failed":
                await ending(turn.id, TurnEvent.FAILED, admission.id, Outcome.FAILED, reason=outcome.failure, also=untold)
            case "stopped":
                await self._stop(turn, admission, outcome.cause or Cause.SYSTEM, outcome.reason)
        self._delivered()
        return None

    async def _stop(self, turn: Turn, admission: Admission, cause: Cause, reason: str) -> Turn:
        """End a turn that was stopped. Who stopped it knows; what a watchdog of ours did is said."""
        urgency = urgency_of(turn.context, is_first=False)
        stopped = self._words.saying("stopped_by_system", turn, turn.language, urgency)
        also = None if cause is Cause.USER else both(self._planning.untold(turn), stopped)
        log.warning("turn.stopped", extra={"cause": str(cause), "why": reason})
        ended = await self._rooms.turns.stop(turn.id, admission.id, cause, reason, also=also)
        self._delivered()
        return ended

    async def stop_turn(self, turn_id: str, by: str, reason: str) -> Turn:
        """Stop a turn in the name of a person; return it as it is once the wish is on disk.

        Raises:
            Refused: no such turn.
        """
        rooms = self._rooms
        turn = await rooms.ledger.transaction(
            lambda tx: stopping.stop(tx, rooms.clock, rooms.ids, turn_id, cause=Cause.USER, by=by, reason=reason)
        )
        self.bells.notify()
        async with self.ended:
            self.ended.notify_all()  # a question may have been closed that an answer waits to be given to
        return turn

    # what ends and begins beside the turns --------------------------------------------------------------------------
    async def tell_recovered(
        self, resumed: int, suspended: Sequence[Turn], stopped: Sequence[Turn] = (), broken: Sequence[Fault] = ()
    ) -> None:
        """Say, after a restart, that work goes on, and which work does not (R4). What is ``broken`` is named in the status."""
        news = AfterRestart(self._words, self._rooms.planner.plant)
        try:
            if resumed or suspended or stopped or broken:
                unsaid = await self._rooms.ledger.transaction(lambda tx: news.tell(tx, resumed, suspended, stopped, broken))
                for fault in (*broken, *unsaid):
                    self._rooms.faults.note(fault)
                self._delivered()
        except Unavailable as error:  # a full card: what goes on goes on without these words
            log.warning("recovery.not_said", extra={"why": error.message})
