"""Death inside this process: from a chosen point on nothing is written any more, neither to the ledger nor to the world.

What the process knew is dropped by whoever holds it. For the disk that is the same as SIGKILL, and a thousand times cheaper.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable

from appliance.contracts.errors import Unavailable


class Fuse:
    """Burns through at a point. Implements ``crash.kill_switch.Switch``. ``burnt`` is called when it does, on any thread."""

    def __init__(self, burnt: Callable[[], None]) -> None:
        self._burnt = burnt
        self._left: int | None = None
        self.is_dead = False

    def burn_after(self, points: int) -> None:
        """Die at the point after so many more."""
        self._left = points

    def disarm(self) -> None:
        """Die of nothing that was chosen before."""
        self._left = None

    def blow(self) -> None:
        """Die now."""
        self.is_dead = True
        self._burnt()

    def commit(self, point: str) -> None:
        """Pass a point before or after a commit, or let it fail."""
        if self._passes():
            return
        died = sqlite3.OperationalError(f"died {point}")
        died.sqlite_errorcode = sqlite3.SQLITE_IOERR
        raise died

    def effect(self, point: str) -> None:
        """Pass a point before or after something happens in the world, or let it fail."""
        if not self._passes():
            raise Unavailable(f"died {point}", may_have_played=True, may_have_arrived=True)

    def _passes(self) -> bool:
        if not self.is_dead and self._left is not None:
            if self._left == 0:
                self._left = None
                self.blow()
            else:
                self._left -= 1
        return not self.is_dead
