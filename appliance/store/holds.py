"""The global hold as rows: it survives restarts, and says who holds and why (R10)."""

from __future__ import annotations

from appliance.contracts.clock import Clock
from appliance.contracts.errors import Refused
from appliance.contracts.hold import Hold, HoldSource
from appliance.contracts.store import Transaction
from appliance.store import audit
from appliance.store.columns import to_utc, utc_text

IN_FORCE = "SELECT source, by, reason, began_utc FROM hold WHERE ended_utc IS NULL ORDER BY seq"
"""Query of the holds in force."""


def begin(tx: Transaction, clock: Clock, source: HoldSource, *, by: str, reason: str) -> bool:
    """Put everything on hold; return False if this source holds already. Appends ``audit.hold_began``."""
    if tx.execute("SELECT 1 FROM hold WHERE source = ? AND ended_utc IS NULL", (source,)).fetchone() is not None:
        return False
    tx.execute(
        "INSERT INTO hold (source, by, reason, began_utc) VALUES (?, ?, ?, ?)", (source, by, reason, utc_text(clock.utc()))
    )
    audit.note(tx, clock, "hold_began", str(source), {"by": by, "reason": reason})
    return True


def end(tx: Transaction, clock: Clock, source: HoldSource, *, by: str) -> bool:
    """Let go; return False if this source did not hold. Appends ``audit.hold_ended``."""
    ended = tx.execute(
        "UPDATE hold SET ended_utc = ?, ended_by = ? WHERE source = ? AND ended_utc IS NULL", (utc_text(clock.utc()), by, source)
    )
    if ended.rowcount == 0:
        return False
    audit.note(tx, clock, "hold_ended", str(source), {"by": by})
    return True


def in_force(tx: Transaction) -> list[Hold]:
    """Return the holds in force, oldest first; empty when work goes on."""
    return [Hold(HoldSource(row["source"]), row["by"], row["reason"], to_utc(row["began_utc"])) for row in tx.execute(IN_FORCE)]


def require_none(tx: Transaction) -> None:
    """Check that nothing is on hold, in the transaction that would begin an effect.

    Raises:
        Refused: it is; the message names who holds and why, facts ``source``, ``by`` and ``reason``.
    """
    for hold in in_force(tx):
        who = "the key switch" if hold.source is HoldSource.KEY_SWITCH else hold.by
        why = f": {hold.reason}" if hold.reason else ""
        raise Refused(f"the appliance is on hold by {who}{why}", source=str(hold.source), by=hold.by, reason=hold.reason)
