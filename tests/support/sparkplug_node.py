"""A Sparkplug B edge node as a process of its own: a plain paho client with a will, births, and an ear for rebirth requests.

``python -m tests.support.sparkplug_node PORT PASSWORD BD_SEQ``; reads orders from standard input, one a line: ``speed VALUE``
publishes, ``skip`` loses a message, ``gone`` says that the device is gone. Prints ``born N`` at each birth, also when it was
asked for one, and ``done ORDER``.
"""

from __future__ import annotations

import queue
import sys
import threading
import time

from paho.mqtt.client import Client
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion

from tests.support.sparkplug import BOOLEAN, DOUBLE, FLOAT, UINT64, metric, payload

GROUP, NODE, DEVICE = "works", "edge_1", "drive"


class Node:
    """The node and its one device."""

    def __init__(self, client: Client, bd_seq: int) -> None:
        self.client = client
        self.bd_seq = bd_seq
        self.seq = 0
        self.births = 0
        self.speed = 1450.0

    def bear(self) -> None:
        """Tell everything, from number 0 on."""
        self.births += 1
        self.seq = 0
        temperature = metric("Line/Temperature", 1, FLOAT, self.now_ms(), float=94.5)
        rebirth = metric("Node Control/Rebirth", datatype=BOOLEAN, bool=False)
        self.send("NBIRTH", metric("bdSeq", datatype=UINT64, long=self.bd_seq), rebirth, temperature)
        self.send("DBIRTH", metric("Speed", 21, DOUBLE, self.now_ms(), double=self.speed), device=DEVICE)
        say(f"born {self.births}")

    def obey(self, order: str, value: str) -> None:
        if order == "speed":
            self.speed = float(value)
            self.send("DDATA", metric(alias=21, at_ms=self.now_ms(), double=self.speed), device=DEVICE)
        elif order == "skip":
            self.seq = (self.seq + 1) % 256
        elif order == "gone":
            self.send("DDEATH", device=DEVICE)
        say(f"done {order}")

    def send(self, kind: str, *metrics: bytes, device: str = "") -> None:
        topic = f"spBv1.0/{GROUP}/{kind}/{NODE}" + (f"/{device}" if device else "")
        self.client.publish(topic, payload(*metrics, seq=self.seq, at_ms=self.now_ms()), qos=0).wait_for_publish(5)
        self.seq = (self.seq + 1) % 256

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> None:
    port, password, bd_seq = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    client = Client(CallbackAPIVersion.VERSION2, client_id="edge-node", protocol=MQTTProtocolVersion.MQTTv311)
    node = Node(client, bd_seq)
    client.username_pw_set("edge", password)
    client.will_set(f"spBv1.0/{GROUP}/NDEATH/{NODE}", payload(metric("bdSeq", datatype=UINT64, long=bd_seq)), qos=1)
    todo: queue.Queue[str] = queue.Queue()
    client.on_message = lambda *_: todo.put("born")
    client.on_subscribe = lambda *_: todo.put("born")
    client.connect("127.0.0.1", port)
    client.subscribe(f"spBv1.0/{GROUP}/NCMD/{NODE}", qos=1)
    client.loop_start()
    threading.Thread(target=lambda: [todo.put(line.strip()) for line in sys.stdin], daemon=True).start()
    while True:
        order, _, value = todo.get().partition(" ")
        if order == "born":
            node.bear()
        else:
            node.obey(order, value)


if __name__ == "__main__":
    main()
