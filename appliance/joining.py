"""The conductor's part that lets an input join its lane's turn: a steer adds steps, a redirect replaces what is left (R1, R7).

What is not understood, or will not be done, is said to be so, and the turn goes on. An answer to a question is none of the turn's
business, which is not waiting for one: it stays in the queue.

In: a turn between two steps, or one that is being planned. Out: the turn as it goes on.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from appliance.contracts.admission import Admission, Arrival
from appliance.contracts.clock import Clock
from appliance.contracts.errors import Malformed, OwnedElsewhere, Refused, StateViolationError
from appliance.contracts.plan import Intent
from appliance.contracts.principal import asker_of
from appliance.contracts.store import Ledger
from appliance.contracts.turn import Turn, TurnState
from appliance.execution.turn_signal import TurnSignal
from appliance.execution.urgency import urgency_of
from appliance.planning.phrases import Phrasebook
from appliance.session.turns import Turns
from appliance.store import admissions
from appliance.turn_planning import TurnPlanning
from appliance.words import Words

_ANSWERS = ("confirm", "deny")


def heard(admission: Admission, intent: str, clock: Clock, decided_mono_ns: int) -> dict[str, Any]:
    """Account of one utterance: what was heard, what it was taken for and how long that took (within one boot)."""
    ended_ns = admission.payload.get("speech_ended_mono_ns")
    ms = None
    if ended_ns is not None and admission.boot_id == clock.boot_id:
        ms = round((decided_mono_ns - ended_ns) / 1e6, 1)
    return {"admission": admission.id, "intent": intent, "ms": ms}


@dataclass(frozen=True, slots=True)
class Joining:
    """Takes up what waits to join a running turn."""

    ledger: Ledger
    turns: Turns
    phrasebook: Phrasebook
    planning: TurnPlanning
    words: Words
    clock: Clock

    async def take_up(self, turn: Turn, signal: TurnSignal) -> Turn:
        """Let in everything that waits for the turn, in the order it came. While it is planned only a redirect gets in."""
        signal.steered = False
        for row in await self.ledger.fetch(admissions.STEERING, (json.dumps([turn.lane]),)):
            (found,) = await self.ledger.fetch(admissions.BY_ID, (row["id"],))
            admission = admissions.to_admission(found)
            if turn.state is TurnState.PLANNING and admission.arrival is not Arrival.REDIRECT:
                signal.steered = True  # once there is a plan that it can be added to
                continue
            turn = await self._joined(turn, admission)
        return turn

    async def _joined(self, turn: Turn, admission: Admission) -> Turn:
        language, text = str(admission.payload["language"]), str(admission.payload["text"])
        try:
            intent = self.phrasebook.understand(text, language)
        except Malformed as error:  # a language without phrases
            return await self._beside(turn, admission, "refused", why=self.words.why_unplanned(error, language))
        if intent is None:
            return await self._beside(turn, admission, "not_understood")
        if intent.name in _ANSWERS or asker_of(admission.payload) != asker_of(turn.context):
            # An answer is to a question, and who may do more or less than whoever asked first gets a turn of their own.
            await self.turns.joins.leave_queued(admission)
            return turn
        try:
            return await self._changed(turn, admission, intent)
        except (OwnedElsewhere, StateViolationError):
            raise
        except (Refused, Malformed) as error:
            return await self._beside(turn, admission, "refused", why=self.words.why_unplanned(error, language))

    async def _changed(self, turn: Turn, admission: Admission, intent: Intent) -> Turn:
        account = heard(admission, intent.name, self.clock, self.clock.monotonic_ns())
        plan = await self.planning.plan_for(intent, turn)  # before anything is given up for it
        if admission.arrival is Arrival.REDIRECT:
            return await self.turns.joins.redirect(turn.id, admission, intent, account, self.words.of_done(turn))
        return await self.turns.joins.steer(turn.id, admission, plan, account)

    async def _beside(self, turn: Turn, admission: Admission, reply: str, **values: str) -> Turn:
        """Say why an input changes nothing."""
        language = str(admission.payload["language"])
        urgency = urgency_of(admission.payload, is_first=False)
        also = self.words.saying(reply, turn, language, urgency, **values)
        await self.turns.joins.answer_beside(turn.id, admission, also)
        return turn
