"""What a gateway may send, and everything it should not."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from appliance.contracts.alarm import AlarmChange
from appliance.contracts.errors import AlarmUnreadable, Malformed
from drivers.mqtt.checked import MAX_PAYLOAD_BYTES
from drivers.mqtt.topic_map import TopicMap
from drivers.mqtt.topics import IncomingMessage, ignored_command, parse_alarm
from tests.support.clock import ManualClock
from tests.support.plant import shipped_plant

PLANT = shipped_plant()
GOOD = {
    "source": "line_3_plc", "alarm": "M3.OVERTEMP", "activation": 17, "state": "raised", "value": 94.2, "unit": "degC",
    "at": "2026-03-02T08:00:00.250+01:00", "mono_ns": 123,
}  # fmt: skip


def message(payload: bytes | dict[str, Any], **changes: Any) -> IncomingMessage:
    raw = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
    fields: dict[str, Any] = {
        "topic": "plant/line_3/alarms", "payload": raw, "qos": 1, "retained": False, "duplicate": False, "expiry_s": None,
        "arrived_mono_ns": 0,
    }  # fmt: skip
    return IncomingMessage(**(fields | changes))


@pytest.mark.req("F5")
def test_a_full_message_becomes_an_event() -> None:
    event = parse_alarm(message(GOOD), PLANT)
    assert event.alarm_id == "motor_3_over_temperature"
    assert event.activation_id == "line_3_plc:motor_3_over_temperature:17"
    assert (event.change, event.value, event.unit) == (AlarmChange.RAISED, 94.2, "degC")
    assert event.source_utc == datetime(2026, 3, 2, 7, 0, 0, 250_000, tzinfo=UTC)
    assert event.source_mono_ns == 123


def test_only_identity_and_state_are_needed() -> None:
    least = {k: GOOD[k] for k in ("source", "alarm", "activation")} | {"state": "cleared", "later": {"more": 1}}
    event = parse_alarm(message(least), PLANT)
    assert (event.change, event.value, event.unit) == (AlarmChange.CLEARED, None, "")
    assert (event.source_utc, event.source_mono_ns) == (None, None)


@pytest.mark.field("FC-F17")
def test_a_number_and_its_text_are_the_same_activation() -> None:
    assert parse_alarm(message(GOOD), PLANT).dedupe_key == parse_alarm(message(GOOD | {"activation": "17"}), PLANT).dedupe_key


def test_a_retained_alarm_is_state_and_no_news() -> None:
    retained, live = parse_alarm(message(GOOD, retained=True, duplicate=True), PLANT), parse_alarm(message(GOOD), PLANT)
    assert (retained.is_state, live.is_state) == (True, False)
    assert retained.dedupe_key == live.dedupe_key


@pytest.mark.field("FC-F17", "FC-F18")
def test_a_sequence_is_kept_and_part_of_the_duplicate_key() -> None:
    first, again, next_one = (parse_alarm(message(GOOD | {"sequence": n}), PLANT) for n in (7, 7, 8))
    assert (first.sequence, next_one.sequence) == (7, 8)
    assert first.dedupe_key == again.dedupe_key != next_one.dedupe_key


def test_a_time_without_zone_is_utc() -> None:
    event = parse_alarm(message(GOOD | {"at": "2026-03-02T08:00:00"}), PLANT)
    assert event.source_utc == datetime(2026, 3, 2, 8, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("change", "member"),
    [
        ({"alarm": "NOBODY"}, "alarm"),
        ({"alarm": None}, "alarm"),
        ({"alarm": "\ud800"}, "alarm"),
        ({"source": ""}, "source"),
        ({"source": "a:b"}, "source"),
        ({"source": ["x"]}, "source"),
        ({"source": "x" * 65}, "source"),
        ({"activation": True}, "activation"),
        ({"activation": 1.5}, "activation"),
        ({"activation": 10**30}, "activation"),
        ({"activation": "a\u0000b"}, "activation"),
        ({"activation": "\ud800"}, "activation"),
        ({"state": "RAISED"}, "state"),
        ({"state": 1}, "state"),
    ],
)
def test_a_bad_member_is_named_with_its_topic(change: dict[str, Any], member: str) -> None:
    with pytest.raises(AlarmUnreadable) as malformed:
        parse_alarm(message(GOOD | {"sequence": 7} | change), PLANT)
    assert (malformed.value.source, malformed.value.sequence) == (("", None) if member == "source" else ("line_3_plc", 7))
    assert malformed.value.facts == {"topic": "plant/line_3/alarms", "member": member}
    assert f"plant/line_3/alarms: {member}:" in malformed.value.message


@pytest.mark.parametrize("member", ["source", "alarm", "activation", "state"])
def test_a_missing_member_is_named(member: str) -> None:
    with pytest.raises(Malformed, match=f"{member}: is missing"):
        parse_alarm(message({k: v for k, v in GOOD.items() if k != member}), PLANT)


@pytest.mark.req("F5", "F7")
@pytest.mark.parametrize(
    ("member", "told"),
    [
        *(("value", told) for told in ("n/a", "94.2", True, 10**400, [1])),
        *(("unit", told) for told in ("\ud800", "x" * 17, 5)),
        *(("at", told) for told in ("yesterday", 1772438400, "0001-01-01T00:00:00+14:00")),
        *(("mono_ns", told) for told in (-1, 2**63, 1.0)),
        *(("sequence", told) for told in (-1, "7", 2**63)),
    ],
)
@pytest.mark.parametrize("state", ["raised", "cleared"])
def test_an_optional_member_that_is_no_good_is_left_out_and_the_alarm_is_taken(state: str, member: str, told: Any) -> None:
    without = {name: value for name, value in GOOD.items() if name != member} | {"state": state}
    assert parse_alarm(message(without | {member: told}), PLANT) == parse_alarm(message(without), PLANT)


@pytest.mark.field("FC-F12")
@pytest.mark.parametrize("number", [b"NaN", b"Infinity", b"-Infinity", b"1e999", b"9" * 5_000])
def test_a_value_that_is_no_number_is_no_value_and_the_alarm_is_taken(number: bytes) -> None:
    raw = json.dumps(GOOD).encode().replace(b"94.2", number)
    event = parse_alarm(message(raw), PLANT)
    assert (event.alarm_id, event.value, event.unit) == ("motor_3_over_temperature", None, "degC")


@pytest.mark.parametrize(
    "payload",
    [b"", b"\xff\xfe", b"{", b"[]", b"null", b"17", b"[" * 60_000, b'{"a":' * 10_000, b'{"value": ' + b"9" * 5_000 + b"}",
     json.dumps(GOOD).encode() + b" " * MAX_PAYLOAD_BYTES],
    ids=["empty", "not utf-8", "torn", "list", "null", "number", "deep list", "deep object", "huge number", "too long"],
)  # fmt: skip
def test_odd_payloads_are_malformed_and_nothing_else(payload: bytes) -> None:
    with pytest.raises(Malformed, match="plant/line_3/alarms"):
        parse_alarm(message(payload), PLANT)
    taken = TopicMap(PLANT, ManualClock(), alarm_topics=("plant/#",)).take(message(payload))
    (fault,) = taken.faults
    assert isinstance(fault, AlarmUnreadable) == bool(payload), "an empty one only ends what the broker retained"


@given(st.binary(max_size=300))
def test_no_bytes_raise_anything_else(payload: bytes) -> None:
    with pytest.raises(Malformed):
        parse_alarm(message(payload), PLANT)


_ANYTHING = st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8), st.lists, max_leaves=4)


@settings(max_examples=60)
@given(st.dictionaries(st.sampled_from([*GOOD, "x"]), _ANYTHING, max_size=4))
def test_no_json_raises_anything_else(changes: dict[str, Any]) -> None:
    try:
        event = parse_alarm(message(GOOD | changes), PLANT)
    except Malformed:
        return
    json.dumps([event.activation_id, event.value, event.unit], allow_nan=False).encode()


@pytest.mark.field("FC-F15")
def test_retained_and_expired_commands_are_ignored() -> None:
    assert ignored_command(message(b"", retained=True), 0) == "retained"
    assert ignored_command(message(b"", expiry_s=2, arrived_mono_ns=10**9), 3 * 10**9) == "expired"
    assert ignored_command(message(b"", expiry_s=2, arrived_mono_ns=10**9), 3 * 10**9 - 1) == ""
    assert ignored_command(message(b""), 10**18) == ""
