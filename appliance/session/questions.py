"""Which open question an answer belongs to (V4). A yes must never go to a question the person did not mean.

In: a ``confirm`` or ``deny`` and the admission that carried it. Out: the question, or the reply that says why there is none.
"""

from __future__ import annotations

from appliance.contracts.admission import Admission, Door
from appliance.contracts.clock import Clock
from appliance.contracts.delivery import DeliveryStatus
from appliance.contracts.effect import Confirmation, ConfirmationStatus
from appliance.contracts.plan import Intent
from appliance.contracts.store import Ledger, Transaction
from appliance.store import actions, confirmations, deliveries

_JUST_ASKED_S = 120.0  # a "yes" belongs to what was asked last for this long; after that it may be meant for anything


class Questions:
    """Finds the question an answer is meant for."""

    def __init__(self, ledger: Ledger, clock: Clock) -> None:
        self._ledger = ledger
        self._clock = clock

    async def meant_by(self, intent: Intent, admission: Admission) -> Confirmation | str:
        """Return the question this answer belongs to, or the name of the reply that says why there is none."""

        def look(tx: Transaction) -> Confirmation | str:
            heard = [(at, q) for q in confirmations.pending(tx) if (at := self._heard_at(tx, q, admission)) is not None]
            if not heard:
                return "nothing_pending"
            _, last = max(heard, key=lambda pair: (pair[0], pair[1].asked_seq))
            needs_keyword = _needs_keyword(tx, last)
            if not self._was_just_asked(tx, last, admission):
                if len(heard) > 1:
                    return "which_one"
                if needs_keyword and intent.name == "confirm":
                    return "asked_too_long_ago"  # a write is never carried out on a yes that may be meant for something else
            if intent.name == "confirm" and not intent.slots.get("keyword") and needs_keyword:
                return "needs_keyword"
            return last

        return await self._ledger.transaction(look)

    async def is_open(self, question: Confirmation) -> bool:
        """Whether nobody has closed the question meanwhile."""
        asked = await self._ledger.transaction(lambda tx: confirmations.by_id(tx, question.id))
        return asked.status is ConfirmationStatus.PENDING

    def _heard_at(self, tx: Transaction, question: Confirmation, answer: Admission) -> int | None:
        """Return when the question sounded, for ordering; None when the answer cannot be to it.

        A voice answers only what had sounded before it fell silent, and what sounded last: speech is said by priority, so that
        is not always what was asked last. What is typed answers what was asked last.
        """
        if answer.door is not Door.VOICE or question.delivery_id is None:
            return 0
        asked = deliveries.load(tx, question.delivery_id)
        if asked.first_audio_mono_ns is None:
            was_said = asked.may_be_repeat or asked.status in (DeliveryStatus.DELIVERED, DeliveryStatus.FAILED)
            return 0 if was_said else None
        spoke_mono_ns = int(answer.payload["speech_ended_mono_ns"])
        if spoke_mono_ns < asked.first_audio_mono_ns <= self._clock.monotonic_ns():
            return None
        # A first sound in the future is one of an earlier boot, long before this answer.
        return asked.first_audio_mono_ns if asked.first_audio_mono_ns <= self._clock.monotonic_ns() else 0

    def _was_just_asked(self, tx: Transaction, question: Confirmation, answer: Admission) -> bool:
        """Whether the question is fresh: counted from the end of its last word when it was spoken, else from its asking.

        On the monotonic clock, as wall time may be set meanwhile. One of another boot never is: nobody knows how long the
        appliance was down, and no consent is taken from a guess.
        """
        if question.delivery_id is None:
            return False
        asked = deliveries.load(tx, question.delivery_id)
        since_ns, boot_id = asked.queued_mono_ns, asked.boot_id
        if answer.door is Door.VOICE and asked.ended_mono_ns is not None and asked.ended_boot_id is not None:
            since_ns, boot_id = asked.ended_mono_ns, asked.ended_boot_id
        return boot_id == self._clock.boot_id and (self._clock.monotonic_ns() - since_ns) / 1e9 <= _JUST_ASKED_S


def _needs_keyword(tx: Transaction, question: Confirmation) -> bool:
    """Whether a bare "yes" is too little: what changes the field wants the word "confirm" (V4)."""
    steps = actions.of_turn(tx, question.turn_id)
    return any(step.id == question.action_id and bool(step.arguments.get("requires_keyword")) for step in steps)
