"""Which open question an answer belongs to (V4). A yes must never go to a question the person did not mean.

An answer may wait: in a busy lane, while the appliance drains, over a restart. It is to a question that had been asked, and was
open, when it was admitted; whether it was fresh is counted to then. What is asked or closed while it waits changes
only that there is nothing to answer any more.

It is to what its own speaker was asked, or to an alarm's question, which anybody may answer; never to another person's.

A question that ended with a code wants it read back: a code belongs to its own question and to no other, a yes without it does
nothing, and three wrong ones close the question. An answer of who may not do what a yes would let be done does not count.

In: a ``confirm`` or ``deny`` and the admission that carried it. Out: the question, or what says why there is none.
"""

from __future__ import annotations

from dataclasses import replace

from appliance.contracts import lane as lane_names
from appliance.contracts.admission import Admission, Door
from appliance.contracts.clock import Clock
from appliance.contracts.delivery import DeliveryStatus
from appliance.contracts.effect import Confirmation, ConfirmationStatus
from appliance.contracts.plan import Intent
from appliance.contracts.principal import AccessLevel, principal_of
from appliance.contracts.store import Ledger, Transaction
from appliance.contracts.turn import TurnEvent
from appliance.store import actions, approvals, confirmations, deliveries, turns

MOST_WRONG_CODES = 3
"""So many wrong codes close a question: of a thousand codes chatter hits one in 300 questions at most."""
_ABOUT_CODES = ("needs_code", "wrong_code")
_JUST_ASKED_S = 120.0  # a "yes" belongs to what was asked last for this long; after that it may be meant for anything


class Questions:
    """Finds the question an answer is meant for."""

    def __init__(self, ledger: Ledger, clock: Clock) -> None:
        self._ledger = ledger
        self._clock = clock

    async def meant_by(self, intent: Intent, admission: Admission) -> Confirmation | Intent:
        """Return the question this answer belongs to, or the intent of the reply that says why there is none."""

        code = str(intent.slots.get("code") or "") if intent.name == "confirm" else ""

        def look(tx: Transaction) -> Confirmation | str:
            asked = _answerable(tx, admission)
            heard = [(at, q) for q in asked if (at := _heard_at(tx, q, admission)) is not None]
            if not heard:
                return "nothing_pending"
            _, last = max(heard, key=lambda pair: (pair[0], pair[1].asked_seq))
            if code:
                with_code = [pair for pair in heard if pair[1].code]
                own = next((q for _, q in with_code if q.code == code), None)
                last = own or (max(with_code, key=lambda pair: (pair[0], pair[1].asked_seq))[1] if with_code else last)
            if last.status is not ConfirmationStatus.PENDING:
                return "nothing_pending"  # closed while the answer waited: it goes to no other
            needs_keyword = _needs_keyword(tx, last)
            if not _was_just_asked(tx, last, admission):
                if len(heard) > 1 and not (code and last.code == code):
                    return "which_one"
                if needs_keyword and intent.name == "confirm":
                    return "asked_too_long_ago"  # a write is never carried out on a yes that may be meant for something else
            if intent.name == "confirm" and needs_keyword and admission.boot_id != self._clock.boot_id:
                return "asked_too_long_ago"  # nor on one that waited while the power was off: nobody knows for how long
            if not _may_answer(tx, last, admission, is_yes=intent.name == "confirm"):
                return "may_not_confirm"
            if intent.name == "confirm" and (last.code or code):
                return self._read_back(tx, last, code, admission)
            if intent.name == "confirm" and not intent.slots.get("keyword") and needs_keyword:
                return "needs_keyword"
            return last

        def verdict(tx: Transaction) -> Confirmation | Intent:
            found = look(tx)
            if isinstance(found, Confirmation):
                return found
            if found in _ABOUT_CODES:
                return replace(intent, name=found, slots={"code": _open_code(tx, admission)})
            others = {} if _answerable(tx, admission) else _asked_of_others(tx, admission)
            return replace(intent, name="asked_somebody_else" if others else found, slots=others)

        return await self._ledger.transaction(verdict)

    def _read_back(self, tx: Transaction, question: Confirmation, code: str, answer: Admission) -> Confirmation | str:
        """Compare what was read back with the code of a question; three wrong ones close it as denied."""
        if not question.code:
            return "code_of_none"
        if not code:
            return "needs_code"
        if code == question.code:
            confirmations.code_read(tx, question.id, answer.id)
            return confirmations.by_id(tx, question.id)
        if confirmations.wrong_code(tx, question.id) < MOST_WRONG_CODES:
            return "wrong_code"
        turn = turns.by_id(tx, question.turn_id)
        approvals.unanswered(tx, self._clock, turn.id, turn.session_id, principal_of(turn.context), why="three wrong codes")
        confirmations.answer(tx, self._clock, question.id, False, answer.id, principal_of(answer.payload).to_json())
        turns.move(tx, self._clock, turn.id, TurnEvent.UNANSWERED, admission_id=answer.id, reason="three wrong codes")
        return "wrong_codes"

    async def is_open(self, question: Confirmation) -> bool:
        """Whether nobody has closed the question meanwhile."""
        asked = await self._ledger.transaction(lambda tx: confirmations.by_id(tx, question.id))
        return asked.status is ConfirmationStatus.PENDING


