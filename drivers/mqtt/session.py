"""The persistent MQTT session: what the broker sent is acknowledged only after it is durable here.

In: messages of the subscribed topics. Out: each handed to ``on_message``, one after the other, in the broker's order; and
publishes that return when the broker has them. Who calls: the listener runs it; delivery publishes through it.

Why QoS 1 and not QoS 2: with QoS 2 the promise "I have it" is the PUBREC, and paho sends that before it hands the message on, so
a process that dies in between has lost what it promised to keep. With QoS 1 the one acknowledgement is ours to send, after the
commit. The price is that a message may come twice; the key of an event (source, alarm, activation, change, sequence) makes it
harmless.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict, dataclass

from appliance.contracts.clock import Clock
from appliance.contracts.errors import Malformed, Refused, Unavailable
from appliance.foundation.backoff import delays_s
from appliance.foundation.supervisor import Degraded
from drivers.mqtt.connection import Connection
from drivers.mqtt.settings import MqttSettings
from drivers.mqtt.topics import IncomingMessage, ignored_command

log = logging.getLogger(__name__)

_PART, _INBOX_PART, _STATE_PART = "mqtt", "mqtt-inbox", "mqtt-state"
_UNHANDLED = "a message could not be handled"
_STEADY_S = 60.0  # a connection that lasted this long was a good one: the next pause is the first again

OnMessage = Callable[[IncomingMessage], Awaitable[None]]


@dataclass(slots=True)
class MessageCounts:
    """What became of messages since the start. ``dropped`` counts messages without delivery guarantee (QoS 0) that a lost
    connection took with it; with a guarantee none is ever dropped."""

    received: int = 0
    acknowledged: int = 0
    malformed: int = 0
    refused: int = 0
    ignored: int = 0
    failed: int = 0
    dropped: int = 0

    def as_facts(self) -> dict[str, int]:
        """Return the counts by name, for status."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class _Delivered:
    connection: Connection
    number: int
    message: IncomingMessage


