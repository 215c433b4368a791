"""Tickets as people see them: mappings that JSON can carry, newest first."""

from __future__ import annotations

from typing import Any

from appliance.contracts.errors import Refused
from appliance.contracts.store import Ledger
from appliance.store.columns import to_json

Shown = dict[str, Any]

_DELIVERIES = """SELECT id, topic, status, attempts, failure, queued_utc, ended_utc FROM delivery
    WHERE channel = 'webhook' AND json_extract(payload, '$.ticket') = ? ORDER BY seq"""


async def tickets(ledger: Ledger, *, open_only: bool, limit: int) -> list[Shown]:
    """Return tickets, all or only those that are open."""
    where = "WHERE status = 'open'" if open_only else ""
    return [_shown(row) for row in await ledger.fetch(f"SELECT * FROM ticket {where} ORDER BY seq DESC LIMIT ?", (limit,))]


async def ticket(ledger: Ledger, ticket_id: str) -> Shown:
    """Return one ticket with what became of its messages.

    Raises:
        Refused: there is none of this id.
    """
    rows = await ledger.fetch("SELECT * FROM ticket WHERE id = ?", (ticket_id,))
    if not rows:
        cure = "`floorhand tickets list --all` shows those there are."
        raise Refused(f"there is no ticket {ticket_id}", ticket=ticket_id, cure=cure)
    sent = await ledger.fetch(_DELIVERIES, (ticket_id,))
    return _shown(rows[0]) | {"deliveries": [{key: row[key] for key in row.keys()} for row in sent]}  # noqa: SIM118 - a Row iterates values


def _shown(row: Any) -> Shown:
    shown = {key: row[key] for key in row.keys()}  # noqa: SIM118 - a Row iterates values
    return shown | {
        "input": to_json(row["input"]),
        "told": row["told"].split(),
        "clock_synced": bool(row["clock_synced"]),
        "context": f"floorhand turns show {row['turn_id']}",
    }
