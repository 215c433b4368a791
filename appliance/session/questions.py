"""Which open question an answer belongs to (V4). A yes must never go to a question the person did not mean.

An answer may wait: in a busy lane, while the appliance drains, over a restart. It is to a question that had been asked, and was
open, when it was admitted; whether it was fresh is counted to then. What is asked or closed while it waits changes
only that there is nothing to answer any more.

It is to what its own speaker was asked, or to an alarm's question, which anybody may answer; never to another person's. A plain
one is to what was asked just now and to nothing else. What an alarm asked earlier waits for an answer that names its machine;
what the speaker was asked earlier is closed by a yes that comes too late for it.

A question that ended with a code wants it read back: a code belongs to its own question and to no other, a yes without it does
nothing, and three wrong ones close the question. An answer of who may not do what a yes would let be done does not count.

In: a ``confirm`` or ``deny`` and the admission that carried it. Out: the question, or what says why there is none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from appliance.contracts import lane as lane_names
from appliance.contracts.admission import Admission, Door
from appliance.contracts.clock import Clock
from appliance.contracts.delivery import DeliveryStatus
from appliance.contracts.effect import Confirmation, ConfirmationStatus
from appliance.contracts.plan import Intent
from appliance.contracts.principal import AccessLevel, principal_of
from appliance.contracts.store import Ledger, Transaction
from appliance.contracts.turn import TurnEvent, TurnState
from appliance.store import actions, approvals, confirmations, deliveries, turns

MOST_WRONG_CODES = 3
"""So many wrong codes close a question: of the 729 codes (three digits, no zero) chatter hits one in 243 questions at most."""
JUST_ASKED_S = 120.0
"""A question takes a plain answer for this long, in s, from the end of its last word (typed: from its asking): after that a yes
may be meant for anything. A write takes no yes later, however it is named."""
MOST_NAMED = 3
"""So many questions are named to who has to say which one is meant, the newest: nobody keeps more in mind."""

_ABOUT_CODES = ("needs_code", "wrong_code")
_TOO_LATE = "the yes came too late"
_NO_TALK = (
    "nothing_pending", "asked_somebody_else", "which_one", "needs_keyword", *_ABOUT_CODES, "code_of_none", "may_not_confirm",
    "not_understood", "repeat", "what_pending", "read_tag", "trend_of_tag", "list_alarms", "list_checks", "list_playbooks",
    "read_playbook", "vitals", "status", "report_work", "help", "stop", "stop_work", "acknowledge_alarm",
)  # fmt: skip
"""Intents of turns that leave a question the one just asked: they are about it, nobody knows what they were about, or they only
look, stop or acknowledge, as who is at an alarm does, and leave nothing that a yes could be to. Where a site has an
acknowledgement asked for, its own question is looked at as any that was closed since."""


class Questions:
    """Finds the question an answer is meant for."""

    def __init__(self, ledger: Ledger, clock: Clock) -> None:
        self._ledger = ledger
        self._clock = clock

    async def meant_by(self, intent: Intent, admission: Admission) -> Confirmation | Intent:
        """Return the question this answer belongs to, or the intent of the reply that says why there is none."""

        def verdict(tx: Transaction) -> Confirmation | Intent:
            found = self._look(tx, intent, admission)
            if isinstance(found, Confirmation):
                return found
            if found in _ABOUT_CODES:
                return replace(intent, name=found, slots={"code": _open_code(tx, admission)})
            if found == "which_one":
                return replace(intent, name=found, slots=self._waiting(tx, admission))
            others = {} if _answerable(tx, admission) else _asked_of_others(tx, admission)
            return replace(intent, name="asked_somebody_else" if others else found, slots=others)

        return await self._ledger.transaction(verdict)

    def _look(self, tx: Transaction, intent: Intent, answer: Admission) -> Confirmation | str:
        is_yes, asset = intent.name == "confirm", str(intent.slots.get("asset") or "")
        code = str(intent.slots.get("code") or "") if is_yes else ""
        heard = _heard(tx, answer, _answerable(tx, answer))
        pool = _first_for(tx, answer, heard)
        coded = [question for question in pool if question.code] if code else []
        meant = next((question for question in heard if code and question.code == code), None)
        if asset:
            meant = next((question for question in reversed(heard) if _is_about(tx, question, asset)), None)
        is_named = meant is not None or bool(coded)  # who reads back a code means a question that has one
        if (asset and meant is None) or not pool:
            return self._which_or_none(heard)
        last = meant or (coded or pool)[-1]
        if last.status is not ConfirmationStatus.PENDING:
            return "nothing_pending"  # closed while the answer waited: it goes to no other
        if not _may_answer(tx, last, answer, is_yes=is_yes):
            if is_yes:
                turn, who = turns.by_id(tx, last.turn_id), principal_of(answer.payload)
                approvals.yes_refused(tx, self._clock, last.action_id, turn.id, turn.session_id, who)
            return "may_not_confirm"
        is_fresh, is_alarms = _was_just_asked(tx, last, answer), _is_alarms(tx, last)
        if is_alarms and not is_named and self._is_overtaken(tx, last, answer):
            return "which_one"
        needs_keyword = _needs_keyword(tx, last)
        # What waited while the power was off counts for no write either: nobody knows for how long.
        is_timely = is_fresh and (answer.boot_id == self._clock.boot_id or not needs_keyword)
        if is_yes and not is_timely and (needs_keyword or not is_alarms):
            self._give_up(tx, last, answer, _TOO_LATE)
            return "asked_too_long_ago"
        if not is_fresh and not is_named and (is_alarms or len(pool) > 1):
            return "which_one"
        if is_yes and (last.code or code):
            return self._read_back(tx, last, code, answer)
        return "needs_keyword" if is_yes and needs_keyword and not intent.slots.get("keyword") else last

    @staticmethod
    def _which_or_none(heard: Sequence[Confirmation]) -> str:
        return "which_one" if any(question.status is ConfirmationStatus.PENDING for question in heard) else "nothing_pending"

    def _is_overtaken(self, tx: Transaction, question: Confirmation, answer: Admission) -> bool:
        """Whether an alarm's question is not the last thing between its asking and the answer: the speaker has wanted something
        done since, or something asked later, or of themselves, has been closed since. The answer may be to that."""
        since_seq = question.asked_after_seq
        if answer.door is Door.VOICE and question.delivery_id is not None:
            since_seq = deliveries.load(tx, question.delivery_id).tried_after_seq or since_seq
        own = lane_names.own(answer.lane)
        if turns.has_talked(tx, (own, lane_names.beside(own)), since_seq, answer.seq, but=_NO_TALK):
            return True
        closed = _of_speaker(tx, answer, confirmations.closed_lately(tx, since_seq, answer.seq))
        closed = [each for each in closed if _was_just_asked(tx, each, answer)]
        return _first_for(tx, answer, _heard(tx, answer, [question, *closed]))[-1].id != question.id

    def _waiting(self, tx: Transaction, answer: Admission) -> dict[str, str]:
        """Return the newest questions that still take an answer, as one text, and the machine of the newest."""
        heard = [q for q in _heard(tx, answer, _answerable(tx, answer)) if q.status is ConfirmationStatus.PENDING]
        named = heard[-MOST_NAMED:]
        asset = next((found for question in reversed(named) if (found := _asset_of(tx, question))), "")
        return {"questions": " ".join(question.question for question in named), "asset": asset}

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
        self._give_up(tx, question, answer, "three wrong codes", is_no=True)
        return "wrong_codes"

    def _give_up(self, tx: Transaction, question: Confirmation, answer: Admission, why: str, *, is_no: bool = False) -> None:
        """End a turn whose question takes no yes any more; the calls it was for are denied. ``is_no``: the answer is a no."""
        turn = turns.by_id(tx, question.turn_id)
        if turn.state is not TurnState.CONFIRMING:
            return  # it ends by itself
        approvals.unanswered(tx, self._clock, turn.id, turn.session_id, principal_of(turn.context), why=why)
        if is_no:
            confirmations.answer(tx, self._clock, question.id, False, answer.id, principal_of(answer.payload).to_json())
        turns.move(tx, self._clock, turn.id, TurnEvent.UNANSWERED, admission_id=answer.id, reason=why)

    async def is_open(self, question: Confirmation) -> bool:
        """Whether nobody has closed the question meanwhile."""
        asked = await self._ledger.transaction(lambda tx: confirmations.by_id(tx, question.id))
        return asked.status is ConfirmationStatus.PENDING


def _answerable(tx: Transaction, answer: Admission) -> list[Confirmation]:
    """Return the questions that an answer may be to: its speaker's own, and those of alarms. They were open when it came."""
    return _of_speaker(tx, answer, confirmations.open_before(tx, answer.seq))


