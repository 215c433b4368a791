"""Quality with source time, and report by exception."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appliance.contracts.link import Link
from appliance.contracts.reading import Quality, Reading
from appliance.contracts.tag import Tag
from drivers.modbus.blocks import merge
from drivers.modbus.reporting import Reporting, TrackedBlock
from tests.support.clock import ManualClock

KEY, INTERVAL_S = "a.t", 1.0


class Desk:
    def __init__(self, **changes: Any) -> None:
        base = {
            "name": "t", "asset": "a", "link": "l", "device_id": 1, "kind": "input_register", "address": 0, "type": "int16",
            "spoken": {}, "unit": "degC", "poll": "fast",
        }  # fmt: skip
        tag = Tag.model_validate(base | changes)
        self.clock = ManualClock()
        self.reporting = Reporting([tag], {"fast": INTERVAL_S}, self.clock)
        (block,) = merge([tag], {"l": Link(id="l", host="x")})
        self.block: TrackedBlock = self.reporting.tracked(block)
        self.samples: list[Reading] = []
        self.news: list[Reading] = []
        self.reporting.sample_listeners.append(self._hear(self.samples))
        self.reporting.change_listeners.append(self._hear(self.news))

    def _hear(self, into: list[Reading]) -> Any:
        def hear(readings: Sequence[Reading]) -> None:
            into.extend(readings)

        return hear

    def take(self, *raw: int) -> Reading:
        self.reporting.polled(self.block, tuple(word & 0xFFFF for word in raw))
        return self.samples[-1]

    def miss(self, why: str = "no answer") -> Reading:
        (reading,) = readings = self.reporting.miss(self.block, why)
        self.reporting.tell(self.block, readings)
        return reading

    def last(self, lost_why: str = "") -> Reading | None:
        return self.reporting.tracks[KEY].last(self.clock.monotonic_ns(), lost_why)


@pytest.mark.req("F3")
def test_every_sample_is_told_and_only_what_moved_is_news() -> None:
    desk = Desk()
    for raw in (5, 5, 5, -5, -5):
        desk.take(raw)
        desk.clock.advance(INTERVAL_S)
    assert [reading.value for reading in desk.samples] == [5, 5, 5, -5, -5]
    assert [reading.value for reading in desk.news] == [5, -5]
    times = [reading.source_utc for reading in desk.samples]
    assert len(set(times)) == 5, "each sample has the time at which it came"


@pytest.mark.req("F3")
def test_an_absolute_deadband_counts_from_the_last_reported_value() -> None:
    desk = Desk(deadband=0.3, scale=0.1)
    for raw in (100, 101, 102, 103, 104, 101, 100):  # a creep is reported as soon as it adds up, and so is its way back
        desk.take(raw)
    assert [reading.value for reading in desk.news] == [10.0, 10.3, 10.0]


@pytest.mark.req("F3")
def test_a_percent_deadband_counts_from_the_last_reported_value() -> None:
    desk = Desk(deadband_percent=10)
    for raw in (100, 109, 91, 110, 100, 99, 0, 1):
        desk.take(raw)
    assert [reading.value for reading in desk.news] == [100, 110, 99, 0, 1]


@given(st.lists(st.integers(-1000, 1000), min_size=1), st.floats(0.5, 200))
def test_what_was_reported_last_is_never_off_by_the_deadband(values: list[int], deadband: float) -> None:
    desk = Desk(deadband=deadband)
    for value in values:
        desk.take(value)
        assert abs(float(desk.news[-1].value) - value) < deadband  # type: ignore[arg-type]


@pytest.mark.req("F3")
@pytest.mark.field("FC-F05")
def test_silence_makes_a_value_stale_and_keeps_its_time() -> None:
    desk = Desk()
    good = desk.take(94)
    desk.clock.advance(14)
    stale = desk.miss()
    assert (stale.quality, stale.value, stale.source_utc, stale.raw) == (Quality.STALE, 94, good.source_utc, (94,))
    assert stale.why == "no answer (input_register 0 of device 1 on l)"
    assert stale.age_s(desk.clock) == 14
    desk.miss()
    desk.clock.advance(1)
    assert desk.last() == stale
    back = desk.take(94)
    assert (back.quality, back.source_utc) == (Quality.GOOD, desk.clock.utc())
    assert [reading.quality for reading in desk.news] == [Quality.GOOD, Quality.STALE, Quality.GOOD], "each quality once"


@pytest.mark.field("FC-F05")
def test_what_was_never_read_is_bad() -> None:
    desk = Desk()
    assert desk.last() is None
    assert desk.miss().quality is Quality.BAD
    assert desk.news[-1].value is None


@pytest.mark.field("FC-F12")
def test_no_number_is_bad_and_news_once() -> None:
    desk = Desk(sentinels=[0x8000])
    desk.take(20)
    for _ in range(3):
        bad = desk.take(0x8000)
    assert (bad.value, bad.quality, bad.source_utc, bad.raw) == (None, Quality.BAD, None, (0x8000,))
    assert [reading.quality for reading in desk.news] == [Quality.GOOD, Quality.BAD]
    assert desk.last("the device is lost") == bad


@pytest.mark.req("F3")
@pytest.mark.field("FC-F05")
def test_the_newest_sample_grows_stale_by_itself() -> None:
    desk = Desk()
    good = desk.take(7)
    desk.clock.advance(3 * INTERVAL_S)
    assert desk.last() == good
    desk.clock.advance(0.5)
    stale = desk.last()
    assert stale is not None
    assert (stale.quality, stale.value, stale.source_utc) == (Quality.STALE, 7, good.source_utc)
    assert "not read for 3.5 s" in stale.why


def test_a_lost_device_has_no_fresh_values() -> None:
    desk = Desk()
    good = desk.take(7)
    lost = desk.last("no answer within 1 s")
    assert lost is not None
    assert (lost.quality, lost.source_utc) == (Quality.STALE, good.source_utc)
    assert lost.why == "no answer within 1 s (input_register 0 of device 1 on l)"
    assert desk.last() == good


@pytest.mark.req("F3")
def test_an_answer_that_comes_again_moves_the_source_time_on_and_only_that() -> None:
    desk = Desk(sentinels=[0x8000])
    for _ in range(3):
        desk.clock.advance(INTERVAL_S)
        reading = desk.take(7)
    seen_utc = desk.clock.utc()
    assert reading.source_utc == seen_utc
    assert desk.last() == reading
    desk.clock.advance(INTERVAL_S)
    assert desk.miss().source_utc == seen_utc, "when it was seen last"
    for _ in range(2):
        desk.clock.advance(INTERVAL_S)
        desk.take(7)
    seen_utc = desk.clock.utc()
    desk.clock.advance(INTERVAL_S)
    for answer in (desk.take(0x8000), desk.take(0x8000)):
        assert (answer.value, answer.quality, answer.source_utc) == (None, Quality.BAD, None)
    stale = desk.miss()
    assert (stale.value, stale.quality, stale.source_utc) == (7, Quality.STALE, seen_utc), "bad answers do not make it newer"
    desk.clock.advance(INTERVAL_S)
    assert desk.take(0x8000).quality is Quality.BAD, "after a miss the same answer is news again"
    assert [str(reading.quality) for reading in desk.news] == ["good", "stale", "good", "bad", "stale", "bad"]


@pytest.mark.req("F3")
def test_a_poll_after_a_read_on_demand_is_no_repeat() -> None:
    desk = Desk()
    desk.take(1)
    desk.take(1)
    on_demand = desk.reporting.tracked(desk.block.block)
    desk.reporting.take(on_demand, (2,))
    desk.clock.advance(INTERVAL_S)
    assert desk.take(1).source_utc == desk.clock.utc()
    last = desk.last()
    assert last is not None
    assert (last.value, last.source_utc) == (1, desk.clock.utc())


def test_a_value_read_on_demand_is_news_only_when_the_poll_finds_it() -> None:
    desk = Desk()
    desk.take(1)
    desk.reporting.take(desk.block, (2,))
    assert [reading.value for reading in desk.news] == [1]
    desk.take(2)
    assert [reading.value for reading in desk.news] == [1, 2]


def test_names_and_texts_are_news_when_they_differ() -> None:
    desk = Desk(names={1: "off", 2: "on"})
    for raw in (1, 1, 2, 2, 1):
        desk.take(raw)
    assert [reading.value for reading in desk.news] == ["off", "on", "off"]
