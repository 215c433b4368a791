"""The plant model: assets, tags and alarms, as ``config/plant.yaml`` declares them.

Frozen pydantic models, so that one declaration validates and documents. Names are the field's words.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import InitErrorDetails

from appliance.contracts.alarm_definition import AlarmDefinition, Condition, ConditionKind, Suppression
from appliance.contracts.errors import Malformed
from appliance.contracts.link import Addressing, Device, Link, LinkProtocol, read_written
from appliance.contracts.named_value import names_of
from appliance.contracts.tag import MQTT_LINK, DataType, RegisterKind, Tag, WireNumber
from appliance.contracts.topic_mapping import TopicMapping

_Name = TypeVar("_Name", bound=Hashable)
_Place = tuple[str | int, ...]
_Fault = tuple[_Place, str]  # where in the file, and what is wrong there

# Modbus over serial line 1.02, section 2.2.
_BROADCAST = "device 0 of a serial line is everybody (broadcast), and nobody answers it"
_SLOT_REGISTERS = 4


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
    device_id: WireNumber = Field(ge=0, le=255)
    address: WireNumber = Field(ge=0, le=65_535)
    entries: int = Field(ge=1, le=100)
    codes: dict[int, dict[str, str]]

    @property
    def register_count(self) -> int:
        """Registers of the ring with its counter."""
        return 1 + self.entries * _SLOT_REGISTERS


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
        faults = [
            *self._link_faults(), *self._tag_faults(), *self._alarm_faults(), *self._topic_faults(), *self._event_log_faults()
        ]  # fmt: skip
        if faults:
            raise ValidationError.from_exception_data("Plant", [_fault_at(place, why) for place, why in faults])
        return self

    def _link_faults(self) -> Iterator[_Fault]:
        for index, link in enumerate(self.links):
            if link.id == MQTT_LINK:
                yield ("links", index, "id"), f"links: {MQTT_LINK} is the name for published tags, choose another"
        for index, name in _repeated(link.id for link in self.links):
            yield ("links", index, "id"), f"link {name}: declared twice"

    def _tag_faults(self) -> Iterator[_Fault]:
        assets, links = {a.id for a in self.assets}, {link.id: link for link in self.links}
        groups = {group.name for group in self.poll_groups}
        for index, tag in enumerate(self.tags):
            at = ("tags", index)
            if tag.asset not in assets:
                yield (*at, "asset"), f"tag {tag.key}: unknown asset {tag.asset}"
            if tag.link not in links and tag.link != MQTT_LINK:
                yield (*at, "link"), f"tag {tag.key}: unknown link {tag.link}"
            if tag.poll is not None and tag.poll not in groups:
                yield (*at, "poll"), f"tag {tag.key}: unknown poll group {tag.poll}"
            if tag.link in links:
                yield from (((*at, key), f"tag {tag.key}: {why}") for key, why in _unreadable(tag, links[tag.link]))
        yield from ((("tags", at, "name"), f"tag {key}: declared twice") for at, key in _repeated(tag.key for tag in self.tags))
        for again, name in _repeated(group.name for group in self.poll_groups):
            yield ("poll_groups", again, "name"), f"poll group {name}: declared twice"
        for again, name in _repeated(asset.id for asset in self.assets):
            yield ("assets", again, "id"), f"asset {name}: declared twice"

    def _alarm_faults(self) -> Iterator[_Fault]:
        assets, links, tags = {a.id for a in self.assets}, {link.id for link in self.links}, {t.key: t for t in self.tags}
        for index, alarm in enumerate(self.alarms):
            at = ("alarms", index)
            if alarm.asset not in assets:
                yield (*at, "asset"), f"alarm {alarm.id}: unknown asset {alarm.asset}"
            if alarm.tag and alarm.tag not in tags:
                yield (*at, "tag"), f"alarm {alarm.id}: unknown tag {alarm.tag}"
            if alarm.condition and alarm.condition.link and alarm.condition.link not in links:
                yield (*at, "condition", "link"), f"alarm {alarm.id}: unknown link {alarm.condition.link}"
            for key in alarm.watched_tags:
                if key not in tags:
                    is_its_tag = alarm.condition is not None and alarm.condition.tag == key
                    place = (*at, "condition", "tag") if is_its_tag else (*at, "condition")
                    yield place, f"alarm {alarm.id}: unknown tag {key}"
                elif tags[key].poll is None and tags[key].link != MQTT_LINK:
                    yield (*at, "condition"), f"alarm {alarm.id}: tag {key} is not polled; give it a poll group"
            if alarm.condition and alarm.condition.tag in tags and (why := _unjudgeable(alarm.condition, tags)):
                yield (*at, "condition"), f"alarm {alarm.id}: {why}"
            if (rule := alarm.suppressed_while) and rule.tag in tags and (why := _never_shown(rule, tags[rule.tag])):
                yield (*at, "suppressed_while", "equals"), f"alarm {alarm.id}: {why}"
        for again, name in _repeated(alarm.id for alarm in self.alarms):
            yield ("alarms", again, "id"), f"alarm {name}: declared twice"
        sources = [(index, a.source_id) for index, a in enumerate(self.alarms) if a.source_id]
        for again, name in _repeated(source for _, source in sources):
            yield ("alarms", sources[again][0], "source_id"), f"source_id {name}: used by two alarms"

    def _topic_faults(self) -> Iterator[_Fault]:
        published = {tag.key: index for index, tag in enumerate(self.tags) if tag.link == MQTT_LINK}
        named = [
            (("topics", at, "values", said), key) for at, each in enumerate(self.topics) for said, key in each.values.items()
        ]
        yield from ((place, f"topics: {key} is not a published tag") for place, key in named if key not in published)
        told = {key for _, key in named}
        yield from ((("tags", at), f"tag {key}: no topic publishes it") for key, at in published.items() if key not in told)
        yield from ((named[at][0], f"topics: {key} is published twice") for at, key in _repeated(key for _, key in named))
        for at, topic in _repeated(mapping.topic for mapping in self.topics):
            yield ("topics", at, "topic"), f"topics: {topic} is declared twice"

    def _event_log_faults(self) -> Iterator[_Fault]:
        if (ring := self.event_log) is None:
            return
        link = next((link for link in self.links if link.id == ring.link), None)
        if link is None:
            yield ("event_log", "link"), f"event_log: unknown link {ring.link}"
            return
        if _is_broadcast(link, ring.device_id):
            yield ("event_log", "device_id"), f"event_log: {_BROADCAST}"
        if _is_forbidden(link.device(ring.device_id), RegisterKind.HOLDING_REGISTER, ring.address, ring.register_count):
            yield ("event_log", "address"), f"event_log: lies in a forbidden range of device {ring.device_id}"

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


def _notations(links: Any) -> Iterator[tuple[tuple[str, int], Addressing]]:
    """Yield (link, device) and the notation of each device that declares a known one; the rest is the models' to complain of."""
    for link in links if isinstance(links, list) else ():
        told = link.model_dump() if isinstance(link, Link) else link
        devices = told.get("devices") if isinstance(told, dict) and isinstance(told.get("id"), str) else ()
        for device in devices if isinstance(devices, list | tuple) else ():
            is_named = isinstance(device, dict) and isinstance(device.get("id"), int)
            if is_named and device.get("addressing") in list(Addressing):
                yield (told["id"], device["id"]), Addressing(device["addressing"])


