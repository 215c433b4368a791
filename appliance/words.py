"""What the conductor itself has to say: one reply, queued in the transaction of what it tells of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from appliance.contracts.clock import Clock, IdSource
from appliance.contracts.errors import Malformed
from appliance.contracts.ports import Wording
from appliance.contracts.store import Transaction
from appliance.contracts.turn import Turn
from appliance.store import deliveries


@dataclass(frozen=True, slots=True)
class Words:
    """Queues replies. ``language`` is the appliance's own."""

    wording: Wording
    clock: Clock
    ids: IdSource
    language: str

    def saying(self, reply: str, turn: Turn | None, language: str, priority: int, **values: str) -> Callable[[Transaction], None]:
        """Return the work that queues one reply, for use inside another transaction."""
        try:
            text = self.wording.reply(reply, language, **values)
        except Malformed:  # a language without phrases: better said in the appliance's own than not at all
            language = self.language
            text = self.wording.reply(reply, language, **values)
        turn_id = turn.id if turn else None

        def queue(tx: Transaction) -> None:
            deliveries.queue(tx, self.clock, self.ids, turn_id=turn_id, language=language, text=text, priority=priority)

        return queue
