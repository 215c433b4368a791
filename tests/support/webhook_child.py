"""A process that posts what waits for the webhook ``site`` until it is killed: ``webhook_child.py FOLDER URL``."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from appliance.delivery.settings import WebhookSettings
from appliance.delivery.webhooks import WebhookSender
from appliance.foundation.supervisor import Degraded
from appliance.foundation.system_clock import SystemClock
from appliance.store.database import Database


async def _post(folder: Path, url: str) -> None:
    clock = SystemClock()
    database = await Database.open(folder / "ledger.db", clock)
    await WebhookSender({"site": WebhookSettings(url=url)}, database, clock, Degraded()).run()


if __name__ == "__main__":
    asyncio.run(_post(Path(sys.argv[1]), sys.argv[2]))
