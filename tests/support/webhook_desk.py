"""A ledger with webhooks on it, for tests that post to a real server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from appliance.contracts.store import Transaction
from appliance.delivery.settings import WebhookSettings
from appliance.delivery.webhooks import WebhookSender
from appliance.foundation.supervisor import Degraded
from appliance.store import deliveries
from tests.support.ledger import Bench


class Desk:
    """A bench with webhooks on it."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.degraded = Degraded()
        self.changes: list[tuple[str, str]] = []
        self.degraded.listeners.append(lambda *change: self.changes.append(change))

    def sender(self, *, minute_s: float = 60.0, **urls: str | WebhookSettings) -> WebhookSender:
        webhooks = {name: WebhookSettings(url=each) if isinstance(each, str) else each for name, each in urls.items()}
        return WebhookSender(
            webhooks, self.bench.database, self.bench.clock, self.degraded,
            waits=lambda: iter([0.01] * 999), doubt_waits_s=(0.01, 0.01), repeat="Again:", minute_s=minute_s,
        )  # fmt: skip

    async def queue(self, n: int, name: str = "site", **payload: Any) -> None:
        bench = self.bench

        def work(tx: Transaction) -> None:
            told = payload or {"n": n}
            deliveries.queue_webhook(tx, bench.clock, bench.ids, turn_id=None, name=name, payload=told, priority=9)

        await bench.database.transaction(work)

    async def rows(self) -> list[dict[str, Any]]:
        return await self.bench.rows("SELECT * FROM delivery ORDER BY seq")

    async def until(self, holds: Callable[[list[dict[str, Any]]], bool]) -> list[dict[str, Any]]:
        async with asyncio.timeout(10):
            while not holds(rows := await self.rows()):  # noqa: ASYNC110 - rows set no event
                await asyncio.sleep(0.005)
            return rows

    async def until_statuses(self, *statuses: str) -> list[dict[str, Any]]:
        return await self.until(lambda rows: [row["status"] for row in rows] == list(statuses))
