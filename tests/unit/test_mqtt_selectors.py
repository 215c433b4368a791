"""Selectors and topic filters: what they find, and what the plant model does not accept."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from appliance.contracts.errors import Malformed
from drivers.mqtt.checked import ABSENT
from drivers.mqtt.selectors import Selector, matches
from tests.support.gateways import ALARM_TOPIC, JSON_TOPIC, SPARKPLUG_TOPIC, gateway_plant

CONTENT = {"a": {"b": [10, {"c-d": None}], "odd name": "x", "b.c": 5}, "0": "zero"}


@pytest.mark.req("F5")
@pytest.mark.parametrize(
    ("selector", "found"),
    [
        ("$", CONTENT),
        ("$.a.b[0]", 10),
        ("$.a.b[1].c-d", None),
        ("$.a['odd name']", "x"),
        ("$['a']['b.c']", 5),
        ("$['0']", "zero"),
        ("$topic[1]", "line_3"),
        ("$topic[3]", ABSENT),
        ("$.a.b[2]", ABSENT),
        ("$.a.x", ABSENT),
        ("$.a[0]", ABSENT),
        ("$[0]", ABSENT),
        ("$.a.b.c", ABSENT),
        ("line_plc", "line_plc"),
    ],
)
def test_a_selector_finds_what_stands_there(selector: str, found: Any) -> None:
    assert Selector(selector).select(CONTENT, ["plant", "line_3", "alarms"]) is found


@pytest.mark.parametrize(
    "text", ["$.", "$..a", "$.*", "$[-1]", "$[?(@.a>1)]", "$a", "$topic", "$topic[x]", "$['a", "$.a b", "$.1a"]
)
def test_nothing_that_searches_or_is_torn_is_a_selector(text: str) -> None:
    with pytest.raises(Malformed, match="not a selector"):
        Selector(text)


@pytest.mark.parametrize(
    ("topic_filter", "topic", "is_meant"),
    [
        ("a/+/c", "a/b/c", True),
        ("a/+/c", "a/b/d", False),
        ("a/+", "a/b/c", False),
        ("a/#", "a", True),
        ("a/#", "a/b/c", True),
        ("a/b", "a", False),
        ("#", "a/b", True),
        ("#", "$SYS/load", False),
        ("+/load", "$SYS/load", False),
        ("+", "", True),
    ],
)
def test_filters_mean_what_mqtt_says(topic_filter: str, topic: str, is_meant: bool) -> None:
    assert matches(topic_filter, topic) is is_meant


ALARMS: dict[str, Any] = ALARM_TOPIC["alarms"]


@pytest.mark.parametrize(
    ("mapping", "why"),
    [
        (JSON_TOPIC | {"topic": "a/#/b"}, "not a topic filter"),
        (JSON_TOPIC | {"topic": "a+/b"}, "not a topic filter"),
        (JSON_TOPIC | {"values": {"value": "press_1.oil"}}, "is not a selector"),
        (JSON_TOPIC | {"at": "$.."}, "is not a selector"),
        (SPARKPLUG_TOPIC | {"topic": "spBv1.0/#"}, "spBv1.0/<group>"),
        (SPARKPLUG_TOPIC | {"topic": "spBv1.0/works/+/+/#"}, "spBv1.0/<group>"),
        (SPARKPLUG_TOPIC | {"at": "$.ts"}, "at is for json"),
        (ALARM_TOPIC | {"alarms": ALARMS | {"each": "alerts"}}, "is not a selector"),
        (ALARM_TOPIC | {"alarms": ALARMS | {"state": "$.a[*]"}}, "is not a selector"),
        (ALARM_TOPIC | {"alarms": {k: v for k, v in ALARMS.items() if k not in ("activation", "at")}}, "activation is needed"),
    ],
)
def test_mistakes_in_a_mapping_are_named_when_the_plant_is_read(mapping: dict[str, Any], why: str) -> None:
    with pytest.raises(ValidationError, match=why):
        gateway_plant(mapping)


def test_a_topic_is_declared_once() -> None:
    with pytest.raises(ValidationError, match="site/\\+/telemetry is declared twice"):
        gateway_plant(JSON_TOPIC, JSON_TOPIC | {"values": {"$.p": "press_1.pressure"}})
