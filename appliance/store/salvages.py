"""Damaged ledgers as rows: what was lost, what had to be stopped because of it, and whether a person has taken note."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from typing import Any

from appliance.contracts.clock import Clock
from appliance.contracts.errors import Refused
from appliance.contracts.store import Transaction
from appliance.contracts.turn import Turn
from appliance.store import audit, stopping
from appliance.store.columns import to_json, utc_text

LIST = "SELECT * FROM salvage ORDER BY seq DESC"
"""Query of all, newest first, for :func:`to_facts`."""
OPEN = "SELECT * FROM salvage WHERE settled_utc IS NULL ORDER BY seq"
"""Query of those nobody has taken note of."""

STOPPED = "the ledger was damaged while this was under way; nothing of it is done again by itself"


def stop_what_was_under_way(tx: Transaction, clock: Clock) -> list[Turn]:
    """End the turns that were not over when a ledger was damaged in a way that may have cost rows of what they had done.

    A step whose effect was recorded on a lost page would run again. Call before ownership is taken; again changes nothing.
    """
    if tx.execute("SELECT 1 FROM salvage WHERE is_lossy AND told_utc IS NULL").fetchone() is None:
        return []
    return stopping.stop_all(tx, clock, STOPPED)


def take_untold(tx: Transaction, clock: Clock) -> bool:
    """Return whether there is a salvage nobody was told of, and note that they are told now."""
    return tx.execute("UPDATE salvage SET told_utc = ? WHERE told_utc IS NULL", (utc_text(clock.utc()),)).rowcount > 0


def settle(tx: Transaction, clock: Clock, number: int, *, by: str, note: str) -> Mapping[str, Any]:
    """Note that a person knows of the loss and has dealt with it. Appends ``audit.salvage_settled``.

    Raises:
        Refused: there is no such salvage, or it is settled.
    """
    row = tx.execute("SELECT settled_by FROM salvage WHERE seq = ?", (number,)).fetchone()
    if row is None or row["settled_by"] is not None:
        what = "does not exist" if row is None else f"was settled by {row['settled_by']}"
        raise Refused(f"salvage {number} {what}", salvage=number, cure="`floorhand ledger show` lists them.")
    tx.execute(
        "UPDATE salvage SET settled_utc = ?, settled_by = ?, note = ? WHERE seq = ?", (utc_text(clock.utc()), by, note, number)
    )
    audit.note(tx, clock, "salvage_settled", str(number), {"by": by, "note": note})
    return to_facts(tx.execute("SELECT * FROM salvage WHERE seq = ?", (number,)).fetchone())


def to_facts(row: sqlite3.Row) -> Mapping[str, Any]:
    """Read a row for people and programs."""
    return {
        "salvage": row["seq"],
        "why": row["why"],
        "set_aside": row["set_aside"],
        "account": to_json(row["account"]),
        "lost": losses(to_json(row["account"])),
        "at_utc": row["at_utc"],
        "settled_utc": row["settled_utc"],
        "settled_by": row["settled_by"],
        "note": row["note"],
    }


def losses(account: Mapping[str, Any]) -> list[str]:
    """Return what is missing, in words: per table rows before and after, and what was written and cannot be read at all."""
    found = []
    for name, rows in sorted(account["tables"].items()):
        known = rows["before"]
        before = f"at most {rows['at_most']}" if known is None and "at_most" in rows else "unknown" if known is None else known
        found.append(f"{name} ({before} before, {rows['after']} now)")
    if commits := account.get("lost_commits"):
        found.append(f"the last {commits} commits, whatever was in them")
    if pages := account.get("unplaced_pages"):
        found.append(f"{pages} pages of rows, of whichever table")
    return found


def named(rows: list[sqlite3.Row]) -> str:
    """Return what is degraded because of salvages that are not settled, empty when there is none."""
    if not rows:
        return ""
    newest = rows[-1]
    lost = ", ".join(losses(to_json(newest["account"]))) or "nothing"
    return (
        f"the ledger was damaged ({newest['why']}) and salvaged; missing: {lost}; the damaged file is"
        f" {newest['set_aside']}; take note with `floorhand ledger settle {newest['seq']} --note ...`"
    )
