"""A part of a transaction that can be taken back alone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from appliance.contracts.store import Transaction


@contextmanager
def savepoint(tx: Transaction) -> Iterator[None]:
    """Take back what the block wrote, and nothing else, when it raises."""
    tx.execute("SAVEPOINT part")
    try:
        yield
    except BaseException:
        if tx.in_transaction:  # SQLite takes back everything by itself when a disk is full
            tx.execute("ROLLBACK TO part")
            tx.execute("RELEASE part")
        raise
    tx.execute("RELEASE part")
