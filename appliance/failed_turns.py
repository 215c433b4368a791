"""The conductor's part that ends what broke outside its plan: a terminal record, what had been done that nobody was told of, and
once that it did not work, and why.

In: an admission and the error that its leading ended in. Who calls: the conductor.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from appliance.contracts.admission import Admission, AdmissionStatus, Door, Outcome
from appliance.contracts.delivery import PRIORITY_ANSWER
from appliance.contracts.errors import Fault, FloorhandError
from appliance.contracts.store import Ledger, Transaction
from appliance.contracts.turn import Turn, TurnEvent
from appliance.execution.urgency import urgency_of
from appliance.foundation.supervisor import contained_call
from appliance.session.turns import Also, Turns, both
from appliance.store import admissions, turns, unreadable
from appliance.words import Words


@dataclass(frozen=True, slots=True)
class FailedTurns:
    """Ends turns that broke. ``untold`` tells the alarm of a turn whose plan has not; ``language`` is the appliance's own;
    ``delivered`` is called after words were queued."""

    ledger: Ledger
    turns: Turns
    words: Words
    untold: Callable[[Turn], Also | None]
    language: str
    delivered: Callable[[], None]

    async def end(self, admission: Admission, failures: Sequence[FloorhandError]) -> None:
        """Leave a terminal record and say once what broke. An admission that has ended is left as it is.

        ``failures``: what its leading ended in, and what ending it with that ended in, if that was tried in vain.
        """
        error, *in_vain = failures
        if in_vain:
            await self.end_unread(admission.id, error)
            return
        known = (await self.ledger.fetch(admissions.STATE_OF, (admission.id,)))[0]
        if known["status"] == AdmissionStatus.TERMINAL:
            return
        turn = await self.turns.load(known["turn_id"]) if known["turn_id"] else None
        also = _unless_broken(lambda: self._words_of(admission, turn, error))
        if turn is not None and turn.state in turns.ACTIVE:
            await self.turns.end(turn.id, TurnEvent.FAILED, admission.id, Outcome.FAILED, reason=error.message, also=also)
        else:
            await self.turns.close_admission(admission, Outcome.FAILED, also=also)
        self.delivered()

    async def end_unread(self, admission_id: str, fault: FloorhandError) -> None:
        """Do as :meth:`end` with an admission of which a row cannot be read, or that cannot be ended with what is in its rows."""

        def failed() -> Also:
            why = self.words.why(fault, self.language)
            return self.words.saying("tool_failed", None, self.language, PRIORITY_ANSWER, why=why)

        def work(tx: Transaction) -> None:
            unreadable.end(tx, self.words.clock, admission_id, fault.message)
            if also is not None:
                also(tx)

        also = _unless_broken(failed)
        await self.ledger.transaction(work)
        self.delivered()

    def _words_of(self, admission: Admission, turn: Turn | None, error: FloorhandError) -> Also:
        language = turn.language if turn else str(admission.payload.get("language", self.language))
        spoken = PRIORITY_ANSWER if admission.door is Door.VOICE else admission.priority
        urgency = urgency_of(turn.context, is_first=True) if turn else spoken
        failed = self.words.saying("tool_failed", turn, language, urgency, why=self.words.why(error, language))

        if turn is None:
            return failed
        return both(self.untold(turn), both(self.words.of_done(turn), failed))


def _unless_broken(words: Callable[[], Also]) -> Also | None:
    try:
        return contained_call(words)
    except Fault:  # the words themselves are what is broken: it ends without
        return None
