"""One turn, from door to sync. Read this file first: it is the only one that knows the order of the rooms.

    doors -> admission -> session -> planning -> execution -> memory -> delivery -> sync

A door (``intake``) makes an outside event durable. Here the next admission is taken, lane by lane; a session opens a turn
for it; planning makes a plan, which is data; execution runs the plan's steps, each journalled before and after. Memory and
delivery are steps of the plan: what a turn remembers and says is written in the same ledger. Sync carries the ledger's
operations to the coordinator by itself.

After a crash nothing here needs to know: ``admission.recovery`` admits a successor for every turn that was under way, and
``_resume`` goes on where the ledger says it stopped.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from appliance.admission.queue import AdmissionQueue
from appliance.contracts.admission import PRIORITY_UTTERANCE, Admission, Outcome, RequestKind
from appliance.contracts.alarm import AlarmChange
from appliance.contracts.clock import Clock, IdSource
from appliance.contracts.delivery import Channel
from appliance.contracts.effect import Confirmation
from appliance.contracts.errors import FloorhandError, Malformed, Refused
from appliance.contracts.plan import Intent, Plan
from appliance.contracts.plant import Plant
from appliance.contracts.ports import Wording
from appliance.contracts.store import Ledger, Transaction
from appliance.contracts.turn import Turn, TurnEvent, TurnState
from appliance.coordination.availability import Availability
from appliance.execution.runner import Runner
from appliance.foundation.log import current_turn
from appliance.planning.phrases import Phrasebook
from appliance.planning.planner import Planner
from appliance.session.turns import Turns
from appliance.store import actions, admissions, alarms, confirmations, deliveries

log = logging.getLogger(__name__)

_LOOK_FOR_UNANSWERED_S = 30.0  # the limit is half an hour, so half a minute more does not matter
_JUST_ASKED_S = 120.0  # a bare "yes" answers the newest question for this long; after that it must say which


@dataclass(frozen=True, slots=True)
class Rooms:
    """What the conductor leads; built by ``app``."""

    ledger: Ledger
    queue: AdmissionQueue
    turns: Turns
    phrasebook: Phrasebook
    planner: Planner
    runner: Runner
    wording: Wording
    availability: Availability
    plant: Plant
    clock: Clock
    ids: IdSource


class Conductor:
    """Takes admissions and leads each through its turn. One turn a lane, at most ``sessions`` lanes at once."""

    def __init__(
        self, rooms: Rooms, *, language: str, sessions: int, delivered: Callable[[], None], beat: Callable[[], None]
    ) -> None:
        self._rooms = rooms
        self._language = language
        self._delivered = delivered
        self._beat = beat
        self._room_for = asyncio.Semaphore(sessions)
        self._busy: set[str] = set()
        self._running = 0
        self.ended = asyncio.Condition()
        """Notified whenever a lane becomes free."""

    @property
    def running_turns(self) -> int:
        """Turns being led right now."""
        return self._running

    async def run(self) -> None:
        """Take admissions and lead their turns, for ever. Cancellation interrupts the turns that run; the ledger knows them."""
        async with asyncio.TaskGroup() as group:
            await self._take_all(group)

    async def run_until(self, closing: asyncio.Event) -> None:
        """As :meth:`run`, but take nothing new once ``closing`` is set, and return when the turns that run have ended."""
        async with asyncio.TaskGroup() as group:
            taking = group.create_task(self._take_all(group), name="taking admissions")
            await closing.wait()
            taking.cancel()

    async def _take_all(self, group: asyncio.TaskGroup) -> None:
        while True:
            await self._room_for.acquire()
            try:
                admission = await self._rooms.queue.next(self._busy)
            except asyncio.CancelledError:
                self._room_for.release()
                raise
            self._beat()
            self._busy.add(admission.lane)
            self._running += 1
            group.create_task(self._lead(admission), name=f"turn {admission.id}")

    async def _lead(self, admission: Admission) -> None:
        try:
            match admission.kind:
                case RequestKind.ALARM:
                    await self._alarm(admission)
                case RequestKind.UTTERANCE:
                    await self._utterance(admission)
                case RequestKind.RESUME:
                    await self._resume(admission)
        except FloorhandError as error:
            log.error("turn.failed", extra={"admission": admission.id, "code": error.code, "why": error.message})
            await self._fail(admission, error)
        finally:
            self._running -= 1
            self._room_for.release()
            await self._free(admission.lane)

    async def abandon_unanswered(self) -> None:
        """Look now and then, for ever, for questions that nobody answered within the limit (S7), and say that they ended."""
        while True:
            await asyncio.sleep(_LOOK_FOR_UNANSWERED_S)
            if await self._rooms.turns.abandon_unanswered(self._say_abandoned):
                self._delivered()

    def _say_abandoned(self, tx: Transaction, turn: Turn) -> None:
        self._queue_words(tx, turn, self._rooms.wording.reply("unanswered", turn.language), PRIORITY_UTTERANCE)

    # alarms ---------------------------------------------------------------------------------------------------------
    async def _alarm(self, admission: Admission) -> None:
        """Open the activation's conversation, or tell it that the alarm cleared."""
        rooms, event = self._rooms, admission.payload
        definition = rooms.plant.alarm_by_id[event["alarm_id"]]
        cleared = event["change"] == AlarmChange.CLEARED

        def bind(tx: Transaction, turn: Turn) -> None:
            alarms.bind_session(tx, event["activation_id"], turn.session_id)

        turn = await rooms.turns.open(
            admission,
            language=self._language,
            intent="alarm_cleared" if cleared else "alarm_raised",
            context={"alarm": dict(event)},
            offline=not rooms.availability.is_online,
            asset=definition.asset,
            also=bind,
        )
        await self._plan_and_run(turn, admission)

    # speech and typing ----------------------------------------------------------------------------------------------
    async def _utterance(self, admission: Admission) -> None:
        """Understand a sentence: an answer goes to the question it answers, anything else becomes a plan."""
        rooms, heard = self._rooms, admission.payload
        language = str(heard["language"])
        intent = rooms.phrasebook.understand(str(heard["text"]), language)
        decided_mono_ns = rooms.clock.monotonic_ns()
        if intent is not None and intent.name in ("confirm", "deny"):
            verdict = await self._which_question(intent)
            if isinstance(verdict, Confirmation):
                await self._answer(verdict, intent, admission, decided_mono_ns)
                return
            await self._open_and_run(admission, Intent(verdict, language, intent.text), decided_mono_ns)
            return
        await self._open_and_run(admission, intent or Intent("not_understood", language, str(heard["text"])), decided_mono_ns)

    async def _which_question(self, intent: Intent) -> Confirmation | str:
        """Return the question this answer belongs to, or the name of the reply that says why there is none."""
        rooms = self._rooms
        pending = await rooms.ledger.transaction(confirmations.pending)
        if not pending:
            return "nothing_pending"
        newest = pending[-1]
        just_asked = (rooms.clock.utc() - newest.asked_utc).total_seconds() <= _JUST_ASKED_S
        if len(pending) > 1 and not just_asked:
            return "which_one"
        if intent.name == "confirm" and not intent.slots.get("keyword") and await self._needs_keyword(newest):
            return "needs_keyword"
        return newest

    async def _needs_keyword(self, question: Confirmation) -> bool:
        """Whether a bare "yes" is too little: what changes the field wants the word "confirm" (V4)."""
        steps = await self._rooms.ledger.transaction(lambda tx: actions.of_turn(tx, question.turn_id))
        return any(step.id == question.action_id and bool(step.arguments.get("requires_keyword")) for step in steps)

    async def _answer(self, question: Confirmation, intent: Intent, admission: Admission, decided_mono_ns: int) -> None:
        """Give a question its answer and go on with the turn that asked it."""
        rooms = self._rooms
        asker = await rooms.turns.load(question.turn_id)
        await self._take(asker.lane, admission.lane)
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

    @staticmethod
    def _heard(admission: Admission, intent: str, decided_mono_ns: int) -> dict[str, Any]:
        """Account of one utterance: what was heard, what it was taken for and how long that took."""
        ended_ns = admission.payload.get("speech_ended_mono_ns")
        return {
            "admission": admission.id,
            "intent": intent,
            "ms": None if ended_ns is None else round((decided_mono_ns - ended_ns) / 1e6, 1),
        }

    # after a restart ------------------------------------------------------------------------------------------------
    async def _resume(self, admission: Admission) -> None:
        """Go on with a turn that the previous process left: plan it again if it had no plan, else run what is left."""
        turn = await self._rooms.turns.resume(admission)
        match turn.state:
            case TurnState.PLANNING:
                await self._plan_and_run(turn, admission)
            case TurnState.EXECUTING:
                await self._run(turn, admission)
            case _:
                # It had already ended or asks a question; only its admission was not closed yet.
                await self._rooms.turns.close_admission(admission, Outcome.DONE)

    # planning and execution -----------------------------------------------------------------------------------------
    async def _plan_and_run(self, turn: Turn, admission: Admission) -> None:
        rooms = self._rooms
        current_turn.set(turn.id)
        try:
            turn = await rooms.turns.plan(turn, await self._plan(turn))
        except (Refused, Malformed) as error:
            reason = error.message
            turn = await rooms.turns.load(turn.id)
            if turn.state is TurnState.PLANNING:
                apology = rooms.wording.reply("refused", turn.language, why=reason)
                await rooms.turns.end(
                    turn.id,
                    TurnEvent.FAILED,
                    admission.id,
                    Outcome.REFUSED,
                    reason=reason,
                    also=self._saying(turn, apology, admission),
                )
                self._delivered()
            return
        await self._run(turn, admission)

    async def _plan(self, turn: Turn) -> Plan:
        """Ask planning for the turn's plan: everything it may read is in the turn itself, so it can be asked again."""
        rooms = self._rooms
        if "alarm" in turn.context:
            return rooms.planner.plan_alarm(turn.context["alarm"], turn.language)
        intent = Intent(turn.intent, turn.language, str(turn.context.get("said", "")), turn.context.get("slots", {}))
        return rooms.planner.plan(intent, await self._surroundings())

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

    async def _fail(self, admission: Admission, error: FloorhandError) -> None:
        """Leave a record when a turn broke outside its plan; what it was about is said once."""
        rooms = self._rooms
        rows = await rooms.ledger.fetch(admissions.TURN_OF, (admission.id,))
        if rows and rows[0]["turn_id"]:
            turn = await rooms.turns.load(rows[0]["turn_id"])
            if turn.state in (TurnState.PLANNING, TurnState.EXECUTING):
                apology = rooms.wording.reply("tool_failed", turn.language, why=error.message)
                await rooms.turns.end(
                    turn.id,
                    TurnEvent.FAILED,
                    admission.id,
                    Outcome.FAILED,
                    reason=error.message,
                    also=self._saying(turn, apology, admission),
                )
                self._delivered()

    def _saying(self, turn: Turn, text: str, admission: Admission) -> Callable[[Transaction], None]:
        """Return the work that queues one sentence, for use inside another transaction."""
        return lambda tx: self._queue_words(tx, turn, text, admission.priority)

    def _queue_words(self, tx: Transaction, turn: Turn, text: str, priority: int) -> None:
        clock, ids = self._rooms.clock, self._rooms.ids
        deliveries.queue(
            tx, clock, ids, channel=Channel.SPEECH, turn_id=turn.id, language=turn.language, text=text, priority=priority
        )

    # lanes ----------------------------------------------------------------------------------------------------------
    async def _take(self, lane: str, own: str) -> None:
        """Wait for a lane that another turn may hold; one turn a lane, ever."""
        if lane == own:
            return
        async with self.ended:
            await self.ended.wait_for(lambda: lane not in self._busy)
            self._busy.add(lane)

    async def _free(self, lane: str) -> None:
        async with self.ended:
            self._busy.discard(lane)
            self.ended.notify_all()
        self._rooms.queue.wake()
