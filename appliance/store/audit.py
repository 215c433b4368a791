"""Audit entries: what was refused or decided, in the hash-chained log (lane P1)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from appliance.contracts.clock import Clock
from appliance.contracts.operation import OperationLane
from appliance.contracts.store import Ledger, Transaction
from appliance.store import operations
from appliance.store.columns import to_utc_if_whole

# A start writes some entries of its own before anybody asks; those of the run before are among so many of a lane. CROSS JOIN has
# SQLite begin with the heads, and read no more than these entries however long the log is.
_LATEST = """SELECT clock_synced, max(at_utc) AS at_utc FROM operation_head AS head CROSS JOIN operation
    ON operation.lane = head.lane AND operation.seq > head.seq - 1000 GROUP BY clock_synced"""


def note(tx: Transaction, clock: Clock, what: str, entity: str, payload: Mapping[str, Any]) -> None:
    """Append ``audit.<what>`` about ``entity``. The payload holds facts, never what a person said."""
    operations.append(tx, clock, OperationLane.P1, f"audit.{what}", entity, payload)


async def latest_moments(ledger: Ledger) -> dict[bool, datetime]:
    """Return the latest time any recent operation carries: of those written by a disciplined clock (True), and of the others.

    One that is damaged tells nothing; verifying the log finds it.
    """
    latest = {bool(row["clock_synced"]): to_utc_if_whole(row["at_utc"]) for row in await ledger.fetch(_LATEST)}
    return {was_synced: at for was_synced, at in latest.items() if at is not None}
