"""Session tokens that a person ended before their time. Each is an audit entry too, so that the log tells who did."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from appliance.contracts.clock import Clock
from appliance.contracts.store import Ledger, Transaction
from appliance.store import audit
from appliance.store.columns import utc_text

_OF_ID = "SELECT id, revoked_by, note, revoked_utc FROM revoked_token WHERE id = ?"


def revoke(tx: Transaction, clock: Clock, token_id: str, *, by: str, note: str) -> Mapping[str, Any]:
    """End a token; return ``{id, revoked_by, note, revoked_utc}``. Again keeps the first word, and changes nothing.

    Appends ``audit.token_revoked``.
    """
    held = tx.execute(_OF_ID, (token_id,)).fetchone()
    if held is None:
        now = utc_text(clock.utc())
        tx.execute("INSERT INTO revoked_token (id, revoked_by, note, revoked_utc) VALUES (?, ?, ?, ?)", (token_id, by, note, now))
        audit.note(tx, clock, "token_revoked", token_id, {"by": by, "note": note})
        held = tx.execute(_OF_ID, (token_id,)).fetchone()
    return dict(held)


async def was_made_here(ledger: Ledger, token_id: str) -> bool:
    """Whether the log tells that this device made a token of this id."""
    made = "SELECT 1 FROM operation WHERE entity = ? AND kind = 'audit.token_made' LIMIT 1"
    return bool(await ledger.fetch(made, (token_id,)))


async def revocation_of(ledger: Ledger, token_id: str) -> Mapping[str, Any] | None:
    """Return ``{id, revoked_by, note, revoked_utc}`` of a token that was ended, None of any other."""
    rows = await ledger.fetch(_OF_ID, (token_id,))
    return dict(rows[0]) if rows else None
