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

_JUST_ASKED_S = 120.0  # a bare "yes" answers the newest question for this long; after that it must say which


class Questions:
    """Finds the question an answer is meant for."""

    def __init__(self, ledger: Ledger, clock: Clock) -> None:
        self._ledger = ledger
        self._clock = clock

    async def meant_by(self, intent: Intent, admission: Admission) -> Confirmation | str:
        """Return the question this answer belongs to, or the name of the reply that says why there is none."""

        def look(tx: Transaction) -> Confirmation | str:
            possible = [question for question in confirmations.pending(tx) if self._was_heard(tx, question, admission)]
            if not possible:
                return "nothing_pending"
            newest = possible[-1]
            # Wall time may have been set back: then nobody knows how long ago it was, and no consent is taken from it.
            just_asked = abs((self._clock.utc() - newest.asked_utc).total_seconds()) <= _JUST_ASKED_S
            if len(possible) > 1 and not just_asked:
                return "which_one"
            if intent.name == "confirm" and not intent.slots.get("keyword") and _needs_keyword(tx, newest):
                return "needs_keyword"
            return newest

        return await self._ledger.transaction(look)

    async def is_open(self, question: Confirmation) -> bool:
        """Whether nobody has closed the question meanwhile."""
        asked = await self._ledger.transaction(lambda tx: confirmations.by_id(tx, question.id))
        return asked.status is ConfirmationStatus.PENDING

    def _was_heard(self, tx: Transaction, question: Confirmation, answer: Admission) -> bool:
        """Whether the answer may be to this question: a voice answers only what had sounded before it fell silent."""
        if answer.door is not Door.VOICE or question.delivery_id is None:
            return True
        asked = deliveries.load(tx, question.delivery_id)
        if asked.first_audio_mono_ns is None:
            return asked.may_be_repeat or asked.status not in (DeliveryStatus.PENDING, DeliveryStatus.ATTEMPTING)
        spoke_mono_ns = int(answer.payload["speech_ended_mono_ns"])
        # A first sound in the future is one of an earlier boot, long before this answer.
        return not spoke_mono_ns < asked.first_audio_mono_ns <= self._clock.monotonic_ns()


def _needs_keyword(tx: Transaction, question: Confirmation) -> bool:
    """Whether a bare "yes" is too little: what changes the field wants the word "confirm" (V4)."""
    steps = actions.of_turn(tx, question.turn_id)
    return any(step.id == question.action_id and bool(step.arguments.get("requires_keyword")) for step in steps)
