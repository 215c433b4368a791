"""Writes a big plant model: for benches, floods, and to see what a site of hundreds of machines needs."""

from __future__ import annotations

from typing import Any

from appliance.contracts.tag import DataType, RegisterKind, Tag, WordOrder

_TYPES = (
    DataType.UINT16, DataType.INT16, DataType.FLOAT32, DataType.UINT32, DataType.INT32, DataType.FLOAT64, DataType.UINT64,
    DataType.INT64, DataType.FLOAT16, DataType.BCD16, DataType.BCD32,
)  # fmt: skip
_ORDERS = tuple(WordOrder)
_PRIORITIES = ("critical", "high", "medium", "low")
# (fault class, playbook of the shipped configuration, what is said)
_FAULTS = (
    ("over_temperature", "over-temperature", "over temperature", "温度过高"),
    ("low_pressure", "low-pressure", "low pressure", "压力过低"),
    ("overcurrent", "overcurrent", "overcurrent", "电流过大"),
)
_AREAS = 10
_POLL = "all"
_MOST_DEVICES = 247  # Modbus over serial line 1.02, section 2.2


def generate_plant(
    *, assets: int, tags_per_asset: int, alarms: int, devices: int, every_s: float, host: str, port: int
) -> dict[str, Any]:
    """Return a plant model to be written as YAML: ``assets`` machines on ``devices`` units of one link, every tag polled.

    The tags of a device lie side by side. An alarm is a discrete input of its asset, with a ``source_id`` beside its condition.
    All number types and all orders of words occur. ``devices`` is at most 247; the alarms must fit among the tags.

    Raises:
        ValueError: the numbers do not fit together; the message says which.
    """
    alarms_per_asset = -(-alarms // assets)
    if alarms_per_asset > tags_per_asset:
        raise ValueError(
            f"{alarms} alarms need {alarms_per_asset} of the {tags_per_asset} tags of each asset: more tags, fewer alarms"
        )
    if devices > min(assets, _MOST_DEVICES):
        raise ValueError(f"{devices} devices for {assets} assets: at least one asset each, at most {_MOST_DEVICES} devices")
    free = dict.fromkeys(((d, kind) for d in range(1, devices + 1) for kind in RegisterKind), 0)
    names = [f"machine_{number:0{len(str(assets))}}" for number in range(1, assets + 1)]
    tags: list[dict[str, Any]] = []
    told: list[dict[str, Any]] = []
    for number, asset in enumerate(names):
        device_id = 1 + number * devices // assets
        with_alarm = min(alarms_per_asset, alarms - len(told))
        for place in range(tags_per_asset):
            is_alarm = place < with_alarm
            tag = _alarm_tag(asset, place) if is_alarm else _number_tag(asset, place)
            kind = RegisterKind(tag["kind"])
            tag |= {"link": "plc", "device_id": device_id, "address": free[device_id, kind], "poll": _POLL}
            checked = Tag.model_validate(tag)
            free[device_id, kind] += checked.register_count
            tags.append(tag)
            if is_alarm:
                told.append(_alarm(asset, place, len(told)))
    return {
        "site": "generated",
        "links": [{"id": "plc", "host": host, "port": port}],
        "poll_groups": [{"name": _POLL, "every_s": every_s}],
        "assets": [
            {"id": name, "area": f"area_{place * _AREAS // assets + 1}", "spoken": _spoken(name)}
            for place, name in enumerate(names)
        ],
        "tags": tags,
        "alarms": told,
    }


def _spoken(asset: str) -> dict[str, list[str]]:
    number = int(asset.rpartition("_")[2])
    return {"en": [f"machine {number}"], "zh": [f"{number}号机器"]}


def _alarm_tag(asset: str, place: int) -> dict[str, Any]:
    return {"name": f"alarm_{place + 1}", "asset": asset, "kind": "discrete_input", "type": "bool", "spoken": {}}


def _number_tag(asset: str, place: int) -> dict[str, Any]:
    return {
        "name": f"value_{place + 1}",
        "asset": asset,
        "kind": "input_register",
        "type": str(_TYPES[place % len(_TYPES)]),
        "word_order": str(_ORDERS[place % len(_ORDERS)]),
        "spoken": {},
    }


def _alarm(asset: str, place: int, number: int) -> dict[str, Any]:
    fault, playbook, english, chinese = _FAULTS[number % len(_FAULTS)]
    return {
        "id": f"{asset}_alarm_{place + 1}",
        "asset": asset,
        "source_id": f"{asset.upper()}.ALARM{place + 1}",
        "condition": {"kind": "bit", "tag": f"{asset}.alarm_{place + 1}"},
        "priority": _PRIORITIES[number % len(_PRIORITIES)],
        "fault": fault,
        "playbook": playbook,
        "text": {"en": f"Machine {english}", "zh": f"机器{chinese}"},
    }
