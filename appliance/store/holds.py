"""The global hold as rows: it survives restarts, and says who holds and why (R10)."""

from __future__ import annotations

from appliance.contracts.clock import Clock
from appliance.contracts.errors import Refused
from appliance.contracts.hold import Hold, HoldSource
from appliance.contracts.store import Transaction
from appliance.store import audit
from appliance.store.columns import to_utc, utc_text

ITSELF = "floorhand"
"""Who holds where the appliance cannot know whether somebody did: rows of holds are lost, or this may be an older copy."""
IN_FORCE = "SELECT source, by, reason, began_utc FROM hold WHERE ended_utc IS NULL ORDER BY seq"
"""Query of the holds in force."""

_LONGEST_REASON = 2_000  # what one word may have; it is spoken
_OF = "SELECT seq, reason FROM hold WHERE source = ? AND by = ? AND ended_utc IS NULL"


def begin(tx: Transaction, clock: Clock, source: HoldSource, *, by: str, reason: str) -> bool:
    """Put everything on hold; return False if ``by`` holds already and gives no other reason. Appends ``audit.hold_began``.

    Another reason of who holds already is kept beside the one before, and appended as ``audit.hold_reason_added``.

    Raises:
        Refused: the reasons of one hold grow too long.
    """
    held = tx.execute(_OF, (source, by)).fetchone()
    if held is not None:
        return _add_reason(tx, clock, source, by, held["seq"], held["reason"], reason)
    tx.execute(
        "INSERT INTO hold (source, by, reason, began_utc) VALUES (?, ?, ?, ?)", (source, by, reason, utc_text(clock.utc()))
    )
    audit.note(tx, clock, "hold_began", str(source), {"by": by, "reason": reason})
    return True


def end(tx: Transaction, clock: Clock, source: HoldSource, *, of: str, by: str) -> bool:
    """Let go of what ``of`` holds; return False if that is nothing. Appends ``audit.hold_ended``. ``by`` is whose word it was."""
    ended = tx.execute(
        "UPDATE hold SET ended_utc = ?, ended_by = ? WHERE source = ? AND by = ? AND ended_utc IS NULL",
        (utc_text(clock.utc()), by, source, of),
    )
    if ended.rowcount == 0:
        return False
    audit.note(tx, clock, "hold_ended", str(source), {"by": by, "of": of})
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


def _add_reason(tx: Transaction, clock: Clock, source: HoldSource, by: str, seq: int, known: str, reason: str) -> bool:
    if not reason or reason in known.split("; "):
        return False
    told = f"{known}; {reason}" if known else reason
    if len(told) > _LONGEST_REASON:
        raise Refused(f"{by} holds already, for reasons that are long enough", by=by, cure="See them: floorhand status")
    tx.execute("UPDATE hold SET reason = ? WHERE seq = ?", (told, seq))
    audit.note(tx, clock, "hold_reason_added", str(source), {"by": by, "reason": reason})
    return True