def _of_speaker(tx: Transaction, answer: Admission, asked: Sequence[Confirmation]) -> list[Confirmation]:
    """Return those of some questions that the speaker of an answer may answer."""
    own = lane_names.own(answer.lane)
    return [q for q in asked if (lane := turns.lane_of(tx, q.turn_id)) == own or lane.startswith(lane_names.ASSET)]


def _heard(tx: Transaction, answer: Admission, asked: Sequence[Confirmation]) -> list[Confirmation]:
    """Return the questions that had been heard when the answer came, what was heard last at the end."""
    heard = [(at, question) for question in asked if (at := _heard_at(tx, question, answer)) is not None]
    return [question for _, question in sorted(heard, key=lambda pair: (pair[0], pair[1].asked_seq))]


def _first_for(tx: Transaction, answer: Admission, heard: Sequence[Confirmation]) -> list[Confirmation]:
    """Return the questions that a plain answer is looked for among.

    Who types has read what they were asked themselves, so that goes first; a voice stands where everything sounds, and means
    what sounded last.
    """
    own = [question for question in heard if not _is_alarms(tx, question)]
    return list(heard) if answer.door is Door.VOICE else own or list(heard)


def _is_alarms(tx: Transaction, question: Confirmation) -> bool:
    return turns.lane_of(tx, question.turn_id).startswith(lane_names.ASSET)


def _asset_of(tx: Transaction, question: Confirmation) -> str:
    """Return the machine that a question can be named by, empty when it is about none."""
    turn = turns.by_id(tx, question.turn_id)
    if turn.lane.startswith(lane_names.ASSET):
        return turn.lane.removeprefix(lane_names.ASSET)
    return str(turn.context.get("slots", {}).get("asset") or "")


def _is_about(tx: Transaction, question: Confirmation, asset: str) -> bool:
    return _asset_of(tx, question) == asset


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
    return boot_id == answer.boot_id and (answer.admitted_mono_ns - since_ns) / 1e9 <= JUST_ASKED_S


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
