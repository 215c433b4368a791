"""A plain MQTT client that publishes alarms as a gateway does, and one that listens."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import paho.mqtt.client as mqtt
from paho.mqtt.enums import CallbackAPIVersion

from bench.running_core import GATEWAY, PASSWORDS

TOPIC = "plant/bench/alarms"
_CONNECTED_WITHIN_S = 10.0


class PlainClient:
    """One connection, on a network thread of its own."""

    def __init__(self, port: int, user: str) -> None:
        self.acked = 0
        self._connected = threading.Event()
        self._client = mqtt.Client(CallbackAPIVersion.VERSION2, protocol=mqtt.MQTTv5)
        self._client.username_pw_set(user, PASSWORDS[user])
        self._client.max_inflight_messages_set(20)
        self._client.on_publish = self._published
        self._client.on_connect = lambda *_: self._connected.set()
        self._client.connect("127.0.0.1", port)
        self._client.loop_start()
        if not self._connected.wait(_CONNECTED_WITHIN_S):
            raise ConnectionError("the broker does not answer")

    def close(self) -> None:
        """Say goodbye and end the thread."""
        self._client.disconnect()
        self._client.loop_stop()

    def publish(self, payload: bytes) -> None:
        """Hand a message over; :attr:`acked` counts those the broker has acknowledged."""
        self._client.publish(TOPIC, payload, qos=1)

    def listen(self, topic: str, on_message: Callable[[bytes, int], None]) -> None:
        """Call ``on_message(payload, arrived_mono_ns)`` on the network thread; returns when the broker has granted it."""
        granted = threading.Event()
        self._client.on_message = lambda _, __, message: on_message(bytes(message.payload), time.monotonic_ns())
        self._client.on_subscribe = lambda *_: granted.set()
        self._client.subscribe(topic, qos=1)
        if not granted.wait(_CONNECTED_WITHIN_S):
            raise ConnectionError(f"the broker does not grant {topic}")

    def _published(self, *_: object) -> None:
        self.acked += 1


@contextmanager
def plain_client(port: int, user: str = GATEWAY) -> Iterator[PlainClient]:
    """A connected client; it is closed afterwards."""
    client = PlainClient(port, user)
    try:
        yield client
    finally:
        client.close()


def alarm_message(alarm: int, activation: int, state: str) -> bytes:
    """Return one alarm event in the format the appliance takes."""
    told = {"source": "bench_gateway", "alarm": f"G.{alarm}", "activation": str(activation), "state": state, "value": 1.0}
    return json.dumps(told).encode()
