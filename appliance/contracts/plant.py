"""The plant model: assets, tags and alarms, as ``config/plant.yaml`` declares them.

Frozen pydantic models, so that one declaration validates and documents. Names are the field's words.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, model_validator

from appliance.contracts.alarm_definition import AlarmDefinition, Condition, ConditionKind
from appliance.contracts.errors import Malformed
from appliance.contracts.link import Addressing, Link, to_wire_address
from appliance.contracts.tag import MQTT_LINK, DataType, RegisterKind, Tag
from appliance.contracts.topic_mapping import TopicMapping


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Asset(_Frozen):
    """A machine. ``id`` like ``motor_3``; ``area`` like ``line_3``."""

    id: str
    area: str
    spoken: dict[str, list[str]]


class EventRing(_Frozen):
    """The PLC's event log: a ring in holding registers.

    ``address`` holds the running count of events written (uint16); from ``address + 1`` on follow ``entries``
    slots of four registers each: sequence, code, value (int16, tenths), seconds since PLC start.
    ``codes`` maps a code to its text per language.
    """

    link: str
    device_id: int
    address: int
    entries: int = Field(ge=1, le=100)
    codes: dict[int, dict[str, str]]


class PollGroup(_Frozen):
    """Tags that are read together, every ``every_s`` seconds."""

    name: str
    every_s: float = Field(ge=0.02, le=3_600)


class Plant(_Frozen):
    """Everything the appliance knows about its line."""

    site: str
    links: list[Link]
    assets: list[Asset]
    tags: list[Tag]
    alarms: list[AlarmDefinition]
    poll_groups: list[PollGroup] = Field(default_factory=list)
    topics: list[TopicMapping] = Field(default_factory=list, description="what gateways publish, where it is not our own format")
    event_log: EventRing | None = None

    @model_validator(mode="before")
    @classmethod
    def _addresses_to_wire(cls, told: Any) -> Any:
        """Turn addresses into wire addresses where the tag's device declares another notation."""
        if not isinstance(told, dict):
            return told
        notations = dict(_notations(told.get("links")))
        tags = told.get("tags")
        return told | {"tags": [_on_the_wire(tag, notations) for tag in tags]} if notations and isinstance(tags, list) else told

    @model_validator(mode="after")
    def _references_resolve(self) -> Plant:
        faults = [*self._tag_faults(), *self._alarm_faults(), *self._topic_faults()]
        if MQTT_LINK in {link.id for link in self.links}:
            faults.append(f"links: {MQTT_LINK} is the name for published tags; choose another")
        if self.event_log and self.event_log.link not in {link.id for link in self.links}:
            faults.append(f"event_log: unknown link {self.event_log.link}")
        if faults:
            raise ValueError("; ".join(faults))
        return self

    def _tag_faults(self) -> Iterator[str]:
        assets, links = {a.id for a in self.assets}, {link.id for link in self.links} | {MQTT_LINK}
        groups = {group.name for group in self.poll_groups}
        for tag in self.tags:
            if tag.asset not in assets:
                yield f"tag {tag.key}: unknown asset {tag.asset}"
            if tag.link not in links:
                yield f"tag {tag.key}: unknown link {tag.link}"
            if tag.poll is not None and tag.poll not in groups:
                yield f"tag {tag.key}: unknown poll group {tag.poll}"
            yield from self._unreadable(tag)
        yield from (f"tag {key}: declared twice" for key in _repeated(tag.key for tag in self.tags))
        yield from (f"link {name}: declared twice" for name in _repeated(link.id for link in self.links))
        yield from (f"poll group {name}: declared twice" for name in _repeated(group.name for group in self.poll_groups))

    def _unreadable(self, tag: Tag) -> Iterator[str]:
        """A value travels whole: its device must give all of it in one answer."""
        link = next((link for link in self.links if link.id == tag.link), None)
        device = link.device(tag.device_id) if link else None
        if device is None:
            return
        last = tag.address + tag.register_count - 1
        if any(each.kind == tag.kind and each.first <= last and tag.address <= each.last for each in device.forbidden):
            yield f"tag {tag.key}: lies in a forbidden range of device {device.id}"
        if tag.register_count > device.most_registers:
            yield f"tag {tag.key}: spans more registers than device {device.id} gives in one answer"

    def _alarm_faults(self) -> Iterator[str]:
        assets, links, tags = {a.id for a in self.assets}, {link.id for link in self.links}, {t.key: t for t in self.tags}
        for alarm in self.alarms:
            if alarm.asset not in assets:
                yield f"alarm {alarm.id}: unknown asset {alarm.asset}"
            if alarm.tag and alarm.tag not in tags:
                yield f"alarm {alarm.id}: unknown tag {alarm.tag}"
            if alarm.condition and alarm.condition.link and alarm.condition.link not in links:
                yield f"alarm {alarm.id}: unknown link {alarm.condition.link}"
            for key in alarm.watched_tags:
                if key not in tags:
                    yield f"alarm {alarm.id}: unknown tag {key}"
                elif tags[key].poll is None and tags[key].link != MQTT_LINK:
                    yield f"alarm {alarm.id}: tag {key} is not polled; give it a poll group"
            if alarm.condition and alarm.condition.tag in tags and (why := _unjudgeable(alarm.condition, tags)):
                yield f"alarm {alarm.id}: {why}"
        yield from (f"alarm {name}: declared twice" for name in _repeated(alarm.id for alarm in self.alarms))
        yield from (
            f"source_id {name}: used by two alarms" for name in _repeated(a.source_id for a in self.alarms if a.source_id)
        )

    def _topic_faults(self) -> Iterator[str]:
        published = {tag.key for tag in self.tags if tag.link == MQTT_LINK}
        named = [key for mapping in self.topics for key in mapping.values.values()]
        yield from (f"topics: {key} is not a published tag" for key in sorted(set(named) - published))
        yield from (f"tag {key}: no topic publishes it" for key in sorted(published - set(named)))
        yield from (f"topics: {key} is published twice" for key in _repeated(named))
        yield from (f"topics: {topic} is declared twice" for topic in _repeated(mapping.topic for mapping in self.topics))

    @cached_property
    def tag_by_key(self) -> dict[str, Tag]:
        """``asset.name`` -> Tag."""
        return {t.key: t for t in self.tags}

    @cached_property
    def asset_by_id(self) -> dict[str, Asset]:
        """Asset id -> Asset."""
        return {a.id: a for a in self.assets}

    @cached_property
    def alarm_by_id(self) -> dict[str, AlarmDefinition]:
        """Alarm id -> AlarmDefinition."""
        return {a.id: a for a in self.alarms}

    @cached_property
    def alarm_by_source_id(self) -> dict[str, AlarmDefinition]:
        """The gateway's alarm name -> AlarmDefinition."""
        return {a.source_id: a for a in self.alarms if a.source_id}

    @cached_property
    def link_by_id(self) -> dict[str, Link]:
        """Link id -> Link."""
        return {link.id: link for link in self.links}


