"""Whether this ledger is still the one history of one machine; what says otherwise stays until a person adopts it (FC-D04)."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any

from appliance.contracts.clock import Clock
from appliance.contracts.errors import Refused
from appliance.contracts.store import Transaction
from appliance.foundation.machine_identity import differing, merged
from appliance.store import audit
from appliance.store.columns import utc_text

OPEN = "SELECT seq, what, detail, found_utc FROM identity_fault WHERE adopted_utc IS NULL ORDER BY seq"
"""Query of the signs that nobody has dealt with, for :func:`named`."""


def is_in_doubt(tx: Transaction) -> bool:
    """Whether something says that this may be a copy, and nobody has adopted it."""
    return tx.execute(OPEN).fetchone() is not None


def compare(tx: Transaction, clock: Clock, machine: str, witnessed_epoch: int) -> bool:
    """Compare the ledger with the machine it runs on and with its witness, and keep what speaks against its being one history.

    A new ledger takes the machine for its own. Call with the origin set, before ownership is taken: the new epoch will be
    beyond the witnessed one, so that no epoch is given out twice. ``audit.machine_changed`` or ``audit.ledger_restored`` tells
    each sign once. Returns whether there is a new sign: then nothing that the ledger has under way may go on, since the rest of
    it may have been done where, or when, this ledger knows nothing of (:func:`stopping.stop_what_a_copy_had_under_way`).
    """
    found = False
    known = str(tx.execute("SELECT machine FROM appliance").fetchone()["machine"])
    if known and (parts := differing(known, machine)):
        detail = f"written on the machine {known}, running on {machine} (other {' and '.join(parts)})"
        found |= _note(tx, clock, "machine_changed", detail, {"known": known, "found": machine, "differs": parts})
    elif machine and merged(known, machine) != known:
        tx.execute("UPDATE appliance SET machine = ?", (merged(known, machine),))
    row = tx.execute("SELECT seq FROM sqlite_sequence WHERE name = 'owner'").fetchone()
    newest = int(row["seq"]) if row is not None else 0
    if witnessed_epoch > newest:
        detail = f"the ledger ends with epoch {newest}, this machine was in epoch {witnessed_epoch} before"
        found |= _note(tx, clock, "ledger_restored", detail, {"epoch": newest, "witnessed": witnessed_epoch})
        tx.execute("DELETE FROM sqlite_sequence WHERE name = 'owner'")
        tx.execute("INSERT INTO sqlite_sequence (name, seq) VALUES ('owner', ?)", (witnessed_epoch,))
    return found


def adopt(tx: Transaction, clock: Clock, machine: str, *, by: str, note: str) -> Sequence[Mapping[str, Any]]:
    """Go on with this ledger on this machine, whatever spoke against it. Appends ``audit.identity_adopted``; returns the signs.

    Raises:
        Refused: nothing speaks against it.
    """
    faults = [dict(row) for row in tx.execute(OPEN)]
    if not faults:
        raise Refused("nothing speaks against this ledger being this machine's own")
    known = str(tx.execute("SELECT machine FROM appliance").fetchone()["machine"])
    tx.execute(
        "UPDATE identity_fault SET adopted_utc = ?, adopted_by = ?, note = ? WHERE adopted_utc IS NULL",
        (utc_text(clock.utc()), by, note),
    )
    # Nothing of the machine before is kept: going back to it is a change again.
    tx.execute("UPDATE appliance SET machine = ?", (machine or known,))
    facts = {"by": by, "note": note, "was": known, "machine": machine, "faults": [fault["detail"] for fault in faults]}
    audit.note(tx, clock, "identity_adopted", "identity", facts)
    return faults


def named(rows: Sequence[sqlite3.Row]) -> str:
    """Return what is degraded because of open signs, empty when there is none."""
    if not rows:
        return ""
    told = "; ".join(str(row["detail"]) for row in rows)
    return f"this may be a copy: {told}. Sync waits. If this machine is to go on with it: `floorhand identity adopt --note ...`"


def _note(tx: Transaction, clock: Clock, what: str, detail: str, facts: Mapping[str, Any]) -> bool:
    new = tx.execute(
        "INSERT INTO identity_fault (what, detail, found_utc) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
        (what, detail, utc_text(clock.utc())),
    ).rowcount
    if new:
        audit.note(tx, clock, what, "identity", facts)
    return bool(new)
