"""What the subscribed topics mean: our own alarm format, and whatever the plant model's topic map declares.

In: messages. Out: alarm events, readings of published tags, and requests to send. Who calls: the listener.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING

from appliance.contracts.clock import Clock
from appliance.contracts.errors import AlarmUnreadable, Malformed
from appliance.contracts.plant import Plant
from appliance.contracts.topic_mapping import TopicFormat, TopicMapping
from drivers.mqtt.mappings import JsonTopic, PlainTopic
from drivers.mqtt.selectors import matches
from drivers.mqtt.taken import NOTHING, Taken
from drivers.mqtt.topics import IncomingMessage, parse_alarm

if TYPE_CHECKING:
    from drivers.mqtt.sparkplug import EdgeNode


class TopicMap:
    """Reads messages. ``alarm_topics`` are the filters of our own format; the plant's mappings go before them.

    ``overdue`` wants to be called when :attr:`due_mono_ns` has come, ``connected`` whenever the broker was reached.
    """

    def __init__(self, plant: Plant, clock: Clock, *, alarm_topics: Sequence[str]) -> None:
        self._plant = plant
        self._clock = clock
        self._alarm_topics = tuple(alarm_topics)
        self._mapped: list[tuple[str, JsonTopic | PlainTopic]] = []
        self._nodes: list[tuple[str, EdgeNode]] = []
        for mapping in plant.topics:
            if mapping.format is TopicFormat.SPARKPLUG_B:
                self._nodes.append((mapping.topic, _edge_node(mapping, plant, clock)))
            else:
                kind = JsonTopic if mapping.format is TopicFormat.JSON else PlainTopic
                self._mapped.append((mapping.topic, kind(mapping, plant)))

    @property
    def filters(self) -> dict[str, int]:
        """Topic filters of the plant's mappings, to be subscribed to beside the alarm topics, with the QoS they want.

        The broker keeps alarms for us while we are away. Values it does not: hours later they would look like new ones. What is
        true then, it has retained, or the next message says it.
        """
        is_kept = {mapping.topic: mapping.alarms or mapping.format is TopicFormat.SPARKPLUG_B for mapping in self._plant.topics}
        return {topic: 1 if kept else 0 for topic, kept in is_kept.items()}

    @property
    def due_mono_ns(self) -> int | None:
        """When :meth:`overdue` has something to do, None for never."""
        return min((node.due_mono_ns for _, node in self._nodes if node.due_mono_ns is not None), default=None)

    def take(self, message: IncomingMessage) -> Taken:
        """Return what a message comes to, and in ``faults`` what of it cannot be understood, by topic and member or selector.

        Raises:
            Malformed: it is of no topic that the plant model means, or a Sparkplug payload that is none.
        """
        for topic, node in self._nodes:
            if matches(topic, message.topic):
                return node.take(message)
        mapped = [reader for topic, reader in self._mapped if matches(topic, message.topic)]
        if mapped:
            return _together(_where_alarms_are([self._read(reader, message) for reader in mapped]))
        if any(matches(topic, message.topic) for topic in self._alarm_topics):
            try:
                return Taken(events=(parse_alarm(message, self._plant),))
            except Malformed as error:
                return Taken(faults=(error,))
        raise Malformed(f"message on {message.topic}: no topic of the plant model is meant", topic=message.topic)

    def _read(self, reader: JsonTopic | PlainTopic, message: IncomingMessage) -> Taken:
        """What one mapping makes of a message; what it cannot understand another may."""
        try:
            return reader.take(message, self._clock.utc())
        except Malformed as error:
            return Taken(faults=(error,))

    def connected(self) -> Taken:
        """Return the requests to make after connecting: edge nodes tell what they are only when asked."""
        return _together([node.connected() for _, node in self._nodes])

    def overdue(self) -> Taken:
        """Return what is to be done about messages that were waited for in vain."""
        return _together([node.overdue() for _, node in self._nodes]) if self._nodes else NOTHING


def _edge_node(mapping: TopicMapping, plant: Plant, clock: Clock) -> EdgeNode:
    sparkplug = importlib.import_module("drivers.mqtt.sparkplug")  # with it protobuf, which only such a plant needs
    _, group, _, node, _ = mapping.topic.split("/")
    made: EdgeNode = sparkplug.EdgeNode(group, node, {path: plant.tag_by_key[key] for path, key in mapping.values.items()}, clock)
    return made


def _where_alarms_are(parts: Sequence[Taken]) -> Sequence[Taken]:
    """Leave out what a mapping could not read of the alarms that another mapping read."""
    if not any(part.events for part in parts):
        return parts
    return [
        part
        if part.events
        else replace(part, faults=tuple(fault for fault in part.faults if not isinstance(fault, AlarmUnreadable)))
        for part in parts
    ]


def _together(parts: Sequence[Taken]) -> Taken:
    return Taken(
        events=tuple(chain.from_iterable(part.events for part in parts)),
        readings=tuple(chain.from_iterable(part.readings for part in parts)),
        lost={key: why for part in parts for key, why in part.lost.items()},
        send=tuple(chain.from_iterable(part.send for part in parts)),
        faults=tuple(chain.from_iterable(part.faults for part in parts)),
    )
