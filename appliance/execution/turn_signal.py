"""What the conductor tells a running turn: something about you was written, look. In memory; what counts is in the ledger."""

from __future__ import annotations

import asyncio


class TurnSignal:
    """One running turn's bell. ``steered`` says that a steer or a redirect waits in its lane, for the next step boundary."""

    def __init__(self) -> None:
        self.steered = False
        self._rung = asyncio.Event()

    def ring(self) -> None:
        """Say that an interrupt of the turn is on disk."""
        self._rung.set()

    def answer(self) -> None:
        """Say that what was rung for is being looked at; what comes later rings again."""
        self._rung.clear()

    @property
    def is_rung(self) -> bool:
        """Whether somebody rang since the last :meth:`answer`."""
        return self._rung.is_set()

    async def rings(self) -> None:
        """Return as soon as somebody rings."""
        await self._rung.wait()
