"""Changes of alarms in the order they were stored, for those who follow them: lane P0 is the record, a cursor says how far."""

from __future__ import annotations

from appliance.contracts.alarm import Alarm
from appliance.contracts.store import Transaction
from appliance.store.alarms import to_alarm

HEAD = "SELECT h.seq > f.p0_seq AS has_more FROM operation_head h, alarm_feed f WHERE h.lane = 'P0'"
"""Query whether there is something that was not followed yet; no row before the first alarm."""

BATCH = 500


def take(tx: Transaction) -> list[tuple[Alarm, str]]:
    """Return the next changes, each with the activation as stored now and what changed, and move the cursor behind them.

    What changed: ``raised``, ``cleared``, ``acknowledged``, ``reset``, ``closed``. At most :data:`BATCH` operations at a time.
    """
    last = tx.execute(
        "SELECT max(seq) FROM (SELECT operation.seq FROM operation, alarm_feed WHERE lane = 'P0' AND operation.seq > p0_seq"
        " ORDER BY operation.seq LIMIT ?)",
        (BATCH,),
    ).fetchone()[0]
    if last is None:
        return []
    rows = tx.execute(
        "SELECT alarm.*, substr(operation.kind, 7) AS what FROM operation JOIN alarm ON alarm.activation_id = operation.entity"
        " WHERE operation.lane = 'P0' AND operation.seq > (SELECT p0_seq FROM alarm_feed) AND operation.seq <= ?"
        " AND operation.kind IN ('alarm.raised', 'alarm.cleared', 'alarm.acknowledged', 'alarm.reset', 'alarm.closed')"
        " ORDER BY operation.seq",
        (last,),
    ).fetchall()
    tx.execute("UPDATE alarm_feed SET p0_seq = ?", (last,))
    return [(to_alarm(row), row["what"]) for row in rows]
