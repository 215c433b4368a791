"""Tickets as people see them: mappings that JSON can carry, newest first."""

from __future__ import annotations

import json
from typing import Any

from appliance.contracts.errors import Refused
from appliance.contracts.store import Ledger
from appliance.store.columns import to_json

Shown = dict[str, Any]

_DELIVERIES = """SELECT d.id, d.topic, d.status, d.tries, d.failure, d.queued_utc, d.ended_utc, m.change
    FROM ticket_message m JOIN delivery d ON d.id = m.delivery_id WHERE m.ticket_id = ? ORDER BY d.seq"""
_OPENED = """SELECT m.ticket_id, d.topic, d.status, d.tries, d.failure
    FROM ticket_message m JOIN delivery d ON d.id = m.delivery_id
    WHERE m.change = 'opened' AND m.ticket_id IN (SELECT value FROM json_each(?)) ORDER BY d.seq"""
_BECAME = {"delivered": "sent", "failed": "failed", "abandoned": "failed"}
_WAITS = "waiting"


async def tickets(ledger: Ledger, *, open_only: bool, limit: int) -> list[Shown]:
    """Return tickets, all or only those that are open, each with ``messages``: webhook -> what became of the ticket's message,
    ``{status: sent | waiting | failed, tries, why}``."""
    where = "WHERE status = 'open'" if open_only else ""
    rows = await ledger.fetch(f"SELECT * FROM ticket {where} ORDER BY seq DESC LIMIT ?", (limit,))
    messages = await _messages(ledger, [row["id"] for row in rows])
    return [_shown(row) | {"messages": messages[row["id"]]} for row in rows]


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
    messages = await _messages(ledger, [ticket_id])
    shown = _shown(rows[0]) | {"messages": messages[ticket_id]}
    return shown | {"deliveries": [{key: row[key] for key in row.keys()} for row in sent]}  # noqa: SIM118 - a Row iterates values


async def _messages(ledger: Ledger, ticket_ids: list[str]) -> dict[str, Shown]:
    messages: dict[str, Shown] = {ticket_id: {} for ticket_id in ticket_ids}
    for row in await ledger.fetch(_OPENED, (json.dumps(ticket_ids),)):
        became = {"status": _BECAME.get(row["status"], _WAITS), "tries": row["tries"], "why": row["failure"]}
        messages[row["ticket_id"]][row["topic"]] = became
    return messages


def _shown(row: Any) -> Shown:
    shown = {key: row[key] for key in row.keys()}  # noqa: SIM118 - a Row iterates values
    return shown | {
        "input": to_json(row["input"]),
        "told": row["told"].split(),
        "clock_synced": bool(row["clock_synced"]),
        "context": f"floorhand turns show {row['turn_id']}",
    }
