"""Publishes what is queued for MQTT, most urgent first and else in order, and keeps the receipts (R5).

In: pending messages of the ledger. Out: messages at the broker, and how each ended. A message is on disk before it is sent, so
the first second of an outage is as complete as the last. It is sent at least once: what the broker may have already, it gets
with ``"may_be_repeat": true``.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterator

from appliance.contracts.clock import Clock
from appliance.contracts.delivery import Channel, Delivery, DeliveryStatus
from appliance.contracts.errors import Refused, Unavailable
from appliance.contracts.ports import Broker
from appliance.contracts.store import Ledger
from appliance.delivery.record_keeping import record
from appliance.foundation.backoff import delays_s
from appliance.foundation.canonical import canonical_json
from appliance.store import deliveries

log = logging.getLogger(__name__)

MAY_BE_REPEAT = "may_be_repeat"
"""Member of the payload of what the broker may have got before."""


def broker_waits() -> Iterator[float]:
    """Yield the pauses while the broker takes nothing: 0.5 s doubling to 30 s, as each try costs two writes to the card."""
    return delays_s(0.5, 30.0)


class Publisher:
    """Service that publishes the ledger's messages. Without a broker they stay pending, and no try is counted."""

    def __init__(
        self, ledger: Ledger, clock: Clock, broker: Broker, *, waits: Callable[[], Iterator[float]] = broker_waits
    ) -> None:
        self._ledger = ledger
        self._clock = clock
        self._broker = broker
        self._waits = waits
        self._queued = asyncio.Event()
        self._closing = False
        self._quiet = asyncio.Event()
        self._quiet.set()

    def notify(self) -> None:
        """Tell that a message was committed. Cheap; call it after every commit that queued one, from the event loop."""
        self._queued.set()

    async def run(self) -> None:
        """Publish for ever. Cancellation leaves the message being sent to be repeated by the next run."""
        await record(self._ledger, lambda tx: deliveries.recover(tx, self._clock, Channel.MQTT), self._waits)
        waits = self._waits()
        while True:
            await self._broker.wait_connected()
            self._queued.clear()
            if self._closing:
                await asyncio.Event().wait()
            delivery = await record(self._ledger, lambda tx: deliveries.begin_next(tx, self._clock, Channel.MQTT), self._waits)
            if delivery is None:
                await self._queued.wait()
            elif await self._attempt(delivery):
                waits = self._waits()
            else:
                await asyncio.sleep(next(waits))

    async def finish(self, limit_s: float) -> None:
        """Begin no further message, and wait at most ``limit_s`` for the one being sent. The rest is sent after a restart."""
        self._closing = True
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(limit_s):
                await self._quiet.wait()

    async def _attempt(self, delivery: Delivery) -> bool:
        """Send one message and record what came of it; return False when the broker takes nothing now."""
        self._quiet.clear()
        try:
            return await self._send(delivery)
        finally:
            self._quiet.set()

    async def _send(self, delivery: Delivery) -> bool:
        repeat = {MAY_BE_REPEAT: True} if delivery.may_be_repeat else {}
        payload = canonical_json({**(delivery.payload or {}), **repeat}).encode()
        try:
            await self._broker.publish(delivery.topic, payload, retain=delivery.retain)
        except Unavailable as error:
            await self._give_back(delivery, error)
            return False
        except Refused as error:
            why = error.message
            log.error("delivery.failed", extra={"delivery": delivery.id, "topic": delivery.topic, "why": why})
            await record(self._ledger, lambda tx: deliveries.fail(tx, self._clock, delivery.id, why=why), self._waits)
            return True
        await record(self._ledger, lambda tx: deliveries.finish(tx, self._clock, delivery.id), self._waits)
        log.debug("delivery.delivered", extra={"delivery": delivery.id, "topic": delivery.topic})
        return True

    async def _give_back(self, delivery: Delivery, error: Unavailable) -> None:
        arrived, why = bool(error.facts.get("may_have_arrived")), error.message
        ended = await record(
            self._ledger,
            lambda tx: deliveries.give_back(tx, self._clock, delivery.id, may_have_been_heard=arrived, why=why),
            self._waits,
        )
        if ended.status is DeliveryStatus.ABANDONED:
            log.error("delivery.abandoned", extra={"delivery": delivery.id, "attempts": ended.attempts})
