"""Plant models made up for measuring."""

from __future__ import annotations

from typing import Any

LINK = "bench"
TAG_UNITS, TAGS_A_UNIT = 20, 250
_GAP_EVERY = 10  # after so many registers one is left out, as in any real register list


def _plant(port: int, tags: list[dict[str, Any]], alarms: list[dict[str, Any]], poll: dict[str, float]) -> dict[str, Any]:
    return {
        "site": "bench",
        "links": [{"id": LINK, "host": "127.0.0.1", "port": port}],
        "assets": [{"id": "bench_1", "area": "bench", "spoken": {"en": ["bench 1"], "zh": ["1号台"]}}],
        "poll_groups": [{"name": name, "every_s": every_s} for name, every_s in poll.items()],
        "tags": tags,
        "alarms": alarms,
    }


def _tag(name: str, device_id: int, kind: str, address: int, type_: str, **more: Any) -> dict[str, Any]:
    where = {"link": LINK, "device_id": device_id, "kind": kind, "address": address, "type": type_}
    return {"name": name, "asset": "bench_1", **where, "spoken": {}, **more}


def _alarm(name: str, **source: Any) -> dict[str, Any]:
    return {
        "id": name,
        "asset": "bench_1",
        "priority": "medium",
        "fault": "bench_fault",
        "playbook": "bench",
        "text": {"en": "Bench alarm", "zh": "测试报警"},  # the same for all: each text is synthesised at start
        **source,
    }


def register_plant(port: int = 502) -> dict[str, Any]:
    """125 holding registers of one unit: the most one request can carry."""
    return _plant(port, [_tag(f"word_{n}", 1, "holding_register", n, "uint16") for n in range(125)], [], {})


def tag_plant(port: int = 502) -> dict[str, Any]:
    """5,000 tags of one register over 20 units, with a hole after every tenth register."""
    tags = [
        _tag(f"u{unit}_t{n}", unit, "holding_register", n + n // _GAP_EVERY, "uint16")
        for unit in range(1, TAG_UNITS + 1)
        for n in range(TAGS_A_UNIT)
    ]
    return _plant(port, tags, [], {})


def coil_plant(coils: int, poll_s: float, port: int = 502) -> dict[str, Any]:
    """Coils, each an alarm while it is on, polled every ``poll_s``. Writable, so that the bench can switch them."""
    tags = [_tag(f"coil_{n}", 1, "coil", n, "bool", writable=True, poll="fast") for n in range(coils)]
    conditions = [{"kind": "bit", "tag": f"bench_1.coil_{n}"} for n in range(coils)]
    return _plant(port, tags, [_alarm(f"coil_{n}", condition=conditions[n]) for n in range(coils)], {"fast": poll_s})


def gateway_plant(alarms: int, port: int) -> dict[str, Any]:
    """Alarms that a gateway publishes, and one register, so that there is a link."""
    tags = [_tag("word", 1, "holding_register", 0, "uint16")]
    return _plant(port, tags, [_alarm(f"alarm_{n}", source_id=f"G.{n}") for n in range(alarms)], {})


def floor_plant(assets: int, tags_each: int) -> dict[str, Any]:
    """Machines with names people say, in English and Chinese, each with as many tags; every fifth can be set in percent."""
    machines = [
        {"id": f"machine_{n}", "area": "bench", "spoken": {"en": [f"machine {n}", f"unit {n}"], "zh": [f"{n}号机", f"{n}号设备"]}}
        for n in range(assets)
    ]
    tags = []
    for asset in range(assets):
        for n in range(tags_each):
            spoken = {"en": [f"signal {n}", f"value {n}"], "zh": [f"{n}号信号", f"{n}号数值"]}
            limits = {"writable": True, "low": 0, "high": 100} if n % 5 == 0 else {}
            more = {"unit": "%", "poll": "floor", **limits, "asset": f"machine_{asset}", "spoken": spoken}
            tags.append(_tag(f"signal_{n}", 1, "holding_register", asset * tags_each + n, "int16", **more))
    return {**_plant(502, tags, [], {"floor": 1.0}), "assets": machines}
