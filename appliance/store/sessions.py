"""Sessions: one open conversation a lane, which its turns share."""

from __future__ import annotations

from appliance.contracts.clock import Clock, IdSource
from appliance.contracts.errors import Refused
from appliance.contracts.operation import OperationLane
from appliance.contracts.store import Transaction
from appliance.store import operations
from appliance.store.columns import utc_text


def open_for(tx: Transaction, clock: Clock, ids: IdSource, lane: str, asset: str | None = None) -> str:
    """Return the id of the lane's open session, opened now if there is none. Appends ``session.opened`` (P1) then."""
    row = tx.execute("SELECT id FROM session WHERE lane = ? AND state = 'open'", (lane,)).fetchone()
    if row is not None:
        known: str = row["id"]
        return known
    session_id = ids.mint("se")
    tx.execute(
        "INSERT INTO session (id, lane, asset, state, opened_utc) VALUES (?, ?, ?, 'open', ?)",
        (session_id, lane, asset, utc_text(clock.utc())),
    )
    operations.append(tx, clock, OperationLane.P1, "session.opened", session_id, {"lane": lane, "asset": asset})
    return session_id


def lane_of(tx: Transaction, session_id: str) -> str:
    """Return a session's lane.

    Raises:
        Refused: no such session.
    """
    row = tx.execute("SELECT lane FROM session WHERE id = ?", (session_id,)).fetchone()
    if row is None:
        raise Refused(f"there is no session {session_id}", session=session_id)
    return str(row["lane"])
