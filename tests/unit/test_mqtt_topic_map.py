"""The topic map: foreign JSON, plain values, and everything a gateway should not send."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from appliance.contracts.alarm import AlarmChange
from appliance.contracts.errors import AlarmUnreadable, Malformed
from appliance.contracts.plant import Plant
from appliance.contracts.reading import Quality
from drivers.mqtt.mappings import MOST_MEMBERS
from drivers.mqtt.taken import Taken, to_reading
from drivers.mqtt.topic_map import TopicMap
from drivers.mqtt.topics import IncomingMessage
from drivers.sim.plant_file import load_plant
from tests.support.clock import ManualClock
from tests.support.gateways import ALARM_TOPIC, JSON_TOPIC, PLAIN_TOPIC, gateway_plant
from tests.support.plant import PLANT_FILE

CLOCK = ManualClock()
PLANT = gateway_plant(JSON_TOPIC, ALARM_TOPIC, PLAIN_TOPIC)
AT_MS = 1772438400250
AT = datetime(2026, 3, 2, 8, 0, 0, 250_000, tzinfo=UTC)
ALERT: dict[str, Any] = {"kind": "OIL", "id": 7, "active": True, "data": {"reading": 94.2}, "ts": AT_MS, "seq": 3}


def message(topic: str, payload: Any, *, retained: bool = False) -> IncomingMessage:
    raw = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
    return IncomingMessage(topic, raw, 1, retained, False, None, 0)


def take(topic: str, payload: Any, **more: Any) -> Taken:
    taken = TopicMap(PLANT, CLOCK, alarm_topics=("plant/+/alarms",)).take(message(topic, payload, **more))
    if taken.faults and not (taken.events or taken.readings):
        raise taken.faults[0]
    return taken


def told(values: Any, **more: Any) -> dict[str, tuple[Any, Quality]]:
    readings = take("site/press_1/telemetry", {"ts": AT_MS, "values": values, **more}).readings
    return {reading.tag: (reading.value, reading.quality) for reading in readings}


@pytest.mark.req("F5")
def test_values_are_read_where_the_selectors_say_with_the_time_of_the_source() -> None:
    taken = take("site/press_1/telemetry", {"ts": AT_MS, "values": {"oil temp": 943, "mode": 2}, "list": [0, {"v": "ON"}]})
    assert [(r.tag, r.value, r.quality) for r in taken.readings] == [
        ("press_1.oil", 94.3, Quality.GOOD),
        ("press_1.mode", "automatic", Quality.GOOD),
        ("press_1.door", True, Quality.GOOD),
    ]
    assert {reading.source_utc for reading in taken.readings} == {AT}


def test_what_a_message_does_not_mention_stays_as_it_was() -> None:
    assert told({"mode": 0}) == {"press_1.mode": ("stopped", Quality.GOOD)}
    with pytest.raises(Malformed, match=r"site/press_1/telemetry: \$\.values\['oil temp'\], .* is missing"):
        told({"other": 1})


@pytest.mark.field("FC-F12", "FC-F13")
@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (943, 94.3), (-5, -0.5), ("943", 94.3), (" 94.5 ", 9.45), (94.0, 9.4), (9_999, 200), (-9_999, -20),
        (0x8000, None), (-0x8000, None), (None, None), (True, None), ("NaN", None), ("inf", None), ("1_000", None),
        ("9" * 60, None),
        (10**30, None), ({"a": 1}, None), ([1], None), ("", None), ("94,2", None), ("0x10", None), ("1e999", None), ("٣", None),
    ],
)  # fmt: skip
def test_a_number_is_a_number_or_bad(value: Any, shown: float | None) -> None:
    (reading,) = take("site/press_1/telemetry", {"values": {"oil temp": value}}).readings
    assert (reading.value, reading.quality) == (shown, Quality.BAD if shown is None else Quality.GOOD)
    assert shown is not None or "$.values['oil temp']" in reading.why


@pytest.mark.parametrize(
    ("value", "shown"), [(2, "automatic"), ("automatic", "automatic"), (2.0, "automatic"), (5, "5"), ("fast", None), (2.5, None)]
)
def test_an_enumeration_is_told_by_number_or_name(value: Any, shown: str | None) -> None:
    assert told({"mode": value})["press_1.mode"][0] == shown


@pytest.mark.parametrize(
    ("value", "shown"), [(1, True), (0.0, False), ("off", False), ("True", True), (2, None), ("maybe", None)]
)
def test_truth_is_told_in_many_words_but_not_in_any(value: Any, shown: bool | None) -> None:
    assert told({}, list=[0, {"v": value}])["press_1.door"][0] is shown


@pytest.mark.parametrize(
    "ts", [AT_MS, AT_MS / 1000, AT_MS * 1000, AT_MS * 1_000_000, "2026-03-02T08:00:00.250Z", "2026-03-02T09:00:00.250+01:00"]
)
def test_a_time_may_be_told_in_any_of_the_usual_ways(ts: Any) -> None:
    (reading,) = take("site/press_1/telemetry", {"ts": ts, "values": {"mode": 0}}).readings
    assert reading.source_utc is not None
    assert abs(reading.source_utc - AT) < timedelta(milliseconds=1)


@pytest.mark.parametrize("ts", ["soon", -1, 1e300, {"a": 1}, True])
def test_a_time_that_is_none_is_named(ts: Any) -> None:
    with pytest.raises(Malformed, match=r"\$\.ts"):
        told({"mode": 0}, ts=ts)


def test_a_plain_payload_is_one_value() -> None:
    for payload, shown in ((b"4.25", 4.25), (b" 4 ", 4), (b"off", None), (b"", None)):
        (reading,) = take("site/press_1/pressure", payload).readings
        assert (reading.tag, reading.value) == ("press_1.pressure", shown)
    for payload in (b"\xff", b"1" * 70_000):
        with pytest.raises(Malformed, match="site/press_1/pressure"):
            take("site/press_1/pressure", payload)


@pytest.mark.field("FC-F05")
def test_a_retained_value_of_unknown_age_is_stale_where_values_grow_stale() -> None:
    (reading,) = take("site/press_1/pressure", b"4.25", retained=True).readings
    assert (reading.value, reading.quality, reading.source_utc) == (4.25, Quality.STALE, None)
    lasting = gateway_plant(PLAIN_TOPIC | {"stale_after_s": 0})
    (reading,) = TopicMap(lasting, CLOCK, alarm_topics=()).take(message("site/press_1/pressure", b"4", retained=True)).readings
    assert (reading.quality, reading.source_utc) == (Quality.GOOD, None)
    (reading,) = take("site/a/telemetry", {"ts": AT_MS, "values": {"mode": 0}}, retained=True).readings
    assert (reading.quality, reading.source_utc) == (Quality.GOOD, AT)


@pytest.mark.req("F5")
def test_alarms_of_a_foreign_format_become_events() -> None:
    cleared = ALERT | {"kind": "GUARD", "active": 0, "data": {}}
    first, second = take("site/gw_9/alerts", {"alerts": [ALERT, cleared]}).events
    assert (first.alarm_id, first.activation_id, first.change) == ("oil_hot", "gw_9:oil_hot:7", AlarmChange.RAISED)
    assert (first.value, first.unit, first.source_utc, first.sequence, first.is_state) == (94.2, "C", AT, 3, False)
    assert (second.alarm_id, second.change, second.value) == ("guard_open", AlarmChange.CLEARED, None)


def test_a_retained_alarm_of_a_foreign_format_is_state() -> None:
    assert all(event.is_state for event in take("site/gw/alerts", {"alerts": [ALERT]}, retained=True).events)


@pytest.mark.field("FC-F17")
def test_without_an_activation_the_alarms_own_time_stands_for_it() -> None:
    without = {key: part for key, part in ALERT.items() if key != "id"}
    events = [take("site/gw/alerts", {"alerts": [without | {"active": active}]}).events[0] for active in (True, True, "OFF")]
    assert {event.activation_id for event in events} == {"gw:oil_hot:20260302T080000.250000Z"}
    assert events[0].dedupe_key == events[1].dedupe_key != events[2].dedupe_key
    with pytest.raises(Malformed, match=r"\$\.id: is missing, and nothing else tells the activation"):
        take("site/gw/alerts", {"alerts": [{key: part for key, part in without.items() if key != "ts"}]})


def test_one_bad_alarm_takes_nobody_with_it() -> None:
    taken = take("site/gw/alerts", {"alerts": [ALERT | {"kind": "NOBODY"}, ALERT, ALERT | {"active": "perhaps"}]})
    assert [event.alarm_id for event in taken.events] == ["oil_hot"]
    assert [fault.facts["member"] for fault in taken.faults] == ["$.kind", "$.active"]


@pytest.mark.parametrize(
    ("change", "selector"),
    [
        ({"kind": "NOBODY"}, "$.kind"), ({"kind": None}, "$.kind"), ({"kind": ["OIL"]}, "$.kind"), ({"id": "a:b"}, "$.id"),
        ({"id": "x" * 65}, "$.id"), ({"id": True}, "$.id"), ({"active": None}, "$.active"), ({"active": "maybe"}, "$.active"),
    ],
)  # fmt: skip
def test_a_bad_part_is_named_with_topic_and_selector(change: dict[str, Any], selector: str) -> None:
    with pytest.raises(AlarmUnreadable) as malformed:
        take("site/gw/alerts", {"alerts": [ALERT | change]})
    assert malformed.value.facts == {"topic": "site/gw/alerts", "member": selector}
    assert (malformed.value.source, malformed.value.sequence) == ("gw", 3)


@pytest.mark.req("F5", "F7")
@pytest.mark.parametrize(
    ("change", "part", "is_absent"),
    [
        ({"data": {"reading": "hot"}}, "value", None), ({"data": {"reading": 10**400}}, "value", None),
        ({"data": {"reading": float("nan")}}, "value", None), ({"ts": "yesterday"}, "source_utc", None),
        ({"seq": -1}, "sequence", None), ({"seq": 1.5}, "sequence", None),
    ],
)  # fmt: skip
def test_an_optional_part_that_is_no_good_is_left_out(change: dict[str, Any], part: str, is_absent: Any) -> None:
    (event,) = take("site/gw/alerts", {"alerts": [ALERT | change]}).events
    (whole,) = take("site/gw/alerts", {"alerts": [ALERT]}).events
    assert event == replace(whole, **{part: is_absent})


@pytest.mark.req("F5", "F7")
def test_only_an_alarm_that_came_can_be_unreadable() -> None:
    mixed = gateway_plant(ALARM_TOPIC | {"topic": "site/#", "values": {"$.p": "press_1.pressure"}}, ALARM_TOPIC)
    reads = TopicMap(mixed, CLOCK, alarm_topics=()).take
    values = reads(message("site/gw/x", {"p": 4}))
    assert (values.faults, len(values.readings)) == ((), 1), "values only: no alarm is told"
    bad = reads(message("site/gw/x", {"p": 4, "alerts": [ALERT | {"kind": "NOBODY"}]}))
    assert [type(fault) for fault in bad.faults] == [AlarmUnreadable] and len(bad.readings) == 1
    assert [type(fault) for fault in reads(message("site/gw/x", {})).faults] == [AlarmUnreadable]
    other = ALARM_TOPIC | {"alarms": ALARM_TOPIC["alarms"] | {"each": "$.others"}}
    taken = TopicMap(gateway_plant(other | {"topic": "site/#"}, ALARM_TOPIC), CLOCK, alarm_topics=()).take(
        message("site/gw/alerts", {"alerts": [ALERT]})
    )
    assert (len(taken.events), taken.faults) == (1, ()), "another mapping understood it"


def test_a_number_that_is_none_takes_no_other_value_with_it() -> None:
    assert told({"oil temp": float("nan"), "mode": 2}) == {
        "press_1.oil": (None, Quality.BAD), "press_1.mode": ("automatic", Quality.GOOD),
    }  # fmt: skip


@pytest.mark.parametrize(
    "payload",
    [b"", b"\xff", b"{", b"[" * 60_000, b'{"alerts":' * 6_000, b"9" * 5_000, json.dumps([ALERT] * 2).encode(), b"{}",
     json.dumps({"alerts": {"0": ALERT}}).encode(), b'{"alerts": [' + b"1," * MOST_MEMBERS + b"1]}", b" " * 70_000],
    ids=["empty", "not utf-8", "torn", "deep list", "deep object", "huge number", "no list", "no member", "object", "too many",
         "too long"],
)  # fmt: skip
def test_hostile_payloads_are_malformed_and_nothing_else(payload: bytes) -> None:
    with pytest.raises(Malformed, match="site/gw/alerts"):
        take("site/gw/alerts", payload)


def test_a_topic_of_two_mappings_is_read_by_both_and_one_that_fails_takes_nobody_with_it() -> None:
    both = gateway_plant(JSON_TOPIC, JSON_TOPIC | {"topic": "site/press_1/#", "values": {"$.p": "press_1.pressure"}})
    reads = TopicMap(both, CLOCK, alarm_topics=()).take
    taken = reads(message("site/press_1/telemetry", {"values": {"mode": 0}, "p": 4.5}))
    assert [reading.tag for reading in taken.readings] == ["press_1.mode", "press_1.pressure"]
    taken = reads(message("site/press_1/telemetry", {"p": 4.5}))
    assert ([reading.tag for reading in taken.readings], len(taken.faults)) == (["press_1.pressure"], 1)


def test_a_topic_nobody_declared_is_named() -> None:
    with pytest.raises(Malformed, match="message on other/topic: no topic of the plant model is meant"):
        take("other/topic", {})


_ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.sampled_from([*ALERT, "alerts", "values", "list"]), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip


@settings(max_examples=150)
@given(_ANYTHING, st.sampled_from(["site/gw/alerts", "site/gw/telemetry", "site/press_1/pressure", "plant/a/alarms"]))
def test_no_json_raises_anything_else_and_no_reading_is_not_a_number(content: Any, topic: str) -> None:
    try:
        taken = take(topic, content)
    except Malformed:
        return
    for reading in taken.readings:
        assert reading.value is None or not isinstance(reading.value, float) or math.isfinite(reading.value)
    json.dumps([[event.activation_id, event.value] for event in taken.events], allow_nan=False).encode()


@given(_ANYTHING, st.sampled_from(gateway_plant().tags))
def test_any_told_value_is_a_value_of_the_tag_or_bad(value: Any, tag: Any) -> None:
    reading = to_reading(tag, value, AT, where="here")
    assert (reading.value is None) == (reading.quality is Quality.BAD)
    json.dumps(reading.value, allow_nan=False)


def test_the_example_in_the_shipped_plant_is_a_plant() -> None:
    shipped = PLANT_FILE.read_text(encoding="utf-8")
    _, _, example = shipped.partition("\n# Gateways that do not speak our own")
    told = yaml.safe_load("\n".join(line.removeprefix("# ") for line in example.splitlines()[2:]))
    plant = load_plant(PLANT_FILE).model_dump(mode="json")
    whole = Plant.model_validate(plant | {"tags": [*plant["tags"], *told["tags"]], "topics": told["topics"]})
    assert [mapping.format for mapping in whole.topics] == ["json", "json", "plain", "sparkplug_b"]
    read = TopicMap(whole, CLOCK, alarm_topics=())
    alert = {"type": "M3.OVERTEMP", "id": "a-1", "status": "active", "startTs": AT_MS}
    (event,) = read.take(message("plant/gw/alerts", {"alerts": [alert]})).events
    assert event.activation_id == "gw:motor_3_over_temperature:a-1"
