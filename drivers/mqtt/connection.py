"""One connection to the broker, used once. The only file that knows paho.

paho runs on the event loop here: its socket is watched by the loop and its timers are driven by :meth:`Connection.serve`. There
is no network thread, so nothing can die unseen, and a loop that hangs is seen by the broker, because no ping is sent.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, cast

from paho.mqtt.client import Client, ConnectFlags, DisconnectFlags, MQTTMessage, MQTTMessageInfo
from paho.mqtt.enums import CallbackAPIVersion, MQTTErrorCode, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode
from paho.mqtt.subscribeoptions import SubscribeOptions

from appliance.contracts.clock import Clock
from appliance.contracts.errors import Refused, Unavailable
from drivers.mqtt.settings import MqttSettings
from drivers.mqtt.topics import IncomingMessage

T = TypeVar("T")

log = logging.getLogger(__name__)

Receive = Callable[["Connection", int, IncomingMessage], None]

_TIMERS_EVERY_S = 1.0  # paho: loop_misc wants to be called about once a second
_ONLINE, _OFFLINE = b"online", b"offline"
# MQTT 5.0, section 3.4.2.1: answers to a PUBLISH that the same PUBLISH would get again.
_REFUSED_FOR_GOOD = (0x87, 0x90, 0x99)
_SESSION_TAKEN_OVER = 0x8E  # MQTT 5.0, section 3.14.2.1


class _ClosedOnFailure(ssl.SSLSocket):
    """A TLS socket that does not stay open after a failed handshake; paho forgets it then."""

    def do_handshake(self, block: bool = False) -> None:
        try:
            super().do_handshake(block)
        except OSError:
            self.close()
            raise


class Connection:
    """Opens, subscribes, receives, acknowledges, publishes, closes. All methods run on the event loop.

    ``receive`` is called for each message in order, with the number by which :meth:`acknowledge` knows it; it must not raise.
    Nothing is acknowledged by itself.
    """

    def __init__(self, settings: MqttSettings, clock: Clock, receive: Receive, topics: Mapping[str, int] | None = None) -> None:
        """``topics`` (filter -> QoS) are subscribed to beside those of the settings; their retained messages come at each
        connect, and what we publish there ourselves does not come."""
        self._settings = settings
        self._topics = topics or {}
        self._clock = clock
        self._receive = receive
        self._where = f"{settings.host}:{settings.port}"
        self._loop = asyncio.get_running_loop()
        self._welcome: asyncio.Future[ReasonCode] = self._loop.create_future()
        self._granted: dict[int, asyncio.Future[list[ReasonCode]]] = {}
        self._published: dict[int, asyncio.Future[ReasonCode]] = {}
        self._ended: asyncio.Future[str] = self._loop.create_future()
        self._is_paused = False
        self._client = self._new_client()

    @property
    def is_live(self) -> bool:
        """Whether the broker has welcomed us and the connection has not ended."""
        return self._welcome.done() and not self._ended.done()

    async def open(self) -> None:
        """Connect with the persistent session and subscribe.

        Raises:
            Unavailable: the broker cannot be reached, or refuses; the message says which.
        """
        self._identify()
        try:
            await self._dial()
            reason = await self._or_end(self._welcome, self._settings.connect_timeout_s)
            if reason.is_failure:
                raise Unavailable(f"the broker at {self._where} refuses: {reason}")
            await self._subscribe()
        except (OSError, TimeoutError) as error:  # ssl.SSLError is an OSError
            if self._ended.done():
                raise Unavailable(self._ended.result()) from error
            detail = f": {error.reason}" if isinstance(error, ssl.SSLError) else ""
            raise Unavailable(self._unreachable() + detail) from error

    async def announce(self) -> None:
        """Say on the state topic that we are there; the will says when we are not. Raises as :meth:`publish`."""
        await self.publish(self._settings.state_topic, _ONLINE, qos=1, retain=True)

    async def serve(self) -> str:
        """Drive timers until the connection ends; return why it did, in the words of :meth:`open` where it is the same."""
        while not self._ended.done():
            self._client.loop_misc()
            await asyncio.wait({self._ended}, timeout=_TIMERS_EVERY_S)
        return self._ended.result()

    def pause_reading(self) -> None:
        """Leave what comes in the socket, so that the broker has to wait."""
        sock = self._socket()
        if sock is not None and self.is_live and not self._is_paused:
            self._is_paused = True
            self._loop.remove_reader(sock)

    def resume_reading(self) -> None:
        """Go on reading after :meth:`pause_reading`."""
        sock = self._socket()
        if sock is not None and self.is_live and self._is_paused:
            self._is_paused = False
            self._loop.add_reader(sock, self._readable)
            self._loop.call_soon(self._readable)  # TLS may hold bytes that the loop cannot see waiting

    def acknowledge(self, number: int, qos: int) -> None:
        """Tell the broker that the message is durable here. Without effect on an ended connection."""
        if self.is_live:
            self._client.ack(number, qos)

    async def publish(self, topic: str, payload: bytes, qos: int, retain: bool) -> None:
        """Return once the broker has acknowledged (QoS 1) or the bytes are handed over (QoS 0).

        Raises:
            Unavailable: not sent, or, with the fact ``may_have_arrived``, not acknowledged within the bound.
            Refused: the broker will never take it.
        """
        info = self.send(topic, payload, qos, retain)
        if qos == 0:
            return
        acknowledged: asyncio.Future[ReasonCode] = self._loop.create_future()
        self._published[info.mid] = acknowledged
        try:
            reason = await self._or_end(acknowledged, self._settings.publish_timeout_s)
        except (ConnectionError, TimeoutError) as error:
            raise Unavailable("the broker did not acknowledge in time", may_have_arrived=True) from error
        finally:
            self._published.pop(info.mid, None)
        if reason.is_failure:
            error_type = Refused if reason.value in _REFUSED_FOR_GOOD else Unavailable
            raise error_type(f"the broker refuses a message on {topic}: {reason}")

    def send(self, topic: str, payload: bytes, qos: int = 0, retain: bool = False) -> MQTTMessageInfo:
        """Hand the bytes over without waiting for anything.

        Raises:
            Unavailable: not connected.
        """
        info = self._client.publish(topic, payload, qos=qos, retain=retain)
        if info.rc != MQTTErrorCode.MQTT_ERR_SUCCESS:
            raise Unavailable(f"not sent: {info.rc.name}")
        return info

    def end(self, why: str) -> None:
        """Drop the connection without a goodbye: the broker publishes our will and keeps what is not acknowledged."""
        if not self._ended.done():
            self._ended.set_result(why)
        client = self._client
        sock = self._socket()
        client.on_socket_close = client.on_socket_register_write = client.on_socket_unregister_write = None
        if sock is not None:
            self._unwatch(sock)
            sock.close()

    def close(self) -> None:
        """Say goodbye, leaving the will to be published, and close."""
        if self.is_live:
            self._client.disconnect(ReasonCode(PacketTypes.DISCONNECT, "Disconnect with will message"))
            self._client.loop_write()
        self.end("closed")

    def _new_client(self) -> Client:
        settings = self._settings
        client = Client(
            CallbackAPIVersion.VERSION2,
            client_id=settings.client_id,
            protocol=MQTTProtocolVersion.MQTTv5,
            reconnect_on_failure=False,
            manual_ack=True,
        )
        client.connect_timeout = settings.connect_timeout_s
        client.will_set(settings.state_topic, _OFFLINE, qos=1, retain=True)
        client.on_connect = self._note_welcome
        client.on_disconnect = self._note_end
        client.on_subscribe = self._note_granted
        client.on_publish = self._note_published
        client.on_message = self._note_message
        return client

    def _identify(self) -> None:
        """Read who we are and whom we trust, anew for each connection: files may have been put right."""
        settings = self._settings
        try:
            if settings.username:
                self._client.username_pw_set(settings.username, _password(settings))
            if settings.tls is not None:
                context = ssl.create_default_context(cafile=settings.tls.ca)
                context.sslsocket_class = _ClosedOnFailure
                if settings.tls.cert is not None:
                    context.load_cert_chain(settings.tls.cert, settings.tls.key)
                self._client.tls_set_context(context)
        except (OSError, UnicodeDecodeError) as error:  # ssl.SSLError is an OSError
            file = getattr(error, "filename", None) or "a password or certificate file"
            raise Unavailable(f"{file} for the broker at {self._where} cannot be used: {error}") from error

    async def _dial(self) -> None:
        """Connect in a thread (paho resolves, connects and shakes hands blocking), then let the loop watch the socket."""
        properties = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
        properties.SessionExpiryInterval = self._settings.session_expiry_s
        properties.ReceiveMaximum = self._settings.receive_maximum
        dialling = asyncio.ensure_future(
            asyncio.to_thread(
                self._client.connect,
                self._settings.host,
                self._settings.port,
                self._settings.keepalive_s,
                clean_start=False,
                properties=properties,
            )
        )
        try:
            await asyncio.shield(dialling)
        except asyncio.CancelledError:
            dialling.add_done_callback(self._hang_up)
            raise
        sock = self._socket()
        if sock is None:
            raise ConnectionResetError("closed while connecting")
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._client.on_socket_close = lambda _client, _data, closing: self._unwatch(closing)
        self._client.on_socket_register_write = lambda _client, _data, open_: self._loop.add_writer(open_, self._writable)
        self._client.on_socket_unregister_write = self._note_nothing_to_write
        self._loop.add_reader(sock, self._readable)
        if self._client.want_write():
            self._loop.add_writer(sock, self._writable)

    def _hang_up(self, dialled: asyncio.Future[Any]) -> None:
        if not dialled.cancelled() and dialled.exception() is None:
            self.end("cancelled while connecting")

    async def _subscribe(self) -> None:
        # Retained alarms and commands come with a new subscription only, not again at every reconnect; retained values come each
        # time, because they are what is true now (MQTT 5.0, section 3.8.3.1).
        once = SubscribeOptions(qos=1, retainHandling=SubscribeOptions.RETAIN_SEND_IF_NEW_SUB)
        # A command published to be retained is told from a live one even when a bridge passes it on (section 3.3.1.3).
        as_published = SubscribeOptions(qos=1, retainAsPublished=True, retainHandling=SubscribeOptions.RETAIN_SEND_IF_NEW_SUB)
        settings = self._settings
        wanted = [(topic, once) for topic in settings.alarm_topics]
        for topic, qos in self._topics.items():
            each = SubscribeOptions(qos=qos, noLocal=True, retainHandling=SubscribeOptions.RETAIN_SEND_ON_SUBSCRIBE)
            wanted.append((topic, each))
        if settings.command_prefix is not None:
            wanted.append((f"{settings.command_prefix}/#", as_published))
        if not wanted:
            return
        _, mid = self._client.subscribe(wanted)
        granted: asyncio.Future[list[ReasonCode]] = self._loop.create_future()
        if mid is None:
            raise ConnectionResetError("lost while subscribing")
        self._granted[mid] = granted
        reasons = await self._or_end(granted, self._settings.connect_timeout_s)
        for (topic, _), reason in zip(wanted, reasons, strict=True):
            if reason.is_failure:
                raise Unavailable(f"the broker refuses the subscription to {topic}: {reason}")

    async def _or_end(self, wanted: asyncio.Future[T], within_s: float) -> T:
        """Return what the broker answers. While reading is paused its answer may be waiting behind messages: time does not count.

        Raises:
            TimeoutError: no answer.
            ConnectionResetError: the connection ended instead.
        """
        watched: set[asyncio.Future[Any]] = {wanted, self._ended}
        while True:
            await asyncio.wait(watched, timeout=within_s, return_when=asyncio.FIRST_COMPLETED)
            if wanted.done():
                return wanted.result()
            if self._ended.done():
                raise ConnectionResetError(self._ended.result())
            if not self._is_paused:
                raise TimeoutError
            self._client.loop_misc()

    def _readable(self) -> None:
        if self._is_paused or self._ended.done():
            return
        was_read = False
        try:
            self._client.loop_read()
            while not self._is_paused and isinstance(sock := self._socket(), ssl.SSLSocket) and sock.pending():
                self._client.loop_read()  # decrypted bytes that the loop cannot see waiting
            was_read = True
        finally:
            if not was_read:  # paho raised: the loop reports it, the connection is not to be trusted any more
                self.end("the broker sent something that cannot be read")

    def _writable(self) -> None:
        was_written = False
        try:
            self._client.loop_write()
            was_written = True
        finally:
            if not was_written:
                self.end("writing failed")

    def _socket(self) -> socket.socket | None:
        return cast("socket.socket | None", self._client.socket())  # paho types it by the few methods it uses itself

    def _note_nothing_to_write(self, _client: Client, _data: Any, sock: Any) -> None:
        self._loop.remove_writer(sock)

    def _unwatch(self, sock: Any) -> None:
        if sock.fileno() >= 0:
            self._loop.remove_reader(sock)
            self._loop.remove_writer(sock)

    def _note_welcome(self, _client: Client, _data: Any, _flags: ConnectFlags, reason: ReasonCode, _properties: Any) -> None:
        if not self._welcome.done():
            self._welcome.set_result(reason)

    def _note_end(self, _client: Client, _data: Any, flags: DisconnectFlags, reason: ReasonCode, _properties: Any) -> None:
        if not self._ended.done():
            log.info("mqtt.disconnected", extra={"reason": str(reason), "by_broker": flags.is_disconnect_packet_from_server})
            is_rival = flags.is_disconnect_packet_from_server and reason.value == _SESSION_TAKEN_OVER
            rival = f"another client uses the session {self._settings.client_id} at the broker at {self._where}"
            self._ended.set_result(rival if is_rival else self._unreachable())

    def _unreachable(self) -> str:
        return f"the broker at {self._where} cannot be reached"

    def _note_granted(self, _client: Client, _data: Any, mid: int, reasons: list[ReasonCode], _properties: Any) -> None:
        granted = self._granted.pop(mid, None)
        if granted is not None and not granted.done():
            granted.set_result(reasons)

    def _note_message(self, _client: Client, _data: Any, arrived: MQTTMessage) -> None:
        try:
            topic = arrived.topic
        except UnicodeDecodeError:
            topic = ""
        message = IncomingMessage(
            topic=topic,
            payload=bytes(arrived.payload),
            qos=arrived.qos,
            retained=arrived.retain,
            duplicate=arrived.dup,
            expiry_s=getattr(arrived.properties, "MessageExpiryInterval", None),
            arrived_mono_ns=self._clock.monotonic_ns(),
        )
        self._receive(self, arrived.mid, message)

    def _note_published(self, _client: Client, _data: Any, mid: int, reason: ReasonCode, _properties: Any) -> None:
        acknowledged = self._published.get(mid)
        if acknowledged is not None and not acknowledged.done():
            acknowledged.set_result(reason)


def _password(settings: MqttSettings) -> str | None:
    if settings.password_file is not None:
        return settings.password_file.read_text(encoding="utf-8").strip()
    return settings.password.get_secret_value() if settings.password is not None else None
