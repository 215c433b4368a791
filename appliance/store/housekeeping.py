"""Looks after the ledger's file while nobody asks it to: log folded in, reserve restored, statistics fresh, pages checked."""

from __future__ import annotations

import asyncio
import contextlib
import logging

from appliance.contracts.clock import Clock
from appliance.contracts.errors import Unavailable
from appliance.store import head_witness
from appliance.store.database import Database

log = logging.getLogger(__name__)

EVERY_S = 60.0
"""Between two rounds. A round of a sound ledger that nobody writes to costs no write at all."""
CHECK_S = 1.0  # of one table a round: its readers wait for nothing, but a card does one thing at a time
_OPTIMIZE_EVERY = 60  # rounds: once an hour, as https://sqlite.org/pragma.html#pragma_optimize advises long-lived connections


class Housekeeping:
    """Service. ``facts`` tells how often it went round, and which tables it last looked at."""

    def __init__(self, ledger: Database, clock: Clock, *, every_s: float = EVERY_S) -> None:
        self._ledger = ledger
        self._clock = clock
        self._every_s = every_s
        self._tables: list[str] = []
        self._unfinished: set[str] = set()
        self.rounds = 0
        self.started = asyncio.Event()
        """Set once the service runs."""

    async def run(self) -> None:
        """Keep house for ever; ends when the ledger has."""
        self.started.set()
        while self._ledger.fatal is None:
            with contextlib.suppress(Unavailable):  # whoever listens to the ledger's trouble has been told
                await self._round()
            self.rounds += 1
            await asyncio.sleep(self._every_s)
        await asyncio.Event().wait()

    def facts(self) -> dict[str, object]:
        """For status."""
        return {"rounds": self.rounds, "not_checked_in_time": sorted(self._unfinished), "trouble": self._ledger.trouble}

    async def witness(self) -> None:
        """Write down outside the ledger how its lanes end; nothing is written when they end as they did."""
        with contextlib.suppress(Unavailable):
            await head_witness.keep(self._ledger, self._ledger.path)

    async def _round(self) -> None:
        await self._ledger.keep_house()
        await self.witness()
        if self.rounds % _OPTIMIZE_EVERY == 0:
            await self._ledger.tend(lambda db: db.execute("PRAGMA optimize").fetchall())
        if not self._tables:
            self._tables = await self._ledger.tables()
        table = self._tables.pop()
        if await self._ledger.look_at(table, CHECK_S):
            self._unfinished.discard(table)
        else:
            self._unfinished.add(table)
