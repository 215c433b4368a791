"""Receipts outlive a full card: what was said or sent stays so, whatever the ledger can take just now."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator

from appliance.contracts.errors import Unavailable
from appliance.contracts.store import Ledger, T, Transaction

log = logging.getLogger(__name__)


async def record(ledger: Ledger, work: Callable[[Transaction], T], waits: Callable[[], Iterator[float]]) -> T:
    """Write to the ledger; while it cannot be written (a full card) wait and try again. The receipt is kept here until it is on
    disk, so that nothing is said or sent again meanwhile."""
    pauses = waits()
    while True:
        try:
            return await ledger.transaction(work)
        except Unavailable as error:
            log.warning("delivery.waits_for_ledger", extra={"why": error.message})
            await asyncio.sleep(next(pauses))
