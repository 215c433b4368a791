"""What each condition says of readings, and how delays make it count: examples, and properties against slow reference models."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from appliance.contracts.alarm import Alarm, AlarmState
from appliance.contracts.alarm_definition import AlarmDefinition, Condition
from appliance.contracts.plant import Plant
from appliance.contracts.reading import Quality, Reading, Value
from appliance.contracts.tag import Tag
from drivers.alarms.conditions import RATE_SLOTS, RateJudge, judge_of
from drivers.alarms.delay import Delay
from drivers.alarms.first_out import first_out, first_outs
from drivers.alarms.watch import AlarmWatch
from tests.support.plant import shipped_plant

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
S = 10**9
BOOL, NUMBER, PUBLISHED = (
    Tag.model_validate({"name": "t", "asset": "a", "spoken": {}} | more)
    for more in (
        {"link": "l", "device_id": 1, "kind": "coil", "address": 0, "type": "bool"},
        {"link": "l", "device_id": 1, "kind": "input_register", "address": 0, "type": "float32"},
        {"link": "mqtt", "kind": "published", "type": "float64"},
    )
)


def good(value: Value) -> Reading:
    return Reading("a.t", value, "", Quality.GOOD, NOON, (1,))


STALE = Reading("a.t", 99.0, "", Quality.STALE, NOON, (1,), "silent")
NO_NUMBER = Reading("a.t", None, "", Quality.BAD, None, (0x8000,), "the device gives no number")
SILENT = Reading("a.t", None, "", Quality.BAD, None, (), "silent")


def said(condition: dict[str, object], readings: Sequence[Reading], tag: Tag = NUMBER, held: bool = False) -> list[bool | None]:
    """What is said of each reading, one second apart."""
    judge, answers = judge_of(Condition.model_validate({"tag": "a.t"} | condition), tag), []
    for second, reading in enumerate(readings):
        answer = judge.judge(reading, second * S, held)
        held = held if answer is None else answer
        answers.append(answer)
    return answers


# conditions -----------------------------------------------------------------------------------------------------------
@pytest.mark.req("F6")
def test_a_bit_is_active_when_it_is_declared_to_be() -> None:
    readings = [good(False), good(True), STALE, SILENT, good(False)]
    assert said({"kind": "bit"}, readings, BOOL) == [False, True, None, None, False]
    assert said({"kind": "bit", "active_when": False}, readings, BOOL) == [True, False, None, None, True]
    assert said({"kind": "bit"}, [good(1.0)], BOOL) == [None]  # not a bit


@pytest.mark.req("F6")
@pytest.mark.parametrize("kind", ["h", "hh"])
def test_a_high_limit_is_reached_at_it_and_over_when_back_by_more_than_the_hysteresis(kind: str) -> None:
    values = [89.9, 90, 95, 80, 79.9, 85, 90.0]
    assert said({"kind": kind, "limit": 90, "hysteresis": 10}, [*map(good, values)]) == [
        False, True, True, True, False, False, True,
    ]  # fmt: skip


@pytest.mark.req("F6")
@pytest.mark.parametrize("kind", ["l", "ll"])
def test_a_low_limit_is_its_mirror_image(kind: str) -> None:
    values = [2.1, 2, -5, 3.0, 3.1, 2.5, 2]
    assert said({"kind": kind, "limit": 2, "hysteresis": 1}, [*map(good, values)]) == [
        False, True, True, True, False, False, True,
    ]  # fmt: skip


def test_without_hysteresis_a_limit_is_over_at_once() -> None:
    assert said({"kind": "h", "limit": 5}, [good(5), good(4.999), good(5)]) == [True, False, True]


@pytest.mark.req("F6")
@pytest.mark.field("FC-F05", "FC-F12")
@pytest.mark.parametrize("condition", [{"kind": "h", "limit": 5}, {"kind": "ll", "limit": 5}, {"kind": "rate", "limit": 5}])
def test_what_is_no_good_number_says_nothing_about_a_value(condition: dict[str, object]) -> None:
    nothing = [STALE, NO_NUMBER, SILENT, good(math.nan), good(math.inf), good("running")]
    assert said(condition, nothing) == [None] * 6
    assert said(condition, nothing, held=True) == [None] * 6


@pytest.mark.req("F6")
@pytest.mark.field("FC-F12")
def test_a_bad_value_is_an_answer_without_a_number_and_not_silence() -> None:
    assert said({"kind": "bad_value"}, [SILENT, good(1), STALE, NO_NUMBER, SILENT, good(1)]) == [
        None, False, None, True, None, False,
    ]  # fmt: skip
    assert said({"kind": "bad_value"}, [good(1), SILENT], PUBLISHED) == [False, True]  # published as no number


def test_what_cannot_be_judged_is_no_plant() -> None:
    told = shipped_plant().model_dump(mode="json")
    told["alarms"][0]["condition"] = {"kind": "bit", "tag": "motor_3.temperature"}
    with pytest.raises(ValueError, match=r"condition bit needs a bool, motor_3\.temperature is int16"):
        Plant.model_validate(told)
    next(tag for tag in told["tags"] if tag["name"] == "reset")["poll"] = "alarms"
    told["alarms"][0]["condition"] = {"kind": "h", "tag": "motor_3.reset", "limit": 1}
    with pytest.raises(ValueError, match=r"condition h needs a number, which motor_3\.reset is not"):
        Plant.model_validate(told)


# rate of change -------------------------------------------------------------------------------------------------------
@pytest.mark.req("F6")
def test_a_rate_counts_changes_both_ways_within_its_window_only() -> None:
    rate: dict[str, object] = {"kind": "rate", "limit": 10, "within_s": 3}
    assert said(rate, [*map(good, [0, 3, 6, 9, 12, 15])]) == [False] * 6
    assert said(rate, [*map(good, [0, 4, 8, 12])]) == [False, False, False, True]
    assert said(rate, [*map(good, [20, 9.9, 20, 20, 20, 20])]) == [False, True, True, True, True, False]


@pytest.mark.req("F6")
def test_a_rate_is_over_only_after_a_window_without_a_gap() -> None:
    rate: dict[str, object] = {"kind": "rate", "limit": 10, "within_s": 2}
    assert said(rate, [good(0)] * 4, held=True) == [None, None, False, False]
    assert said(rate, [good(0), STALE, good(0), good(0), good(0)], held=True) == [None, None, None, None, False]
    # A change over the gap is a change, if it is not older than the window.
    assert said(rate, [good(0), STALE, good(10)]) == [False, None, True]


samples = st.lists(st.tuples(st.integers(1, 500), st.integers(-50, 50)), min_size=1, max_size=120)


def _change(taken: Sequence[tuple[int, int]], window_ms: float) -> int:
    now_ms = taken[-1][0]
    values = [value for at_ms, value in taken if at_ms >= now_ms - window_ms]
    return max(values) - min(values)


@pytest.mark.req("F6")
@given(samples, st.integers(1, 60), st.integers(200, 20_000))
@settings(max_examples=150, deadline=None)
def test_a_rate_finds_every_change_within_its_window_and_none_that_is_older_by_more_than_a_slot(
    steps: list[tuple[int, int]], limit: int, within_ms: int
) -> None:
    judge = RateJudge(limit, 0.0, within_ms / 1000)
    taken: list[tuple[int, int]] = []
    at_ms = 0
    for pause_ms, value in steps:
        at_ms += pause_ms
        taken.append((at_ms, value))
        holds = judge.judge(good(value), at_ms * 10**6, held=False)
        if _change(taken, within_ms) >= limit:
            assert holds is True
        elif _change(taken, within_ms * (1 + 1 / RATE_SLOTS) + 1) < limit:
            assert holds is False


def test_a_rate_remembers_no_more_than_a_reading_a_slot() -> None:
    chance = random.Random(7)
    values = [chance.gauss(0, 100) for _ in range(3_000)]
    for one_way in (values, sorted(values), sorted(values, reverse=True)):
        judge = RateJudge(1e9, 0.0, 86_400.0)
        for number, value in enumerate(one_way):
            judge.judge(good(value), number * 60 * S, held=False)
        assert max(len(judge._highest), len(judge._lowest)) <= RATE_SLOTS + 2


# delays ---------------------------------------------------------------------------------------------------------------
def test_a_delay_counts_from_the_first_and_not_from_the_last() -> None:
    delay = Delay(5, 2)
    assert [delay.hear(True, second * S) for second in range(7)] == [False] * 5 + [True, False]
    assert not delay.hear(False, 10 * S)
    assert delay.due_mono_ns == 12 * S
    assert not delay.hear(True, 11 * S)
    assert delay.due_mono_ns is None
    assert not delay.hear(False, 20 * S)
    assert not delay.expire(22 * S - 1)
    assert delay.expire(22 * S)
    assert (delay.is_active, delay.due_mono_ns) == (False, None)


def test_nothing_counts_while_nothing_is_known_but_the_time_goes_on() -> None:
    delay = Delay(5, 0)
    delay.hear(True, 0)
    delay.lose_sight()
    assert delay.due_mono_ns is None
    assert not delay.expire(60 * S)
    assert delay.hear(True, 60 * S), "a link that blinks must not keep an alarm from coming"
    delay.lose_sight()
    assert delay.is_active


class SlowDelay:
    """The rule, read from its whole history: active once the newest answers, all the same, span the delay."""

    def __init__(self, on_ms: int, off_ms: int) -> None:
        self.on_ms, self.off_ms, self.is_active = on_ms, off_ms, False
        self.told: list[tuple[int, bool]] = []

    def hear(self, holds: bool, at_ms: int) -> None:
        self.told.append((at_ms, holds))
        self.look(at_ms)

    def look(self, at_ms: int) -> None:
        since_ms = at_ms
        for told_ms, holds in reversed(self.told):
            if holds == self.is_active:
                break
            since_ms = told_ms
        if self.told[-1][1] != self.is_active and at_ms - since_ms >= (self.off_ms if self.is_active else self.on_ms):
            self.is_active = not self.is_active


@pytest.mark.req("F6")
@pytest.mark.field("FC-F16")
@given(
    st.lists(st.tuples(st.integers(1, 400), st.booleans(), st.booleans()), min_size=1, max_size=80),
    st.integers(0, 1500),
    st.integers(0, 1500),
)
@settings(max_examples=300, deadline=None)
def test_a_delay_is_what_the_slow_rule_says(steps: list[tuple[int, bool, bool]], on_ms: int, off_ms: int) -> None:
    delay, slow, at_ms = Delay(on_ms / 1000, off_ms / 1000), SlowDelay(on_ms, off_ms), 0
    for pause_ms, holds, only_time in steps:
        if slow.told and only_time:  # time passes without an answer
            at_ms += pause_ms
            delay.expire(at_ms * 10**6)
            slow.look(at_ms)
        else:
            if slow.told:  # the timer fires when it is due, so nothing is ever late
                while delay.due_mono_ns is not None and delay.due_mono_ns <= (at_ms + pause_ms) * 10**6:
                    due_ms = delay.due_mono_ns // 10**6
                    delay.expire(delay.due_mono_ns)
                    slow.look(due_ms)
                    assert delay.is_active is slow.is_active
            at_ms += pause_ms
            delay.hear(holds, at_ms * 10**6)
            slow.hear(holds, at_ms)
        assert delay.is_active is slow.is_active
        assert delay.due_mono_ns is None or delay.due_mono_ns > at_ms * 10**6


@pytest.mark.req("F6")
@pytest.mark.field("FC-F16")
@given(st.lists(st.floats(80.0, 89.999), min_size=1, max_size=200), st.booleans(), st.integers(0, 3))
def test_within_the_band_of_the_hysteresis_nothing_comes_or_goes(values: list[float], held: bool, delay_s: int) -> None:
    condition = {"kind": "h", "limit": 90, "hysteresis": 10}
    assert set(said(condition, [*map(good, values)], held=held)) == {held}
    delay = Delay(delay_s, delay_s)
    delay.settle(held)
    assert not any(delay.hear(held, second * S) for second in range(len(values)))


@pytest.mark.req("F6")
@pytest.mark.field("FC-F16")
@given(st.lists(st.tuples(st.integers(1, 999), st.booleans()), min_size=2, max_size=200))
@settings(deadline=None)
def test_changes_are_never_closer_than_the_delays_allow(steps: list[tuple[int, bool]]) -> None:
    delay, at_ms = Delay(1.0, 2.0), 0
    began: int | None = None  # the condition has held since then without a break
    changes: list[int] = []
    for pause_ms, holds in steps:
        at_ms += pause_ms
        began = None if not holds else at_ms if began is None else began
        if delay.hear(holds, at_ms * 10**6):
            changes.append(at_ms)
            if delay.is_active:
                assert began is not None
                assert at_ms - began >= 1000
    assert all(later - earlier >= 1000 for earlier, later in pairwise(changes))


@pytest.mark.req("F6")
@given(
    st.lists(st.tuples(st.integers(1, 900), st.one_of(st.none(), st.integers(76, 94))), min_size=1, max_size=60),
    st.sampled_from([0.0, 0.5, 1.5]),
    st.sampled_from([0.0, 0.7]),
)
@settings(max_examples=300, deadline=None)
def test_a_watched_limit_with_hysteresis_and_delays_is_what_the_slow_rule_says(
    steps: list[tuple[int, int | None]], on_s: float, off_s: float
) -> None:
    condition = {"kind": "h", "tag": "a.t", "limit": 90, "hysteresis": 10, "on_delay_s": on_s, "off_delay_s": off_s}
    told = {"id": "x", "asset": "a", "condition": condition, "priority": "low", "fault": "f", "playbook": "p", "text": {}}
    definition = AlarmDefinition.model_validate(told)
    watch = AlarmWatch(definition, Condition.model_validate(condition), "plc:l", NUMBER)
    slow, values, at_ms = SlowDelay(int(on_s * 1000), int(off_s * 1000)), [], 0
    for pause_ms, value in steps:
        while watch.delay.due_mono_ns is not None and watch.delay.due_mono_ns <= (at_ms + pause_ms) * 10**6:
            due_ms = watch.delay.due_mono_ns // 10**6
            watch.delay.expire(watch.delay.due_mono_ns)
            slow.look(due_ms)
        at_ms += pause_ms
        changed = watch.hear(STALE if value is None else good(value), at_ms * 10**6)
        before = slow.is_active
        if value is not None:
            values.append(value)
            outside = [v for v in values if v >= 90 or v < 80]  # in between whatever was last outside the band counts
            slow.hear(bool(outside) and outside[-1] >= 90, at_ms)
        assert watch.delay.is_active is slow.is_active
        assert changed is (before != slow.is_active)


@pytest.mark.req("F6")
@given(
    st.lists(
        st.tuples(st.integers(1, 900), st.sampled_from(["same", "same", "same", "lost", "settle", 76, 85, 94])), max_size=60
    ),
    st.sampled_from(["h", "rate"]),
    st.sampled_from([0.0, 0.5, 1.5]),
)
@settings(max_examples=300, deadline=None)
def test_an_alarm_that_looks_at_repeats_only_while_it_is_restless_says_the_same_as_one_that_looks_at_all(
    steps: list[tuple[int, int | str]], kind: str, delay_s: float
) -> None:
    condition = {"kind": kind, "tag": "a.t", "limit": 90 if kind == "h" else 9, "on_delay_s": delay_s, "off_delay_s": delay_s}
    condition |= {"hysteresis": 8} if kind == "h" else {"within_s": 1.0}
    told = {"id": "x", "asset": "a", "condition": condition, "priority": "low", "fault": "f", "playbook": "p", "text": {}}
    definition, restless = AlarmDefinition.model_validate(told), dict[AlarmWatch, str]()
    looking, sparing = (AlarmWatch(definition, Condition.model_validate(condition), "plc:l", NUMBER, r) for r in ({}, restless))
    reading, at_ms, is_seen = good(85), 0, False
    for pause_ms, step in steps:
        at_ms += pause_ms
        came = looking.delay.expire(at_ms * 10**6)
        assert came is sparing.delay.expire(at_ms * 10**6)
        assert not came or looking.finding(1.0, "") == sparing.finding(1.0, "")
        reading = replace(good(step) if isinstance(step, int) else reading, source_utc=NOON + timedelta(milliseconds=at_ms))
        if step == "lost":
            looking.lose_sight()
            sparing.lose_sight()
        elif step == "settle":
            for watch in (looking, sparing):
                watch.learn(alarm("x", number=at_ms))
                watch.settle()
        else:
            is_new = isinstance(step, int) or not is_seen
            came = looking.hear(reading, at_ms * 10**6)
            assert came is (sparing.hear(reading, at_ms * 10**6) if is_new or sparing in restless else False)
            assert not came or looking.finding(1.0, "") == sparing.finding(1.0, "")
        is_seen = is_seen if step == "settle" else step != "lost"
        assert looking.delay.is_active is sparing.delay.is_active
        assert looking.delay.due_mono_ns == sparing.delay.due_mono_ns


# first-out ------------------------------------------------------------------------------------------------------------
def alarm(alarm_id: str, source: str = "line_3_plc", at_s: float | None = None, number: int = 1) -> Alarm:
    at = None if at_s is None else NOON + timedelta(seconds=at_s)
    told = f"{source}:{alarm_id}:{number}"
    return Alarm(
        told, alarm_id, source, "a", "high", AlarmState.UNACKNOWLEDGED, None, "", None, NOON, None, None, None, 1, at
    )  # fmt: skip


@pytest.mark.req("F6")
def test_the_first_out_is_the_earliest_by_the_clock_of_the_source_that_was_heard_first() -> None:
    late, early = alarm("b", at_s=5), alarm("c", at_s=3)
    other = alarm("d", "other_plc", at_s=1)  # another clock says nothing
    untimed = alarm("e")
    assert first_out([late, other, early]) is early
    assert first_out([other, late, early]) is other
    assert first_out([untimed, early]) is untimed  # when it came is not known better than by the order
    assert first_out([late, untimed]) is late
    assert first_out([alarm("b", at_s=3, number=2), early]).activation_id == "line_3_plc:b:2"  # order decides between equals


@pytest.mark.req("F6")
@pytest.mark.parametrize("source", ["plc:line_3", "mqtt"])
def test_what_the_appliance_found_itself_is_in_the_order_in_which_it_was_found(source: str) -> None:
    found = [alarm("b", source, at_s=50), alarm("c", source, at_s=3)]  # the clock was set in between
    assert first_out(found) is found[0]


@pytest.mark.req("F6")
def test_each_group_has_its_own_first_out() -> None:
    told = shipped_plant().model_dump(mode="json")
    for definition, group in zip(told["alarms"], ["drive", "drive", "water", None], strict=True):
        definition["group"] = group
    plant = Plant.model_validate(told)
    one, two, three, four = (alarm(each.id, at_s=9 - n) for n, each in enumerate(plant.alarms))
    assert first_outs([one, two, three, four, alarm("gone")], plant) == {"drive": two, "water": three}
