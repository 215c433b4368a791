"""What a session's model is shown of playbooks and pinned memories, frozen when the session first needed a model (L5).

The first one stays for as long as the session lasts. A pinned memory is a verified one whose facts say ``pinned``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from sqlite3 import Row
from typing import Any

from appliance.contracts.clock import Clock
from appliance.contracts.store import Ledger, Transaction
from appliance.store.columns import json_text, to_json, to_utc, utc_text

_OF = "SELECT * FROM session_snapshot WHERE session_id = ?"
_RUNNING = """SELECT session_snapshot.*, session.lane FROM session_snapshot JOIN session ON session.id = session_id
    WHERE session.state = 'open' ORDER BY session.rowid"""
_PINNED = """SELECT id, asset, text FROM memory
    WHERE scope = ? AND verified = 1 AND facts ->> '$.pinned' = 1 ORDER BY seq DESC LIMIT ?"""


@dataclass(frozen=True, slots=True)
class StoredSnapshot:
    """One as stored. ``playbooks_commit`` says which state of the playbooks it shows; ``digest`` is of its content."""

    session_id: str
    playbooks_commit: str
    digest: str
    content: Mapping[str, Any]
    taken_utc: datetime


def take(
    tx: Transaction, clock: Clock, session_id: str, *, playbooks_commit: str, digest: str, content: Mapping[str, Any]
) -> StoredSnapshot:
    """Store a session's snapshot unless it has one, and return the one it has then."""
    tx.execute(
        "INSERT INTO session_snapshot (session_id, playbooks_commit, digest, content, taken_utc) VALUES (?, ?, ?, ?, ?)"
        " ON CONFLICT DO NOTHING",
        (session_id, playbooks_commit, digest, json_text(content), utc_text(clock.utc())),
    )
    return _to_snapshot(tx.execute(_OF, (session_id,)).fetchone())


async def find(ledger: Ledger, session_id: str) -> StoredSnapshot | None:
    """Return the snapshot of a session, None when it has none."""
    rows = await ledger.fetch(_OF, (session_id,))
    return _to_snapshot(rows[0]) if rows else None


async def running(ledger: Ledger) -> list[tuple[str, StoredSnapshot]]:
    """Return the snapshots of open sessions with the sessions' lanes, oldest session first."""
    return [(row["lane"], _to_snapshot(row)) for row in await ledger.fetch(_RUNNING)]


async def pinned(ledger: Ledger, scope: str, most: int) -> list[Mapping[str, str]]:
    """Return the newest pinned memories of a scope: ``{id, asset, text}``."""
    return [dict(row) for row in await ledger.fetch(_PINNED, (scope, most))]


def _to_snapshot(row: Row) -> StoredSnapshot:
    return StoredSnapshot(
        session_id=row["session_id"],
        playbooks_commit=row["playbooks_commit"],
        digest=row["digest"],
        content=to_json(row["content"]),
        taken_utc=to_utc(row["taken_utc"]),
    )