def _on_the_wire(told: Any, notations: Mapping[tuple[str, int], Addressing]) -> Any:
    """Return a declared tag with its wire address, or with the reason why it has none, which its own validation tells. What is
    not understood is left to that too."""
    if not isinstance(told, dict) or not isinstance(told.get("link"), str) or not isinstance(told.get("device_id"), int):
        return told
    notation = notations.get((told["link"], told["device_id"]))
    kind = next((each for each in RegisterKind if each == told.get("kind")), RegisterKind.PUBLISHED)
    if notation is None or kind is RegisterKind.PUBLISHED or "address" not in told:
        return told
    try:
        return told | {"address": read_written(told["address"], kind, notation)}
    except Malformed as error:
        return told | {"address": error}


def _unreadable(tag: Tag, link: Link) -> Iterator[tuple[str, str]]:
    """Yield the keys by which a tag cannot be read from its device, and why. A value travels whole, in one answer."""
    device = link.device(tag.device_id)
    if _is_broadcast(link, tag.device_id):
        yield "device_id", _BROADCAST
    if _is_forbidden(device, tag.kind, tag.address, tag.register_count):
        yield "address", f"lies in a forbidden range of device {device.id}"
    if tag.register_count > device.most_registers:
        yield "type", f"spans more registers than device {device.id} gives in one answer"


def _is_broadcast(link: Link, device_id: int) -> bool:
    return device_id == 0 and link.protocol in (LinkProtocol.RTU, LinkProtocol.RTU_OVER_TCP)


def _is_forbidden(device: Device, kind: RegisterKind, address: int, count: int) -> bool:
    return any(each.kind == kind and each.first < address + count and address <= each.last for each in device.forbidden)


def _unjudgeable(condition: Condition, tags: Mapping[str, Tag]) -> str:
    """Return why a condition cannot be judged by the values of its tag, or an empty text."""
    tag, kind = tags[condition.tag or ""], condition.kind
    if kind is ConditionKind.BIT:
        return "" if tag.type is DataType.BOOL else f"condition bit needs a bool, {tag.key} is {tag.type}"
    is_number = tag.type not in (DataType.BOOL, DataType.STRING) and not (tag.names or tag.flags)
    return "" if is_number or kind is ConditionKind.BAD_VALUE else f"condition {kind} needs a number, which {tag.key} is not"


def _never_shown(rule: Suppression, tag: Tag) -> str:
    """Return why a tag that shows names never shows the one that suppresses an alarm, or an empty text."""
    names = names_of(tag)
    if not names or rule.equals in names:
        return ""
    return f"{tag.key} is never {rule.equals!r}; it shows {', '.join(sorted(names))}"


def _repeated(names: Iterable[_Name]) -> Iterator[tuple[int, _Name]]:
    """Yield the index of each name that came before, and the name."""
    seen: set[_Name] = set()
    for index, name in enumerate(names):
        if name in seen:
            yield index, name
        seen.add(name)


def _fault_at(place: _Place, why: str) -> InitErrorDetails:
    return InitErrorDetails(type="value_error", loc=place, input=None, ctx={"error": ValueError(why)})
