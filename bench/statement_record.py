"""What a run reads and writes, as statements and parameters by transaction, to be done again without the code that decided it.

The record is taken in front of the ledger, so that it holds what the works do and nothing of what the writer does round them.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar, cast

from appliance.contracts.operation import OperationLane
from appliance.contracts.store import Ledger, Transaction

T = TypeVar("T")

Statement = tuple[str, tuple[Any, ...]]
"""SQL and its parameters."""

Script = tuple[tuple[Statement, ...], ...]
"""The statements of one transaction after the other."""

_WRITES = ("INSERT", "UPDATE", "DELETE", "REPLACE")
_LANES = frozenset(map(str, OperationLane))
_REPLAYED_LANE = str(OperationLane.P3)  # no step appends to it, so its numbers can be given here


class RecordingLedger:
    """Hands works on to ``ledger`` and keeps what they execute; implements ``Ledger``."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._transactions: list[tuple[Statement, ...]] = []

    async def transaction(self, work: Callable[[Transaction], T]) -> T:
        """Run ``work`` and note its statements."""
        noted: list[Statement] = []

        def noting(tx: Transaction) -> T:
            noted.clear()  # it may be run again
            return work(cast(Transaction, _Noting(tx, noted)))

        value = await self._ledger.transaction(noting)
        self._transactions.append(tuple(noted))
        return value

    async def fetch(self, sql: str, parameters: Sequence[Any] = ()) -> list[sqlite3.Row]:
        """Read; nothing is noted."""
        return await self._ledger.fetch(sql, parameters)

    def script(self, *, only_writes: bool = False) -> Script:
        """Return all that was executed, or what was written, without the transactions that are empty then."""
        kept = (
            tuple(statement for statement in statements if not only_writes or _is_write(statement[0]))
            for statements in self._transactions
        )
        return tuple(statements for statements in kept if statements)


class _Noting:
    """A connection whose ``execute`` is noted."""

    def __init__(self, tx: Transaction, noted: list[Statement]) -> None:
        self._tx = tx
        self._noted = noted

    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> sqlite3.Cursor:
        self._noted.append((sql, tuple(parameters)))
        return self._tx.execute(sql, parameters)

    def executemany(self, sql: str, many: Iterable[Sequence[Any]]) -> sqlite3.Cursor:
        rows = [tuple(parameters) for parameters in many]
        self._noted += [(sql, row) for row in rows]
        return self._tx.executemany(sql, rows)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tx, name)


def _is_write(sql: str) -> bool:
    return sql.lstrip().startswith(_WRITES)


def renamed(script: Script, names: Mapping[str, str]) -> Script:
    """Return the script for other rows: ids in ``names`` are replaced wherever they occur in a text parameter."""

    def text(value: Any) -> Any:
        if isinstance(value, str):
            for old, new in names.items():
                if old in value:
                    value = value.replace(old, new)
        return value

    return tuple(tuple((sql, tuple(map(text, parameters))) for sql, parameters in statements) for statements in script)


class Replay:
    """Does scripts again; what they read is fetched. Operations get the next numbers of a lane that is used for nothing else, and
    their hashes do not fit."""

    def __init__(self) -> None:
        self._operations = 0

    def prepare(self, tx: Transaction) -> None:
        """Make sure that the lane has a head; the work to do once before the others."""
        tx.execute("INSERT OR IGNORE INTO operation_head (lane, seq, hash) VALUES (?, 0, '')", (_REPLAYED_LANE,))

    def work(self, statements: Sequence[Statement]) -> Callable[[Transaction], None]:
        """Return the work of one recorded transaction."""

        def again(tx: Transaction) -> None:
            for sql, parameters, is_write in marked:
                cursor = tx.execute(sql, self._numbered(sql, parameters) if "operation" in sql else parameters)
                if not is_write:
                    cursor.fetchall()

        marked = [(sql, parameters, _is_write(sql)) for sql, parameters in statements]
        return again

    def _numbered(self, sql: str, parameters: tuple[Any, ...]) -> tuple[Any, ...]:
        if "INTO operation " in sql:
            self._operations += 1
        return tuple(
            _REPLAYED_LANE if value in _LANES else self._operations if type(value) is int else value for value in parameters
        )