def _notations(links: Any) -> Iterator[tuple[tuple[Any, Any], Addressing]]:
    """Yield (link, device) and the notation of each device that declares a known one; the rest is the models' to complain of."""
    for link in links if isinstance(links, list) else ():
        for device in link.get("devices") or () if isinstance(link, dict) else ():
            if isinstance(device, dict) and device.get("addressing") in list(Addressing):
                yield (link.get("id"), device.get("id")), Addressing(device["addressing"])


def _on_the_wire(told: Any, notations: Mapping[tuple[Any, Any], Addressing]) -> Any:
    """Return a declared tag with its wire address; what is not understood is left to its own validation."""
    if not isinstance(told, dict):
        return told
    notation = notations.get((told.get("link"), told.get("device_id")))
    if notation is None or not isinstance(told.get("address"), int) or told.get("kind") not in list(RegisterKind):
        return told
    try:
        return told | {"address": to_wire_address(told["address"], RegisterKind(told["kind"]), notation)}
    except Malformed as error:
        raise ValueError(f"tag {told.get('name')}: {error.message}") from error


def _unjudgeable(condition: Condition, tags: Mapping[str, Tag]) -> str:
    """Return why a condition cannot be judged by the values of its tag, or an empty text."""
    tag, kind = tags[condition.tag or ""], condition.kind
    if kind is ConditionKind.BIT:
        return "" if tag.type is DataType.BOOL else f"condition bit needs a bool, {tag.key} is {tag.type}"
    is_number = tag.type not in (DataType.BOOL, DataType.STRING) and not (tag.names or tag.flags)
    return "" if is_number or kind is ConditionKind.BAD_VALUE else f"condition {kind} needs a number, which {tag.key} is not"


def _repeated(names: Iterable[str]) -> list[str]:
    return sorted(name for name, count in Counter(names).items() if count > 1)
