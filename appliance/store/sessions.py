"""Sessions: one open conversation a lane, which its turns share."""

from __future__ import annotations

from collections.abc import Mapping

from appliance.contracts.clock import Clock, IdSource
from appliance.contracts.errors import Refused
from appliance.contracts.operation import OperationLane
from appliance.contracts.store import Transaction
from appliance.store import operations
from appliance.store.columns import utc_text

_RESTING = """
    NOT EXISTS (SELECT 1 FROM admission WHERE admission.lane = session.lane AND status IN ('queued', 'started', 'unknown'))
    AND NOT EXISTS (SELECT 1 FROM turn WHERE seq = (SELECT max(seq) FROM turn WHERE session_id = session.id)
                    AND state NOT IN ('idle', 'failed', 'abandoned'))
    AND id NOT IN (SELECT turn.session_id FROM admission JOIN turn ON turn.id = admission.turn_id
                   WHERE admission.status IN ('queued', 'started', 'unknown'))
    AND id NOT IN (SELECT turn.session_id FROM confirmation JOIN turn ON turn.id = confirmation.turn_id
                   WHERE confirmation.status = 'pending')
    AND id NOT IN (SELECT session_id FROM alarm WHERE state <> 'normal' AND session_id IS NOT NULL)
    AND id NOT IN (SELECT session_id FROM flood WHERE is_calm = 0)"""

RESTING = f"""SELECT id, coalesce((SELECT max(seq) FROM turn WHERE session_id = session.id), 0) AS newest FROM session
    WHERE state = 'open' AND {_RESTING}"""
"""Query of the open sessions in which nothing is under way, with the sequence of their newest turn (0 without one).

Nothing waits, runs or is unknown in the lane, nothing is asked, and no alarm or flood that is still there belongs to them.
"""


def open_for(tx: Transaction, clock: Clock, ids: IdSource, lane: str, asset: str | None = None) -> str:
    """Return the id of the lane's open session, opened now if there is none. Appends ``session.opened`` (P1) then."""
    known = open_id(tx, lane)
    if known is not None:
        return known
    session_id = ids.mint("se")
    tx.execute(
        "INSERT INTO session (id, lane, asset, state, opened_utc) VALUES (?, ?, ?, 'open', ?)",
        (session_id, lane, asset, utc_text(clock.utc())),
    )
    operations.append(tx, clock, OperationLane.P1, "session.opened", session_id, {"lane": lane, "asset": asset})
    return session_id


def open_id(tx: Transaction, lane: str) -> str | None:
    """Return the id of the lane's open session, or None."""
    row = tx.execute("SELECT id FROM session WHERE lane = ? AND state = 'open'", (lane,)).fetchone()
    return None if row is None else str(row["id"])


def count_lanes(tx: Transaction) -> int:
    """Return how many lanes have an open session, or something that waits and will open one."""
    lanes = "SELECT lane FROM session WHERE state = 'open' UNION SELECT lane FROM admission WHERE status = 'queued'"
    count: int = tx.execute(f"SELECT count(*) FROM ({lanes})").fetchone()[0]
    return count


def close_idle(tx: Transaction, clock: Clock, idle: Mapping[str, int]) -> list[str]:
    """Close sessions that rest, and return them. Appends ``session.closed`` (P1) each. The lane's next turn opens a new one.

    ``idle``: session -> its newest turn when its rest began, as told by :data:`RESTING`. One that had a turn since, or in which
    something is under way by now, stays open.
    """
    closed = []
    for session_id, newest in idle.items():
        row = tx.execute(f"{RESTING} AND id = ?", (session_id,)).fetchone()
        if row is not None and row["newest"] == newest:
            tx.execute("UPDATE session SET state = 'closed', closed_utc = ? WHERE id = ?", (utc_text(clock.utc()), session_id))
            operations.append(tx, clock, OperationLane.P1, "session.closed", session_id, {"why": "idle"})
            closed.append(session_id)
    return closed


def lane_of(tx: Transaction, session_id: str) -> str:
    """Return a session's lane.

    Raises:
        Refused: no such session.
    """
    row = tx.execute("SELECT lane FROM session WHERE id = ?", (session_id,)).fetchone()
    if row is None:
        raise Refused(f"there is no session {session_id}", session=session_id)
    return str(row["lane"])
