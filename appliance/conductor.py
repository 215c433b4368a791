"""One turn, from door to sync. Read this file first: it is the only one that knows the order of the rooms.

    doors -> admission -> session -> planning -> execution -> memory -> delivery -> sync

A door (``intake``) makes an outside event durable. Here the next admission is taken, lane by lane; a session opens a turn
for it; planning makes a plan, which is data; execution runs the plan's steps, each journalled before and after. Memory and
delivery are steps of the plan: what a turn remembers and says is written in the same ledger. Sync carries the ledger's
operations to the coordinator by itself.

Which alarms get a turn of their own, and which are told together in a flood, is ``alarm_turns``'s matter.

After a crash nothing here needs to know: ``admission.recovery`` admits a successor for every turn that was under way, and
``_go_on_with`` goes on where the ledger says it stopped.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from appliance.admission.queue import AdmissionQueue
from appliance.alarm_turns import AlarmTurns
from appliance.contracts.admission import (
    PRIORITY_RESUME,
    PRIORITY_UTTERANCE,
    Admission,
    AdmissionStatus,
    Door,
    Outcome,
    RequestKind,
)
from appliance.contracts.clock import Clock, IdSource
from appliance.contracts.delivery import PRIORITY_ANSWER
from appliance.contracts.effect import Confirmation
from appliance.contracts.errors import FloorhandError, Malformed, OwnedElsewhere, Refused, Unavailable
from appliance.contracts.plan import Intent, Plan
from appliance.contracts.ports import Wording
from appliance.contracts.store import Ledger, Transaction
from appliance.contracts.turn import Turn, TurnEvent, TurnState
from appliance.coordination.availability import Availability
from appliance.execution.runner import Runner
from appliance.execution.urgency import urgency_of
from appliance.foundation.log import current_turn
from appliance.planning.phrases import Phrasebook
from appliance.planning.planner import Planner
from appliance.session.questions import Questions
from appliance.session.turns import Also, Turns
from appliance.store import admissions, confirmations, deliveries

log = logging.getLogger(__name__)

_LOOK_FOR_UNANSWERED_S = 30.0  # the limit is half an hour, so half a minute more does not matter
_ASK_LEDGER_AGAIN_S = 1.0  # while the card is full or does not answer: a try that fails writes nothing


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
    runner: Runner
    wording: Wording
    availability: Availability
    clock: Clock
    ids: IdSource


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
        look_for_unanswered_s: float = _LOOK_FOR_UNANSWERED_S,
    ) -> None:
        self._rooms = rooms
        self._language = language
        self._delivered = delivered
        self._beat = beat
        self._look_for_unanswered_s = look_for_unanswered_s
        self._room_for = asyncio.Semaphore(sessions)
        self._busy: set[str] = set()
        self._running = 0
        self.ended = asyncio.Condition()
        """Notified whenever a lane becomes free, and when questions were abandoned."""

    @property
    def running_turns(self) -> int:
        """Turns being led right now."""
        return self._running

    async def run_until(self, closing: asyncio.Event) -> None:
        """Take admissions and lead their turns. Once ``closing`` is set nothing new is taken, and this returns when the turns
        that run have ended. Cancellation interrupts them; the ledger knows them."""
        async with asyncio.TaskGroup() as group:
            taking = group.create_task(self._take_all(group), name="taking admissions")
            await closing.wait()
            taking.cancel()

    async def _take_all(self, group: asyncio.TaskGroup) -> None:
        while True:
            await self._room_for.acquire()
            try:
                admission = await self._next()
                while admission.lane in self._busy:  # an answer took the lane while the queue was looking
                    admission = await self._next()
            except asyncio.CancelledError:
                self._room_for.release()
                raise
            self._beat()
            self._busy.add(admission.lane)
            self._running += 1
            group.create_task(self._lead(admission), name=f"turn {admission.id}")

    async def _next(self) -> Admission:
        return await self._rooms.queue.next(self._busy, lambda: self._rooms.alarms.are_held)

    async def _lead(self, admission: Admission) -> None:
        """Lead an admission to its terminal record, whatever breaks on the way, and free its lane.

        Raises:
            OwnedElsewhere: another process took the ledger over; this one must end.
        """
        failure: FloorhandError | None = None
        try:
            while True:
                try:
                    await (self._go_on(admission) if failure is None else self._fail(admission, failure))
                    return
                except OwnedElsewhere:
                    raise
                except Unavailable as away:  # nothing could be written: the ledger still says where to go on
                    log.warning("turn.waits_for_ledger", extra={"admission": admission.id, "why": away.message})
                    await asyncio.sleep(_ASK_LEDGER_AGAIN_S)
                except FloorhandError as error:
                    if failure is not None:
                        raise
                    log.error("turn.failed", extra={"admission": admission.id, "code": error.code, "why": error.message})
                    failure = error
        finally:
            self._running -= 1
            self._room_for.release()
            await self._free(admission.lane)

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
                    await self._plan_and_run(turn, admission)
            case RequestKind.UTTERANCE:
                await self._utterance(admission)
            case RequestKind.RESUME:
                await self._go_on_with(await self._rooms.turns.resume(admission), admission)

    async def _go_on_with(self, turn: Turn, admission: Admission) -> None:
        """Plan a turn again if it has no plan yet, else run what is left of it."""
        match turn.state:
            case TurnState.PLANNING:
                await self._plan_and_run(turn, admission)
            case TurnState.EXECUTING:
                await self._run(turn, admission)
            case _:
                # It had already ended or asks a question; only its admission was not closed yet.
                await self._rooms.turns.close_admission(admission, Outcome.DONE)

    async def _fail(self, admission: Admission, error: FloorhandError) -> None:
        """Leave a terminal record when a turn broke outside its plan, and say once that it did."""
        rooms = self._rooms
        known = (await rooms.ledger.fetch(admissions.STATE_OF, (admission.id,)))[0]
        if known["status"] == AdmissionStatus.TERMINAL:
            return
        turn = await rooms.turns.load(known["turn_id"]) if known["turn_id"] else None
        language = turn.language if turn else str(admission.payload.get("language", self._language))
        spoken = PRIORITY_ANSWER if admission.door is Door.VOICE else admission.priority
        urgency = urgency_of(turn.context, is_first=True) if turn else spoken
        also = self._saying("tool_failed", turn, language, urgency, why=error.message)
        if turn is not None and turn.state in (TurnState.PLANNING, TurnState.EXECUTING):
            await rooms.turns.end(turn.id, TurnEvent.FAILED, admission.id, Outcome.FAILED, reason=error.message, also=also)
        else:
            await rooms.turns.close_admission(admission, Outcome.FAILED, also=also)
        self._delivered()

    async def tell_recovered(self, resumed: int, suspended: Sequence[Turn]) -> None:
        """Say, after a restart, that work goes on (once, however many restarts it took), and which work does not (R4)."""
        restarted = self._rooms.wording.reply("restarted", self._language)

        def queue(tx: Transaction) -> None:
            if resumed and not deliveries.is_waiting(tx, restarted):
                self._saying("restarted", None, self._language, PRIORITY_RESUME)(tx)
            for turn in suspended:
                self._saying("put_aside", turn, turn.language, PRIORITY_RESUME)(tx)

        try:
            if resumed or suspended:
                await self._rooms.ledger.transaction(queue)
                self._delivered()
        except Unavailable as error:  # a full card: what goes on goes on without these words
            log.warning("recovery.not_said", extra={"why": error.message})

    async def abandon_unanswered(self) -> None:
        """Look now and then, for ever, for questions that nobody answered within the limit (S7), and say that they ended."""
        while True:
            await asyncio.sleep(self._look_for_unanswered_s)
            if await self._rooms.turns.abandon_unanswered(self._say_abandoned):
                self._delivered()
                async with self.ended:
                    self.ended.notify_all()

    def _say_abandoned(self, tx: Transaction, turn: Turn) -> None:
        self._saying("unanswered", turn, turn.language, PRIORITY_UTTERANCE)(tx)

    # speech and typing ----------------------------------------------------------------------------------------------
    async def _utterance(self, admission: Admission) -> None:
        """Understand a sentence: an answer goes to the question it answers, anything else becomes a plan."""
        rooms, heard = self._rooms, admission.payload
        language = str(heard["language"])
        intent = rooms.phrasebook.understand(str(heard["text"]), language)
        decided_mono_ns = rooms.clock.monotonic_ns()
        if intent is not None and intent.name in ("confirm", "deny"):
            verdict = await rooms.questions.meant_by(intent, admission)
            if isinstance(verdict, Confirmation):
                await self._answer(verdict, intent, admission, decided_mono_ns)
                return
            await self._open_and_run(admission, Intent(verdict, language, intent.text), decided_mono_ns)
            return
        await self._open_and_run(admission, intent or Intent("not_understood", language, str(heard["text"])), decided_mono_ns)

    async def _answer(self, question: Confirmation, intent: Intent, admission: Admission, decided_mono_ns: int) -> None:
        """Give a question its answer and go on with the turn that asked it."""
        rooms = self._rooms
        asker = await rooms.turns.load(question.turn_id)
        if not await self._take(asker.lane, admission.lane, question):
            await self._open_and_run(admission, Intent("nothing_pending", intent.language, intent.text), decided_mono_ns)
            return
        try:
            heard = self._heard(admission, intent.name, decided_mono_ns)
            turn = await rooms.turns.answer(question.id, intent.name == "confirm", admission, heard=heard)
            await self._run(turn, admission)
        finally:
            if asker.lane != admission.lane:
                await self._free(asker.lane)

    async def _open_and_run(self, admission: Admission, intent: Intent, decided_mono_ns: int) -> None:
        rooms = self._rooms
        context: dict[str, Any] = {
            "slots": dict(intent.slots),
            "said": intent.text,
            "by": admission.payload["by"],
            "heard": self._heard(admission, intent.name, decided_mono_ns),
        }
        turn = await rooms.turns.open(
            admission,
            language=intent.language,
            intent=intent.name,
            context=context,
            offline=not rooms.availability.is_online,
        )
        await self._plan_and_run(turn, admission)

    def _heard(self, admission: Admission, intent: str, decided_mono_ns: int) -> dict[str, Any]:
        """Account of one utterance: what was heard, what it was taken for and how long that took (within one boot)."""
        ended_ns = admission.payload.get("speech_ended_mono_ns")
        ms = None
        if ended_ns is not None and admission.boot_id == self._rooms.clock.boot_id:
            ms = round((decided_mono_ns - ended_ns) / 1e6, 1)
        return {"admission": admission.id, "intent": intent, "ms": ms}

    # planning and execution -----------------------------------------------------------------------------------------
    async def _plan_and_run(self, turn: Turn, admission: Admission) -> None:
        rooms = self._rooms
        current_turn.set(turn.id)
        try:
            plan, also = await self._plan(turn)
            turn = await rooms.turns.plan(turn, plan, also)
            if also is not None:
                rooms.alarms.announced()
        except OwnedElsewhere:
            raise
        except (Refused, Malformed) as error:
            also = self._saying("refused", turn, turn.language, urgency_of(turn.context, is_first=True), why=error.message)
            await rooms.turns.end(turn.id, TurnEvent.FAILED, admission.id, Outcome.REFUSED, reason=error.message, also=also)
            self._delivered()
            return
        await self._run(turn, admission)

    async def _plan(self, turn: Turn) -> tuple[Plan, Also | None]:
        """Ask planning for the turn's plan, and what is to be written with it. All it reads is on disk: it can be asked again."""
        rooms = self._rooms
        if "alarm" in turn.context or "flood" in turn.context:
            return await rooms.alarms.plan(turn)
        intent = Intent(turn.intent, turn.language, str(turn.context.get("said", "")), turn.context.get("slots", {}))
        return rooms.planner.plan(intent, await self._surroundings()), None

    async def _surroundings(self) -> Mapping[str, Any]:
        """What an answer may need to know besides the sentence: what was said last, and which questions are open."""
        rooms = self._rooms
        last = await rooms.ledger.fetch(deliveries.LAST_SAID)
        pending = await rooms.ledger.transaction(confirmations.pending)
        return {
            "last_said": f"{last[0]['lead']} {last[0]['text']}".strip() if last else "",
            "pending": [question.question for question in pending],
            "online": rooms.availability.is_online,
        }

    async def _run(self, turn: Turn, admission: Admission) -> None:
        rooms = self._rooms
        current_turn.set(turn.id)
        outcome = await rooms.runner.run(turn)
        self._beat()
        match outcome.kind:
            case "finished":
                await rooms.turns.end(turn.id, TurnEvent.FINISHED, admission.id, Outcome.DONE)
            case "waiting":
                await rooms.turns.end(turn.id, TurnEvent.ASKED, admission.id, Outcome.DONE)
            case "failed":
                await rooms.turns.end(turn.id, TurnEvent.FAILED, admission.id, Outcome.FAILED, reason=outcome.failure)

    def _saying(
        self, reply: str, turn: Turn | None, language: str, priority: int, **values: str
    ) -> Callable[[Transaction], None]:
        """Return the work that queues one reply, for use inside another transaction."""
        rooms = self._rooms
        try:
            text = rooms.wording.reply(reply, language, **values)
        except Malformed:  # a language without phrases: better said in the appliance's own than not at all
            language = self._language
            text = rooms.wording.reply(reply, language, **values)
        turn_id = turn.id if turn else None

        def queue(tx: Transaction) -> None:
            deliveries.queue(tx, rooms.clock, rooms.ids, turn_id=turn_id, language=language, text=text, priority=priority)

        return queue

    # lanes ----------------------------------------------------------------------------------------------------------
    async def _take(self, lane: str, own: str, question: Confirmation) -> bool:
        """Wait for the lane of a question's turn, which another turn may hold: one turn a lane, ever.

        Returns False when the question was closed meanwhile; an answer that was meant for it goes to no other one.
        """
        async with self.ended:
            while True:
                if not await self._rooms.questions.is_open(question):
                    return False
                if lane == own or lane not in self._busy:
                    self._busy.add(lane)
                    return True
                await self.ended.wait()

    async def _free(self, lane: str) -> None:
        async with self.ended:
            self._busy.discard(lane)
            self.ended.notify_all()
        self._rooms.queue.wake()
