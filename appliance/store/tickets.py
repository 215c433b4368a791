"""Tickets: one an action that failed for good, until a person, a later success or time closes it (T5).

Operations (lane P2, records): ``ticket.opened``, ``ticket.resolved``, ``ticket.auto_resolved``, ``ticket.expired``.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any

from appliance.contracts.clock import Clock, IdSource
from appliance.contracts.errors import Refused
from appliance.contracts.operation import OperationLane
from appliance.contracts.store import Ledger, Transaction
from appliance.contracts.ticket import Ticket, TicketStatus
from appliance.store import operations
from appliance.store.columns import json_text, to_json, to_utc, to_utc_or_none, utc_text

OPEN = "SELECT * FROM ticket WHERE status = 'open' ORDER BY seq"
"""Query of the open tickets, oldest first."""

UNTOLD = """SELECT t.* FROM ticket t WHERE t.status = 'open' AND t.untold_utc IS NULL AND t.told <> ''
    AND NOT EXISTS (SELECT 1 FROM ticket_message m JOIN delivery d ON d.id = m.delivery_id
        WHERE m.ticket_id = t.id AND m.change = 'opened' AND d.status NOT IN ('failed', 'abandoned'))
    ORDER BY t.seq"""
"""Query of the open tickets that no webhook has taken or can still take, and nobody has been told so."""

OPENED = "opened"
"""Change of the message that hands a ticket over; those that tell how it was closed have its status."""

MOST_CLOSED = 10_000
"""Closed tickets that are kept; the oldest make room, in the transaction that opens one."""

# Rows of actions are never removed or written again under another number, so the number tells which came later. The action itself
# counts too: an unknown may have been settled as done. What a call was made with is on record where it has an effect; else it is
# known only where nothing had to be filled in, which no brace before a name says (an object of JSON has a quotation mark there).
_WORKS_AGAIN = """SELECT later.state FROM action failed JOIN action later
    ON later.rowid >= failed.rowid AND later.tool = failed.tool
    LEFT JOIN effect wanted ON wanted.action_id = failed.id LEFT JOIN effect sent ON sent.action_id = later.id
    WHERE failed.id = ? AND later.state IN ('done', 'failed', 'unknown')
      AND (later.id = failed.id OR wanted.arguments = sent.arguments
           OR (later.arguments = failed.arguments AND failed.arguments NOT GLOB '*{[A-Za-z0-9_-]*'))
    ORDER BY later.rowid DESC LIMIT 1"""
_SEE = "`floorhand tickets list` shows those that are open."


def open_in(
    tx: Transaction,
    clock: Clock,
    ids: IdSource,
    *,
    turn_id: str,
    action_id: str,
    tool: str,
    input: Mapping[str, Any],
    error_code: str,
    error: str,
    state_hash: str,
    told: Sequence[str],
) -> Ticket:
    """Insert the ticket of an action. The caller has made sure that it has none."""
    ticket_id = ids.mint("tk")
    tx.execute(
        """INSERT INTO ticket (id, turn_id, action_id, tool, input, error_code, error, state_hash, status, told,
                               opened_utc, opened_mono_ns, boot_id, clock_synced)
           VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)""",
        (
            ticket_id, turn_id, action_id, tool, json_text(input), error_code, error, state_hash, TicketStatus.OPEN,
            " ".join(told), utc_text(clock.utc()), clock.monotonic_ns(), clock.boot_id, clock.is_synced,
        ),
    )  # fmt: skip
    ticket = _loaded(tx, ticket_id)
    facts = {"id": ticket_id, "turn_id": turn_id, "action_id": action_id, "tool": tool, "input": dict(input)}
    facts |= {"error_code": error_code, "error": error, "state_hash": state_hash, "told": list(told)}
    operations.append(tx, clock, OperationLane.P2, "ticket.opened", ticket_id, facts)
    _make_room(tx)
    return ticket


def note_message(tx: Transaction, ticket_id: str, change: str, delivery_id: str) -> None:
    """Note that a delivery tells of a ticket."""
    tx.execute("INSERT INTO ticket_message (delivery_id, ticket_id, change) VALUES (?, ?, ?)", (delivery_id, ticket_id, change))


def note_untold(tx: Transaction, clock: Clock) -> list[Ticket]:
    """Note of every ticket of :data:`UNTOLD` that this is known now; return them."""
    found = [to_ticket(row) for row in tx.execute(UNTOLD).fetchall()]
    now = utc_text(clock.utc())
    for ticket in found:
        tx.execute("UPDATE ticket SET untold_utc = ? WHERE id = ?", (now, ticket.id))
    return found


def of_action(tx: Transaction, action_id: str) -> Ticket | None:
    """Return the ticket of an action, or None."""
    row = tx.execute("SELECT * FROM ticket WHERE action_id = ?", (action_id,)).fetchone()
    return None if row is None else to_ticket(row)


def load(tx: Transaction, ticket_id: str) -> Ticket:
    """Return one ticket.

    Raises:
        Refused: there is none of this id.
    """
    return _loaded(tx, ticket_id)


def close(tx: Transaction, clock: Clock, ticket_id: str, status: TicketStatus, *, by: str, note: str) -> Ticket:
    """Close an open ticket.

    Raises:
        Refused: there is no such ticket, or it is closed already.
    """
    known = _loaded(tx, ticket_id)
    if known.status is not TicketStatus.OPEN:
        raise Refused(f"the ticket {ticket_id} is {known.status.replace('_', ' ')} already", ticket=ticket_id, cure=_SEE)
    tx.execute(
        "UPDATE ticket SET status = ?, closed_utc = ?, closed_by = ?, note = ? WHERE id = ? AND status = 'open'",
        (status, utc_text(clock.utc()), by, note, ticket_id),
    )
    facts = {"id": ticket_id, "turn_id": known.turn_id, "tool": known.tool, "by": by, "note": note}
    operations.append(tx, clock, OperationLane.P2, f"ticket.{status}", ticket_id, facts)
    return _loaded(tx, ticket_id)


async def works_again(ledger: Ledger, ticket: Ticket) -> bool:
    """Whether the same tool was called with the same arguments, as filled in, since, and did what it was to do the last time.

    A call without effect whose arguments were filled in is the same as no other: nobody knows what it was made with.
    """
    rows = await ledger.fetch(_WORKS_AGAIN, (ticket.action_id,))
    return bool(rows) and rows[0]["state"] == "done"


def to_ticket(row: sqlite3.Row) -> Ticket:
    """Read a row of ``ticket``."""
    return Ticket(
        id=row["id"],
        seq=row["seq"],
        turn_id=row["turn_id"],
        action_id=row["action_id"],
        tool=row["tool"],
        input=to_json(row["input"]),
        error_code=row["error_code"],
        error=row["error"],
        state_hash=row["state_hash"],
        status=TicketStatus(row["status"]),
        told=tuple(row["told"].split()),
        opened_utc=to_utc(row["opened_utc"]),
        opened_mono_ns=row["opened_mono_ns"],
        boot_id=row["boot_id"],
        clock_synced=bool(row["clock_synced"]),
        closed_utc=to_utc_or_none(row["closed_utc"]),
        closed_by=row["closed_by"],
        note=row["note"],
    )


def _make_room(tx: Transaction) -> None:
    """Drop the oldest closed tickets beyond those that are kept, with what tells which messages were theirs."""
    old = "SELECT id FROM ticket WHERE seq <= (SELECT max(seq) FROM ticket) - ? AND status <> 'open'"
    tx.execute(f"DELETE FROM ticket_message WHERE ticket_id IN ({old})", (MOST_CLOSED,))
    tx.execute(f"DELETE FROM ticket WHERE id IN ({old})", (MOST_CLOSED,))


def _loaded(tx: Transaction, ticket_id: str) -> Ticket:
    row = tx.execute("SELECT * FROM ticket WHERE id = ?", (ticket_id,)).fetchone()
    if row is None:
        raise Refused(f"there is no ticket {ticket_id}", ticket=ticket_id, cure=_SEE)
    return to_ticket(row)