class MqttSession:
    """One persistent session (MQTT 5, QoS 1, manual acknowledgement), reconnecting for ever.

    ``on_message`` returns when the message is durable; then it is acknowledged. Malformed and Refused are final: counted, logged,
    acknowledged, so that one bad message blocks nothing. Any other error leaves it unacknowledged: the connection is
    dropped and the broker sends it, and all after it, again in order. Unacknowledged messages are bounded by
    ``receive_maximum``: a slow handler slows the broker, not this process. ``degraded`` holds ``mqtt`` while there is no
    broker, ``mqtt-inbox`` while a message cannot be handled, and ``mqtt-state`` while the broker does not let us say that we are
    there. ``listeners`` are told why the connection was lost, and an empty text when there is one again.
    """

    def __init__(
        self,
        settings: MqttSettings,
        clock: Clock,
        degraded: Degraded,
        on_message: OnMessage,
        *,
        topics: Mapping[str, int] | None = None,
    ) -> None:
        """``topics`` (filter -> QoS) are subscribed to beside those of the settings; their retained messages come at each
        connect."""
        self.counts = MessageCounts()
        self.listeners: list[Callable[[str], None]] = []
        self._topics = topics
        self._settings = settings
        self._clock = clock
        self._degraded = degraded
        self._on_message = on_message
        # receive_maximum should bound it, but mosquitto 2.0.11 sends several times that: then reading stops, and TCP bounds it.
        self._inbox: asyncio.Queue[_Delivered] = asyncio.Queue()
        self._connection: Connection | None = None
        self._connected = asyncio.Event()

    @property
    def is_connected(self) -> bool:
        """Whether there is a live connection now."""
        return self._connection is not None and self._connection.is_live

    async def wait_connected(self) -> None:
        """Return as soon as there is a live connection."""
        await self._connected.wait()

    async def run(self) -> None:
        """Serve for ever. Ends only by cancellation, saying goodbye."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._handle_all(), name="mqtt inbox")
            tasks.create_task(self._stay_connected(), name="mqtt connection")

    async def publish(self, topic: str, payload: bytes, qos: int = 1, *, retain: bool = False) -> None:
        """Publish, and return when the broker has acknowledged (QoS 1). See ``contracts.ports.Broker``.

        Raises:
            Unavailable: not connected, or no acknowledgement in time; with the fact ``may_have_arrived`` it may have arrived, so
                sending again may repeat it.
            Refused: the broker will never take it.
        """
        await self._live().publish(topic, payload, qos, retain)

    def send(self, topic: str, payload: bytes) -> None:
        """Send without guarantee (QoS 0) and without waiting, so that it may be called while a message is being handled.

        Raises:
            Unavailable: not connected.
        """
        self._live().send(topic, payload)

    def _live(self) -> Connection:
        if self._connection is None or not self._connection.is_live:
            raise Unavailable("not connected to the broker", retry_after_s=self._settings.first_retry_s)
        return self._connection

    async def _stay_connected(self) -> None:
        waits = delays_s(self._settings.first_retry_s, self._settings.longest_retry_s)
        while True:
            connection = Connection(self._settings, self._clock, self._receive, self._topics)
            started_ns, acknowledged = self._clock.monotonic_ns(), self.counts.acknowledged
            try:
                await connection.open()
                self._connection = connection
                self._connected.set()
                log.info("mqtt.connected", extra={"host": self._settings.host, "port": self._settings.port})
                self._degraded.clear(_PART)
                self._tell("")
                await self._announce(connection)
                why = await connection.serve()
            except Unavailable as error:
                why = error.message
            finally:
                was_connected = self._connected.is_set()
                self._connected.clear()
                self._connection = None
                connection.close()
                self._forget_undelivered()
            if was_connected:
                self._tell(why)
            if why != _UNHANDLED:
                self._degraded.mark(_PART, why)
            lasted_s = (self._clock.monotonic_ns() - started_ns) / 1e9
            if lasted_s > _STEADY_S or self.counts.acknowledged > acknowledged:
                waits = delays_s(self._settings.first_retry_s, self._settings.longest_retry_s)
            await asyncio.sleep(next(waits))

    async def _announce(self, connection: Connection) -> None:
        """Say that we are there. A broker that forbids it is named, and listened to all the same."""
        try:
            await connection.announce()
        except Refused as error:
            self._degraded.mark(_STATE_PART, error.message)
        except Unavailable:
            if connection.is_live:  # it does not answer; else serving it tells why it ended
                raise
        else:
            self._degraded.clear(_STATE_PART)

    def _tell(self, why: str) -> None:
        for listener in self.listeners:
            listener(why)

    def _receive(self, connection: Connection, number: int, message: IncomingMessage) -> None:
        self.counts.received += 1
        self._inbox.put_nowait(_Delivered(connection, number, message))
        if self._inbox.qsize() >= self._settings.receive_maximum:
            connection.pause_reading()

    async def _handle_all(self) -> None:
        while True:
            delivered = await self._inbox.get()
            if self._inbox.qsize() <= self._settings.receive_maximum // 2:
                delivered.connection.resume_reading()
            if delivered.message.qos > 0 and not delivered.connection.is_live:
                continue  # it was not acknowledged, so the broker sends it again
            if not await self._is_handled(delivered.message):
                delivered.connection.end(_UNHANDLED)
            elif delivered.connection.is_live:
                delivered.connection.acknowledge(delivered.number, delivered.message.qos)
                self.counts.acknowledged += 1

    async def _is_handled(self, message: IncomingMessage) -> bool:
        """Hand the message on; return whether it is done with, well or for good reason."""
        if why := self._is_command(message.topic) and ignored_command(message, self._clock.monotonic_ns()):
            self.counts.ignored += 1
            log.warning("mqtt.command_ignored", extra={"topic": message.topic, "why": why})
            return True
        handling = asyncio.ensure_future(self._on_message(message))
        try:
            await asyncio.wait({handling})
        finally:
            handling.cancel()
            await asyncio.gather(handling, return_exceptions=True)
        error = asyncio.CancelledError() if handling.cancelled() else handling.exception()
        if isinstance(error, Malformed):
            self.counts.malformed += 1
            log.warning("mqtt.malformed", extra={"topic": message.topic, "why": error.message})
        elif isinstance(error, Refused):
            self.counts.refused += 1
            log.warning("mqtt.refused", extra={"topic": message.topic, "why": error.message})
        elif error is not None:
            self.counts.failed += 1
            log.error("mqtt.unhandled", extra={"topic": message.topic}, exc_info=error)
            self._degraded.mark(_INBOX_PART, f"messages cannot be handled: {type(error).__name__}")
            return False
        self._degraded.clear(_INBOX_PART)
        return True

    def _is_command(self, topic: str) -> bool:
        prefix = self._settings.command_prefix
        return prefix is not None and topic.startswith(f"{prefix}/")

    def _forget_undelivered(self) -> None:
        while not self._inbox.empty():
            delivered = self._inbox.get_nowait()
            self.counts.dropped += delivered.message.qos == 0
