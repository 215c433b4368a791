"""Sessions: one open conversation a lane, which its turns share."""

from __future__ import annotations

from collections.abc import Mapping

from appliance.contracts import lane as lanes
from appliance.contracts.clock import Clock, IdSource
from appliance.contracts.errors import Refused
from appliance.contracts.operation import OperationLane
from appliance.contracts.store import Ledger, Transaction
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

# Conversations with people: those of alarms and of interjections are as many as there are assets and speakers.
_TALK = f"lane NOT GLOB '{lanes.ASSET}*' AND lane NOT GLOB '{lanes.CONTROL}*'"

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


def count_talk(tx: Transaction) -> int:
    """Return how many lanes of people have an open session, or something that waits and will open one."""
    opened = f"SELECT count(*) FROM session WHERE state = 'open' AND {_TALK}"
    coming = """SELECT count(DISTINCT lane) FROM admission WHERE status = 'queued' AND kind = 'utterance'
        AND NOT EXISTS (SELECT 1 FROM session WHERE session.lane = admission.lane AND session.state = 'open')"""
    count: int = tx.execute(f"SELECT ({opened}) + ({coming})").fetchone()[0]
    return count


def close_longest_idle(tx: Transaction, clock: Clock) -> str | None:
    """Close, of the sessions of people that rest, the one that has rested longest, and return it; None if none rests. Appends
    ``session.closed`` (P1)."""
    row = tx.execute(f"{RESTING} AND {_TALK} ORDER BY newest, opened_utc LIMIT 1").fetchone()
    if row is None:
        return None
    _close(tx, clock, row["id"], "room")
    return str(row["id"])


def may_end_in_s(tx: Transaction, clock: Clock, question_limit_s: float) -> float:
    """Return when one of the sessions of people may be closed, none of which rests now: soon while one of their turns waits or
    runs, else when the oldest question has waited for its limit."""
    soon = "SELECT 1 FROM admission WHERE status IN ('queued', 'started', 'unknown') AND kind = 'utterance' LIMIT 1"
    if tx.execute(soon).fetchone() is not None:
        return 0.0
    asked = tx.execute(
        """SELECT min(queued_mono_ns) FROM confirmation JOIN delivery ON delivery.id = confirmation.delivery_id
           WHERE confirmation.status = 'pending' AND delivery.boot_id = ?""",
        (clock.boot_id,),
    ).fetchone()[0]
    return question_limit_s - (0.0 if asked is None else (clock.monotonic_ns() - int(asked)) / 1e9)


def close_idle(tx: Transaction, clock: Clock, idle: Mapping[str, int]) -> list[str]:
    """Close sessions that rest, and return them. Appends ``session.closed`` (P1) each. The lane's next turn opens a new one.

    ``idle``: session -> its newest turn when its rest began, as told by :data:`RESTING`. One that had a turn since, or in which
    something is under way by now, stays open.
    """
    closed = []
    for session_id, newest in idle.items():
        row = tx.execute(f"{RESTING} AND id = ?", (session_id,)).fetchone()
        if row is not None and row["newest"] == newest:
            _close(tx, clock, session_id, "idle")
            closed.append(session_id)
    return closed


def lane_of(tx: Transaction, session_id: str) -> str:
    """Return a session's lane.

    Raises:
        Refused: no such session.
    """
    row = tx.execute("SELECT lane FROM session WHERE id = ?", (session_id,)).fetchone()
    if row is None:
        raise _no_session(session_id)
    return str(row["lane"])


async def require(ledger: Ledger, session_id: str) -> None:
    """Check that there is a session. Raises Refused: there is none."""
    if not await ledger.fetch("SELECT 1 FROM session WHERE id = ?", (session_id,)):
        raise _no_session(session_id)


def _no_session(session_id: str) -> Refused:
    cure = "`floorhand sessions list` shows the sessions there are."
    return Refused(f"there is no session {session_id}", session=session_id, cure=cure)


def _close(tx: Transaction, clock: Clock, session_id: str, why: str) -> None:
    tx.execute("UPDATE session SET state = 'closed', closed_utc = ? WHERE id = ?", (utc_text(clock.utc()), session_id))
    operations.append(tx, clock, OperationLane.P1, "session.closed", session_id, {"why": why})
