"""Rings the turns that are led now, when something about them was written: a wish to stop, or what wants to join them (R7).

In: commits of the ledger. Out: ``TurnSignal``s. Nothing is polled, and nothing counts but what the ledger says: a bell that is
not heard costs time only, since whoever begins a step looks there in the same transaction.
"""

from __future__ import annotations

import contextlib
import json
import logging
from collections.abc import Iterator

from appliance.contracts.admission import Arrival
from appliance.contracts.errors import Unavailable
from appliance.contracts.store import Ledger
from appliance.contracts.turn import Turn
from appliance.execution.turn_signal import TurnSignal
from appliance.foundation.lookout import Lookout
from appliance.store import admissions, interrupts

log = logging.getLogger(__name__)

_COMMITS_TOGETHER_S = 0.02  # a stop has a second; a look costs two small queries
_ASK_AGAIN_S = 1.0  # while the ledger cannot be read


class Bells:
    """Service with one bell a turn. :meth:`notify` is called after each commit."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._led: dict[str, tuple[str, TurnSignal]] = {}
        self._lookout = Lookout(together_s=_COMMITS_TOGETHER_S)

    def notify(self) -> None:
        """Something was committed."""
        self._lookout.notify()

    @contextlib.contextmanager
    def of(self, turn: Turn) -> Iterator[TurnSignal]:
        """Give a turn its bell for as long as it is led."""
        signal = TurnSignal()
        self._led[turn.id] = turn.lane, signal
        self.notify()  # what it is rung for may be there already
        try:
            yield signal
        finally:
            del self._led[turn.id]

    async def run(self) -> None:
        """Ring for ever."""

        def away(error: Unavailable) -> float:
            log.warning("bells.ledger_unread", extra={"why": error.message})
            return _ASK_AGAIN_S

        await self._lookout.run(self.look, away=away)

    async def look(self) -> None:
        """Ring once for everything that is open."""
        if not self._led:
            return
        for row in await self._ledger.fetch(interrupts.OPEN_TURNS):
            if (led := self._led.get(row["turn_id"])) is not None:
                led[1].ring()
        lanes = json.dumps(sorted({lane for lane, _ in self._led.values()}))
        for row in await self._ledger.fetch(admissions.STEERING, (lanes,)):
            for lane, signal in self._led.values():
                if lane == row["lane"]:
                    signal.steered = True
                    if row["arrival"] == Arrival.REDIRECT:
                        signal.ring()  # planning for what is not wanted any more need not be waited for
