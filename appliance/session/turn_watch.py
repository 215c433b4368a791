"""Watches the turns that work: whose lifespan is over (S2), and who gets nowhere (R3), is stopped, in the system's name.

Nothing is polled: the next look is when the earliest limit would be reached, and after a turn has moved. A turn that waits for an
answer is not watched (S7), and while the appliance is down no time passes for any.
"""

from __future__ import annotations

import logging
import math

from appliance.contracts.clock import Clock, IdSource
from appliance.contracts.errors import Unavailable
from appliance.contracts.interrupt import Cause
from appliance.contracts.store import Ledger, Transaction
from appliance.foundation.lookout import Lookout
from appliance.session.stopwatches import Stopwatches
from appliance.session.turns import Turns
from appliance.store import interrupts, stopping, turns

log = logging.getLogger(__name__)

LIVENESS_S = 600.0  # requirements R3: without progress for this long a turn is stopped, however often its lease is renewed
_TOGETHER_S = 1.0  # moves within a second are looked at together; no limit is so short that this matters
_ASK_LEDGER_AGAIN_S = 1.0  # while the card is full or does not answer: a try that fails writes nothing


class TurnWatch:
    """Service that stops turns beyond their limits. ``progress`` is called whenever a step of a turn began or ended."""

    def __init__(self, turns: Turns, ledger: Ledger, clock: Clock, ids: IdSource, *, liveness_s: float = LIVENESS_S) -> None:
        self._turns = turns
        self._ledger = ledger
        self._clock = clock
        self._ids = ids
        self._liveness_s = liveness_s
        self._since_progress = Stopwatches(clock)
        self._stopped: set[str] = set()
        self._lookout = Lookout(together_s=_TOGETHER_S)
        turns.on_move(self.progress)

    def progress(self, turn_id: str) -> None:
        """Note that a turn got on."""
        self._since_progress.restart(turn_id)
        self._lookout.notify()

    async def run(self) -> None:
        """Watch for ever."""

        def away(error: Unavailable) -> float:
            log.warning("turn_watch.ledger_away", extra={"why": error.message})
            return _ASK_LEDGER_AGAIN_S

        await self._lookout.run(self.look, away=away)

    async def look(self) -> float | None:
        """Stop what is beyond its limits; return in how many seconds the next limit would be reached, None without any turn."""
        working = self._turns.working
        self._since_progress.keep_only(working)
        self._stopped &= working
        watched = working - self._stopped
        if not watched:
            return None
        next_s = self._liveness_s
        left = await self._turns.left_s(watched)
        # What is thought about moves when there is a plan, and is looked at then.
        left |= dict.fromkeys(self._turns.thought_about & left.keys(), math.inf)
        for turn_id, left_s in left.items():
            self._since_progress.start(turn_id)
            quiet_s = self._since_progress.read_s(turn_id)
            if left_s <= 0:
                await self._stop(turn_id, "its lifespan is over")
            elif quiet_s >= self._liveness_s:
                await self._stop(turn_id, f"it got nowhere for {quiet_s:.0f} s")
            else:
                next_s = min(next_s, left_s, self._liveness_s - quiet_s)
        return next_s

    async def _stop(self, turn_id: str, reason: str) -> None:
        def work(tx: Transaction) -> None:
            is_working = turns.by_id(tx, turn_id).state in turns.ACTIVE  # still: it may have ended since it was looked at
            if is_working and interrupts.stop_of(tx, turn_id) is None:
                stopping.stop(tx, self._clock, self._ids, turn_id, cause=Cause.SYSTEM, by="watch", reason=reason)

        await self._ledger.transaction(work)
        self._stopped.add(turn_id)
        log.warning("turn.stopped_by_watch", extra={"stopped": turn_id, "why": reason})
