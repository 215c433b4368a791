"""Publishes what is queued for MQTT, most urgent first and else in order, and keeps the receipts (R5).

In: pending messages of the ledger. Out: messages at the broker, and how each ended. A message is on disk before it is sent, so
the first second of an outage is as complete as the last. It is sent at least once: what the broker may have already, it gets
with ``"may_be_repeat": true``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator

from appliance.contracts.clock import Clock
from appliance.contracts.delivery import Channel, Delivery
from appliance.contracts.errors import Refused, Unavailable
from appliance.contracts.ports import Broker
from appliance.contracts.store import Ledger
from appliance.delivery.json_body import json_body
from appliance.delivery.ledger_failures import LedgerFailures
from appliance.delivery.outbox import Outbox
from appliance.foundation.backoff import delays_s

log = logging.getLogger(__name__)


def broker_waits() -> Iterator[float]:
    """Yield the pauses while the broker takes nothing: 0.5 s doubling to 30 s, as each try costs two writes to the card."""
    return delays_s(0.5, 30.0)


class Publisher(Outbox):
    """Service that publishes the ledger's messages. Without a broker they stay pending, and no try is counted."""

    def __init__(
        self,
        ledger: Ledger,
        clock: Clock,
        broker: Broker,
        *,
        waits: Callable[[], Iterator[float]] = broker_waits,
        failures: LedgerFailures | None = None,
    ) -> None:
        super().__init__(ledger, clock, Channel.MQTT, waits, failures=failures)
        self._broker = broker

    async def _until_ready(self) -> None:
        await self._broker.wait_connected()

    async def _deliver(self, delivery: Delivery) -> bool:
        payload = json_body(delivery)
        try:
            await self._broker.publish(delivery.topic, payload, retain=delivery.retain)
        except Unavailable as error:
            may_have_arrived = bool(error.facts.get("may_have_arrived"))
            await self._give_back(delivery, error.message, may_have_been_heard=may_have_arrived)
            return False
        except Refused as error:
            await self._fail(delivery, error.message)
            return True
        await self._finish(delivery)
        log.debug("delivery.delivered", extra={"delivery": delivery.id, "topic": delivery.topic})
        return True
