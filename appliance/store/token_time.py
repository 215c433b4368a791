"""The least that the time is known to be, for tokens: one row, so that a machine without a clock goes on from there."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import datetime, timedelta

from appliance.contracts.clock import Clock
from appliance.contracts.store import Ledger, Transaction
from appliance.store.columns import to_utc_if_whole, utc_text

log = logging.getLogger(__name__)

# What was admitted later in the same boot shows how long it went on, whatever its clock said. The newest thousand are enough:
# whoever shows a token writes the row anew.
_KEPT = """SELECT at_least_utc, mono_ns, boot_id, (SELECT max(admitted_mono_ns) FROM
        (SELECT admitted_mono_ns, boot_id FROM admission ORDER BY seq DESC LIMIT 1000) AS newest
        WHERE newest.boot_id = token_time.boot_id) AS seen_mono_ns
    FROM token_time"""


@dataclass(frozen=True, slots=True)
class KeptTime:
    """It was ``at_least_utc`` at ``mono_ns`` of the boot; at ``seen_mono_ns`` that boot still went on."""

    at_least_utc: datetime
    mono_ns: int
    boot_id: str
    seen_mono_ns: int

    def by(self, clock: Clock) -> datetime:
        """Return the least that the time is now. For how long the machine was off nobody knows."""
        until_ns = clock.monotonic_ns() if clock.boot_id == self.boot_id else self.seen_mono_ns
        return self.at_least_utc + timedelta(microseconds=max(until_ns - self.mono_ns, 0) // 1000)


async def kept(ledger: Ledger) -> KeptTime | None:
    """Return what was kept last; None before the first token, and when the row is damaged: it is written anew then."""
    rows = await ledger.fetch(_KEPT)
    if not rows:
        return None
    row = rows[0]
    at_least_utc = to_utc_if_whole(row["at_least_utc"])
    if at_least_utc is None:
        log.error("token.time_unreadable", extra={"row": repr(row["at_least_utc"])})
        return None
    return KeptTime(at_least_utc, row["mono_ns"], row["boot_id"], row["seen_mono_ns"] or row["mono_ns"])


def keep(tx: Transaction, clock: Clock, at_least_utc: datetime) -> None:
    """Keep a time as that of now."""
    tx.execute(
        "INSERT OR REPLACE INTO token_time (one, at_least_utc, mono_ns, boot_id) VALUES (1, ?, ?, ?)",
        (utc_text(at_least_utc), clock.monotonic_ns(), clock.boot_id),
    )
