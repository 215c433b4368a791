"""What is polled, and how often: only what the plant model declares."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from appliance.contracts.alarm_definition import ConditionKind
from appliance.contracts.plant import Plant
from appliance.contracts.tag import MQTT_LINK, Tag
from drivers.modbus.blocks import merge
from drivers.modbus.reporting import Reporting, TrackedBlock

KEEP_IN_SIGHT_S = 2.0
"""A link on which nothing is polled as often as this is asked for one tag, so that its loss is noticed by itself."""

DeviceKey = tuple[str, int]
"""Link and device id."""


def scheduled(plant: Plant, reporting: Reporting) -> dict[DeviceKey, list[tuple[TrackedBlock, float]]]:
    """Return the blocks of each device with the seconds between their samples. Each poll group is merged by itself."""
    schedule: dict[DeviceKey, list[tuple[TrackedBlock, float]]] = defaultdict(list)
    for group in plant.poll_groups:
        for block in merge((tag for tag in plant.tags if tag.poll == group.name), plant.link_by_id):
            schedule[block.link, block.device_id].append((reporting.tracked(block), group.every_s))
    for tag in list(_kept_in_sight(plant)):
        (block,) = merge([tag], plant.link_by_id)
        schedule[tag.link, tag.device_id].append((TrackedBlock(block, ()), KEEP_IN_SIGHT_S))
    return dict(schedule)


def _kept_in_sight(plant: Plant) -> Iterator[Tag]:
    """Yield a tag of each device whose loss somebody wants to know and that is not polled often enough to notice it: those of
    alarms, and one of each link."""
    intervals_s = {group.name: group.every_s for group in plant.poll_groups}
    first: dict[DeviceKey, Tag] = {}
    seen: set[DeviceKey] = set()
    for tag in plant.tags:
        if tag.link != MQTT_LINK:
            first.setdefault((tag.link, tag.device_id), tag)
            if tag.poll and intervals_s[tag.poll] <= KEEP_IN_SIGHT_S:
                seen.add((tag.link, tag.device_id))
    for alarm in plant.alarms:
        condition = alarm.condition
        if condition and condition.kind is ConditionKind.UNREACHABLE and condition.link and condition.device_id is not None:
            device = (condition.link, condition.device_id)
            if device in first and device not in seen:
                seen.add(device)
                yield first[device]
    for (link, device_id), tag in first.items():
        if all(each != link for each, _ in seen):
            seen.add((link, device_id))
            yield tag
