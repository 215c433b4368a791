"""What the conductor tells a running turn: something about you was written, look. In memory; what counts is in the ledger."""

from __future__ import annotations

import asyncio


class TurnSignal:
    """One running turn's bell. ``steered`` says that a steer or a redirect waits in its lane, for the next step boundary.

    ``rings_so_far`` counts how often it was rung, ``answered`` up to which of them somebody looked: of several who listen at the
    same time each can tell what it has not looked for yet."""

    def __init__(self) -> None:
        self.steered = False
        self.rings_so_far = 0
        self.answered = 0
        self._rung: asyncio.Future[None] | None = None

    def ring(self) -> None:
        """Say that an interrupt of the turn is on disk."""
        self.rings_so_far += 1
        if self._rung is not None and not self._rung.done():
            self._rung.set_result(None)

    def answer(self) -> None:
        """Say that what was rung for is being looked at; what comes later rings again."""
        self.answered = self.rings_so_far
        if self._rung is not None and self._rung.done():
            self._rung = None

    @property
    def is_rung(self) -> bool:
        """Whether somebody rang since the last :meth:`answer`."""
        return self.rings_so_far > self.answered

    @property
    def rung(self) -> asyncio.Future[None]:
        """Done as soon as somebody rings, or if somebody did since the last :meth:`answer`. Not to be cancelled."""
        if self._rung is None:
            self._rung = asyncio.get_running_loop().create_future()
            if self.is_rung:
                self._rung.set_result(None)
        return self._rung

    async def rings(self) -> None:
        """Return as soon as somebody rings."""
        await asyncio.wait({self.rung})
