"""Ports to the ledger. ``Transaction`` is what a unit of work gets on the writer thread."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from sqlite3 import Connection, Row
from typing import Any, Protocol, TypeVar

T = TypeVar("T")

Transaction = Connection
"""An open ``BEGIN IMMEDIATE`` transaction on the one writer connection (row_factory = sqlite3.Row)."""


class Ledger(Protocol):
    """The one SQLite file. Writes go through one thread with group commit, reads beside it."""

    async def transaction(self, work: Callable[[Transaction], T]) -> T:
        """Run ``work`` on the writer thread; return its value once the commit is on disk.

        Work that raises is rolled back alone (a savepoint), its neighbours in the same group are not.

        Raises:
            StorageFullError: no room left.
        """
        ...

    async def fetch(self, sql: str, parameters: Sequence[Any] = ()) -> list[Row]:
        """Read committed rows without waiting for the writer."""
        ...
