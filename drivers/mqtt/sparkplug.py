"""One Sparkplug B edge node as a host sees it: births, data, deaths, and when to ask it to tell everything again.

In: its messages. Out: readings of published tags, which of them are not true any more, and requests for a rebirth. Pure apart
from the clock: whoever owns it calls :meth:`EdgeNode.overdue` once :attr:`EdgeNode.due_mono_ns` has come.
Sections are those of the Sparkplug specification 3.0.0.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from appliance.contracts.clock import Clock
from appliance.contracts.errors import Malformed
from appliance.contracts.reading import Reading
from appliance.contracts.tag import Tag
from appliance.contracts.topic_mapping import SPARKPLUG_NAMESPACE
from drivers.mqtt.sequence import InOrder
from drivers.mqtt.sparkplug_payload import BD_SEQ, Metric, SparkplugPayload, read_payload, rebirth_request, typed
from drivers.mqtt.taken import NOTHING, Outgoing, Taken, to_reading
from drivers.mqtt.topics import IncomingMessage

log = logging.getLogger(__name__)

REORDER_S = 2.0  # a message that is missing for this long is lost
REBIRTH_EVERY_S = 10.0  # an edge node that does not answer with a birth is asked again after this

_GONE = "the gateway {node} says that it is gone"
_DEVICE_GONE = "the gateway {node} says that {device} is gone"


class _Kind(StrEnum):
    """Message types that an edge node sends (section 4.1.2)."""

    NBIRTH = "NBIRTH"
    NDATA = "NDATA"
    NDEATH = "NDEATH"
    DBIRTH = "DBIRTH"
    DDATA = "DDATA"
    DDEATH = "DDEATH"


class _Told(NamedTuple):
    kind: _Kind
    device: str
    payload: SparkplugPayload
    topic: str


class _Known(NamedTuple):
    """A metric as a birth declared it."""

    path: str
    datatype: int


class EdgeNode:
    """State of one edge node. ``tags``: metric (``device/metric`` for a device's) -> tag."""

    def __init__(self, group: str, node: str, tags: Mapping[str, Tag], clock: Clock) -> None:
        self._name = f"{group}/{node}"
        self._command_topic = f"{SPARKPLUG_NAMESPACE}/{group}/NCMD/{node}"
        self._tags = tags
        self._clock = clock
        self._bd_seq: int | None = None
        self._order: InOrder[_Told] | None = None  # None until a birth
        self._devices: set[str] = set()
        self._by_alias: dict[int, _Known] = {}
        self._by_path: dict[str, _Known] = {}
        self._asked_mono_ns: int | None = None
        self.due_mono_ns: int | None = None
        """When :meth:`overdue` wants to be called, None for never."""

    def take(self, message: IncomingMessage) -> Taken:
        """Return what a message comes to. What came too early waits for what is missing.

        Raises:
            Malformed: not a Sparkplug message, or one that the broker retained, which no node may ask for.
        """
        told = self._read(message)
        if told is None:
            return NOTHING
        if told.kind is _Kind.NBIRTH:
            return self._born(told)
        if told.kind is _Kind.NDEATH:
            return self._died(told)
        if self._order is None:
            return Taken(send=self._ask("data came before a birth"))
        if told.payload.seq is None:
            raise Malformed(f"message on {told.topic}: seq: is missing", topic=told.topic, member="seq")
        taken = _joined(self._apply(item) for item in self._order.offer(told.payload.seq, told))
        if self._order.is_full:
            return _joined([taken, self._give_up()])
        if not self._order.is_waiting:
            self.due_mono_ns = None
        elif self.due_mono_ns is None:
            self.due_mono_ns = self._clock.monotonic_ns() + int(REORDER_S * 1e9)
        return taken

    def connected(self) -> Taken:
        """Ask for a birth: what was said while we did not listen is not known."""
        self._asked_mono_ns = None
        return Taken(send=self._ask("connected to the broker"))

    def overdue(self) -> Taken:
        """Wait no longer, if it is time: take what came, and ask for a rebirth because something is lost."""
        is_due = self.due_mono_ns is not None and self._clock.monotonic_ns() >= self.due_mono_ns
        return self._give_up() if is_due else NOTHING

    def _read(self, message: IncomingMessage) -> _Told | None:
        levels = message.topic.split("/")
        if len(levels) not in (4, 5) or levels[2] not in set(_Kind):
            return None  # NCMD and DCMD are for the node, not from it
        kind, device = _Kind(levels[2]), levels[4] if len(levels) == 5 else ""
        if bool(device) != kind.startswith("D"):
            raise Malformed(f"message on {message.topic}: a {kind} is not sent there", topic=message.topic)
        if message.retained:
            raise Malformed(f"message on {message.topic}: retained, which Sparkplug forbids", topic=message.topic)
        return _Told(kind, device, read_payload(message.topic, message.payload), message.topic)

    def _born(self, told: _Told) -> Taken:
        if told.payload.seq is None:
            raise Malformed(f"message on {told.topic}: seq: is missing", topic=told.topic, member="seq")
        bd_seq = _bd_seq(told.payload)
        is_new = self._order is None or bd_seq != self._bd_seq
        # A new session of the node knows nothing of its devices until each is born again (section 5.6).
        lost = self._keys_of(None, "born again, without its devices yet") if is_new else {}
        self._bd_seq = bd_seq
        self._order = InOrder(told.payload.seq + 1)
        self._devices.clear()
        self._by_alias.clear()
        self._by_path.clear()
        self._asked_mono_ns = self.due_mono_ns = None
        taken = self._apply(told)
        return Taken(readings=taken.readings, lost=lost, send=taken.send)

    def _died(self, told: _Told) -> Taken:
        bd_seq = _bd_seq(told.payload)
        if self._order is None or (None not in (bd_seq, self._bd_seq) and bd_seq != self._bd_seq):
            log.info("sparkplug.stale_death", extra={"node": self._name, "bd_seq": bd_seq, "current": self._bd_seq})
            return NOTHING  # the will of a session that was replaced meanwhile (section 5.4)
        self._order, self.due_mono_ns = None, None
        self._devices.clear()
        return Taken(lost=self._keys_of(None, _GONE.format(node=self._name)))

    def _apply(self, told: _Told) -> Taken:
        """Take a message whose turn it is."""
        if told.kind is _Kind.DDEATH:
            self._devices.discard(told.device)
            return Taken(lost=self._keys_of(told.device, _DEVICE_GONE.format(node=self._name, device=told.device)))
        is_birth = told.kind in (_Kind.NBIRTH, _Kind.DBIRTH)
        if told.kind is _Kind.DBIRTH:
            self._devices.add(told.device)
        elif told.kind is _Kind.DDATA and told.device not in self._devices:
            return Taken(send=self._ask(f"data of {told.device} came before its birth"))
        readings, unknown = [], ""
        for metric in told.payload.metrics:
            known = self._declared(told.device, metric) if is_birth else self._known(told.device, metric)
            if known is None:
                unknown = metric.name or f"alias {metric.alias}"
            elif (tag := self._tags.get(known.path)) is not None and not metric.is_historical:
                readings.append(self._reading(tag, metric, known, told.topic))
        return Taken(readings=tuple(readings), send=self._ask(f"{unknown} is in no birth") if unknown else ())

    def _declared(self, device: str, metric: Metric) -> _Known:
        path = f"{device}/{metric.name}" if device else metric.name
        known = self._by_path[path] = _Known(path, metric.datatype)
        if metric.alias is not None:
            self._by_alias[metric.alias] = known
        return known

    def _known(self, device: str, metric: Metric) -> _Known | None:
        if metric.name:
            return self._by_path.get(f"{device}/{metric.name}" if device else metric.name)
        return None if metric.alias is None else self._by_alias.get(metric.alias)

    def _reading(self, tag: Tag, metric: Metric, known: _Known, topic: str) -> Reading:
        value, why = typed(metric.value, known.datatype or metric.datatype)
        why = why or metric.why
        where = f"{topic} {known.path}: {why}" if why else f"{topic} {known.path}"
        at: datetime = metric.at or self._clock.utc()
        return to_reading(tag, value, at, where=where, stale="the gateway calls it stale" if metric.is_stale else "")

    def _give_up(self) -> Taken:
        assert self._order is not None
        self.due_mono_ns = None
        taken = _joined([self._apply(item) for item in self._order.give_up()])
        return _joined([taken, Taken(send=self._ask("a message is missing"))])

    def _ask(self, why: str) -> tuple[Outgoing, ...]:
        """Ask for a rebirth, once, and again only if none came for a while."""
        now_ns = self._clock.monotonic_ns()
        if self._asked_mono_ns is not None and now_ns - self._asked_mono_ns < REBIRTH_EVERY_S * 1e9:
            return ()
        self._asked_mono_ns = now_ns
        log.info("sparkplug.rebirth_requested", extra={"node": self._name, "why": why})
        return (Outgoing(self._command_topic, rebirth_request(self._clock.utc())),)

    def _keys_of(self, device: str | None, why: str) -> dict[str, str]:
        """Return ``{tag key: why}`` of one device, or of the node with all of them."""
        return {tag.key: why for path, tag in self._tags.items() if device is None or path.startswith(f"{device}/")}


def _bd_seq(payload: SparkplugPayload) -> int | None:
    told = next((metric.value for metric in payload.metrics if metric.name == BD_SEQ), None)
    return int(told) if isinstance(told, int) else None


def _joined(parts: Iterator[Taken] | list[Taken]) -> Taken:
    """Return several results as one, in their order: a value may be lost and told again."""
    readings: list[Reading] = []
    lost: dict[str, str] = {}
    send: list[Outgoing] = []
    for part in parts:
        if part.lost:
            readings = [reading for reading in readings if reading.tag not in part.lost]
            lost |= part.lost
        readings += part.readings
        send += part.send
    return Taken(readings=tuple(readings), lost=lost, send=tuple(send))
