"""A plant that hears from gateways: JSON of a foreign format, a plain value, and a Sparkplug edge node with a device."""

from __future__ import annotations

from typing import Any

from appliance.contracts.plant import Plant

SPOKEN: dict[str, list[str]] = {"en": ["x"]}


def tag(name: str, kind: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "asset": "press_1", "link": "mqtt", "kind": "published", "type": kind, "spoken": SPOKEN} | more


def alarm(name: str, source_id: str) -> dict[str, Any]:
    return {
        "id": name, "asset": "press_1", "source_id": source_id, "priority": "high", "fault": name, "playbook": name,
        "text": {"en": name},
    }  # fmt: skip


JSON_TOPIC: dict[str, Any] = {
    "topic": "site/+/telemetry",
    "format": "json",
    "values": {"$.values['oil temp']": "press_1.oil", "$.values.mode": "press_1.mode", "$.list[1].v": "press_1.door"},
    "at": "$.ts",
    "stale_after_s": 30,
}
ALARM_TOPIC: dict[str, Any] = {
    "topic": "site/+/alerts",
    "format": "json",
    "alarms": {
        "each": "$.alerts", "source": "$topic[1]", "alarm": "$.kind", "activation": "$.id", "state": "$.active",
        "value": "$.data.reading", "unit": "C", "at": "$.ts", "sequence": "$.seq",
    },
}  # fmt: skip
PLAIN_TOPIC = {"topic": "site/press_1/pressure", "format": "plain", "values": {"value": "press_1.pressure"}, "stale_after_s": 10}
SPARKPLUG_TOPIC = {
    "topic": "spBv1.0/works/+/edge_1/#",
    "format": "sparkplug_b",
    "values": {
        "Line/Temperature": "press_1.temperature", "Line/Delta": "press_1.delta", "Line/Count": "press_1.count",
        "Line/State": "press_1.state", "Line/Empty": "press_1.empty", "Line/Table": "press_1.table",
        "drive/Speed": "press_1.speed", "drive/Running": "press_1.running",
    },
}  # fmt: skip


def gateway_plant(*topics: dict[str, Any]) -> Plant:
    """Return the plant with some of its topics, and the tags that they publish; all by default."""
    mappings = list(topics) or [JSON_TOPIC, ALARM_TOPIC, PLAIN_TOPIC, SPARKPLUG_TOPIC]
    named = {key for mapping in mappings for key in mapping.get("values", {}).values()}
    tags = [
        tag("oil", "int16", scale=0.1, unit="degC", sentinels=[0x8000], clamp=(-20, 200), deadband=0.5),
        tag("mode", "uint16", names={0: "stopped", 2: "automatic"}),
        tag("door", "bool"),
        tag("pressure", "float32", unit="bar"),
        tag("temperature", "float32", unit="degC"),
        tag("delta", "int16"),
        tag("count", "uint64"),
        tag("state", "string"),
        tag("empty", "float64"),
        tag("table", "float64"),
        tag("speed", "float64", unit="rpm", deadband_percent=10),
        tag("running", "bool"),
    ]
    return Plant.model_validate(
        {
            "site": "works",
            "links": [],
            "assets": [{"id": "press_1", "area": "hall_1", "spoken": SPOKEN}],
            "tags": [told for told in tags if f"press_1.{told['name']}" in named],
            "alarms": [alarm("oil_hot", "OIL"), alarm("guard_open", "GUARD")],
            "topics": mappings,
        }
    )