def _answerable(tx: Transaction, answer: Admission) -> list[Confirmation]:
    """Return the questions that an answer may be to: its speaker's own, and those of alarms.

    Who types has read what they were asked themselves, so that goes first; a voice stands where everything sounds, and means
    what sounded last.
    """
    asked = confirmations.open_before(tx, answer.seq)
    lanes = {question.id: turns.lane_of(tx, question.turn_id) for question in asked}
    own = [question for question in asked if lanes[question.id] == lane_names.own(answer.lane)]
    of_alarms = [question for question in asked if lanes[question.id].startswith(lane_names.ASSET)]
    return own + of_alarms if answer.door is Door.VOICE else own or of_alarms


def _asked_of_others(tx: Transaction, answer: Admission) -> dict[str, str]:
    """Return the newest question that another person has open, and whom it was put to (empty: who stands at the machine)."""
    for question in reversed(confirmations.pending(tx)):
        lane = turns.lane_of(tx, question.turn_id)
        if lane != lane_names.own(answer.lane) and not lane.startswith(lane_names.ASSET):
            return {"who": lane_names.typed_by(lane), "question": question.question}
    return {}


def _heard_at(tx: Transaction, question: Confirmation, answer: Admission) -> int | None:
    """Return when the question sounded, for ordering; None when the answer cannot be to it.

    A voice answers only what had sounded before it fell silent, and what sounded last: speech is said by priority, so that
    is not always what was asked last. What is typed answers what was asked last.
    """
    if answer.door is not Door.VOICE or question.delivery_id is None:
        return 0
    asked = deliveries.load(tx, question.delivery_id)
    if asked.tried_after_seq is None or asked.tried_after_seq >= answer.seq:
        return None
    if asked.first_audio_mono_ns is None:
        return 0 if asked.may_be_repeat or asked.status in (DeliveryStatus.DELIVERED, DeliveryStatus.FAILED) else None
    if asked.ended_boot_id != answer.boot_id:
        return 0  # it was begun before the answer came: so it sounded in an earlier boot
    if asked.first_audio_mono_ns <= int(answer.payload["speech_ended_mono_ns"]):
        return asked.first_audio_mono_ns
    return 0 if asked.may_be_repeat else None


def _was_just_asked(tx: Transaction, question: Confirmation, answer: Admission) -> bool:
    """Whether the question was fresh when the answer came: counted from the end of its last word when it was spoken, else from
    its asking.

    On the monotonic clock, as wall time may be set meanwhile. One of another boot never is: nobody knows how long the
    appliance was down, and no consent is taken from a guess.
    """
    if question.delivery_id is None:
        return False
    asked = deliveries.load(tx, question.delivery_id)
    since_ns, boot_id = asked.queued_mono_ns, asked.boot_id
    if answer.door is Door.VOICE and asked.ended_mono_ns is not None and asked.ended_boot_id is not None:
        since_ns, boot_id = asked.ended_mono_ns, asked.ended_boot_id
    return boot_id == answer.boot_id and (answer.admitted_mono_ns - since_ns) / 1e9 <= _JUST_ASKED_S


def _may_answer(tx: Transaction, question: Confirmation, answer: Admission, *, is_yes: bool) -> bool:
    """Whether who answers may do what the yes would let be done. A no of whoever stands at the machine always counts; a typed
    one takes the question away from those who may answer it, so it needs what a yes does."""
    if not is_yes and answer.door is Door.VOICE:
        return True
    asking = actions.by_id(tx, question.action_id)
    word = str(asking.arguments.get("level") or "")
    return not word or principal_of(answer.payload).level >= AccessLevel.of_word(word)


def _open_code(tx: Transaction, answer: Admission) -> str:
    """Return the code of the newest open question of a speaker that has one, to be said again."""
    return next((q.code for q in reversed(_answerable(tx, answer)) if q.code and q.status is ConfirmationStatus.PENDING), "")


def _needs_keyword(tx: Transaction, question: Confirmation) -> bool:
    """Whether a bare "yes" is too little: what changes the field wants the word "confirm" (V4)."""
    steps = actions.of_turn(tx, question.turn_id)
    return any(step.id == question.action_id and bool(step.arguments.get("requires_keyword")) for step in steps)
