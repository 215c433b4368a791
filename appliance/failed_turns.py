"""The conductor's part that ends what broke outside its plan: a terminal record, what had been done that nobody was told of, and
once that it did not work, and why.

In: an admission and the error that its leading ended in. Who calls: the conductor.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from appliance.contracts.admission import Admission, AdmissionStatus, Door, Outcome
from appliance.contracts.delivery import PRIORITY_ANSWER
from appliance.contracts.errors import Fault, FloorhandError
from appliance.contracts.store import Ledger, Transaction
from appliance.contracts.turn import Turn, TurnEvent
from appliance.execution.urgency import urgency_of
from appliance.foundation.supervisor import contained_call
from appliance.session.turns import Also, Turns
from appliance.store import admissions, turns
from appliance.words import Words


@dataclass(frozen=True, slots=True)
class FailedTurns:
    """Ends turns that broke. ``language`` is the appliance's own; ``delivered`` is called after words were queued."""

    ledger: Ledger
    turns: Turns
    words: Words
    language: str
    delivered: Callable[[], None]

    async def end(self, admission: Admission, error: FloorhandError) -> None:
        """Leave a terminal record and say once what broke. An admission that has ended is left as it is."""
        known = (await self.ledger.fetch(admissions.STATE_OF, (admission.id,)))[0]
        if known["status"] == AdmissionStatus.TERMINAL:
            return
        turn = await self.turns.load(known["turn_id"]) if known["turn_id"] else None
        try:
            also: Also | None = contained_call(lambda: self._words_of(admission, turn, error))
        except Fault:  # the words themselves are what is broken: it ends without
            also = None
        if turn is not None and turn.state in turns.ACTIVE:
            await self.turns.end(turn.id, TurnEvent.FAILED, admission.id, Outcome.FAILED, reason=error.message, also=also)
        else:
            await self.turns.close_admission(admission, Outcome.FAILED, also=also)
        self.delivered()

    def _words_of(self, admission: Admission, turn: Turn | None, error: FloorhandError) -> Also:
        language = turn.language if turn else str(admission.payload.get("language", self.language))
        spoken = PRIORITY_ANSWER if admission.door is Door.VOICE else admission.priority
        urgency = urgency_of(turn.context, is_first=True) if turn else spoken
        failed = self.words.saying("tool_failed", turn, language, urgency, why=self.words.why(error, language))

        def say(tx: Transaction) -> None:
            if turn is not None:
                self.words.of_done(turn)(tx)
            failed(tx)

        return say
