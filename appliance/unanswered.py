"""The conductor's part that ends questions nobody answers (S7): silence is never consent, and that it ended is said."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from appliance.contracts.admission import PRIORITY_UTTERANCE
from appliance.contracts.store import Transaction
from appliance.contracts.turn import Turn
from appliance.session.turns import Turns
from appliance.words import Words

LOOK_EVERY_S = 30.0  # the limit is half an hour, so half a minute more does not matter


class Unanswered:
    """Service. ``ended`` is notified when questions were abandoned, ``delivered`` called when words were queued."""

    def __init__(
        self,
        turns: Turns,
        words: Words,
        delivered: Callable[[], None],
        ended: asyncio.Condition,
        *,
        every_s: float = LOOK_EVERY_S,
    ) -> None:
        self._turns = turns
        self._words = words
        self._delivered = delivered
        self._ended = ended
        self._every_s = every_s

    async def run(self) -> None:
        """Look now and then, for ever, for questions that nobody answered within the limit, and say that they ended."""
        while True:
            await asyncio.sleep(self._every_s)
            if await self._turns.abandon_unanswered(self._say_abandoned):
                self._delivered()
                async with self._ended:
                    self._ended.notify_all()

    def _say_abandoned(self, tx: Transaction, turn: Turn) -> None:
        self._words.saying("unanswered", turn, turn.language, PRIORITY_UTTERANCE)(tx)
