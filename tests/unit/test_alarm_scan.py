"""The alarm engine: what it says when of the alarms the appliance itself watches."""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import replace

import pytest

from appliance.contracts.alarm import AlarmEvent, AlarmState
from appliance.contracts.plant import Plant
from appliance.contracts.reading import Quality, Reading
from appliance.foundation.system_clock import SystemClock
from drivers.alarms.scan import AlarmScan
from tests.support.alarm_engine import CLEARED, HOT, RAISED, Engine, ListedLedger, live, plant_of, running
from tests.support.clock import CountingIds, ManualClock
from tests.support.waiting import until


# the appliance's own alarms -------------------------------------------------------------------------------------------
@pytest.mark.req("F6")
async def test_an_alarm_comes_and_goes_with_value_unit_source_and_the_times_of_its_samples() -> None:
    async with running({"condition": HOT}) as it:
        it.sees(heat=50.0)
        it.sees(after_s=1, heat=90.5)
        raised_utc, raised_ns = it.clock.utc(), it.clock.monotonic_ns()
        assert await it.told() == ["a raised"]
        it.sees(after_s=1, heat=85.0)
        it.sees(after_s=1, heat=91.0)
        it.sees(after_s=1, heat=79.5)
        assert await it.told() == ["a cleared"]
        raised, cleared = it.ledger.events
        assert raised == AlarmEvent("plc:line", "a", "act_0001", RAISED, 90.5, "degC", raised_utc, raised_ns)
        now = it.clock.utc(), it.clock.monotonic_ns()
        assert cleared == AlarmEvent("plc:line", "a", "act_0001", CLEARED, 79.5, "degC", *now)
        it.sees(after_s=1, heat=95.0)
        assert await it.told() == ["a raised"]
        assert it.ledger.events[-1].activation == "act_0002", "each activation is one of its own"
        assert it.account() == (3, 3, 0, 0, 0)


@pytest.mark.req("F6")
async def test_levels_of_one_tag_are_alarms_of_their_own_in_declared_order() -> None:
    high, high_high = ({"condition": {"kind": kind, "tag": "m.heat", "limit": at}} for kind, at in (("h", 80), ("hh", 95)))
    async with running(high, high_high, {"condition": {"kind": "l", "tag": "m.heat", "limit": 5}}) as it:
        it.sees(heat=50.0)
        it.sees(heat=99.0)
        assert await it.told() == ["a raised", "b raised"]
        it.sees(heat=90.0)
        it.sees(heat=2.0)
        assert await it.told() == ["b cleared", "a cleared", "c raised"]


@pytest.mark.req("F6")
async def test_the_value_told_is_that_of_the_alarms_tag_whatever_order_the_sample_has() -> None:
    trip = {"condition": {"kind": "bit", "tag": "m.trip"}}
    async with running({**trip, "tag": "m.flow"}, trip) as it:
        it.sees(trip=False, flow=3.5)
        it.sees(trip=True, flow=1.25)
        await it.told()
        it.sees(trip=False)
        it.sees(Quality.STALE, flow=1.25)
        await it.told()
        it.sees(trip=True)
        await it.told()
        values = [(e.alarm_id, e.value, e.unit) for e in it.ledger.events if e.change is RAISED]
        assert values == [("a", 1.25, "m3/h"), ("b", None, ""), ("a", None, "m3/h"), ("b", None, "")]


@pytest.mark.req("F6")
async def test_a_published_tag_is_watched_like_any_other() -> None:
    async with running({"condition": {"kind": "h", "tag": "m.cloud", "limit": 5}}) as it:
        it.sees(cloud=4.0)
        it.sees(cloud=6.0)
        await it.told()
        assert it.ledger.events[0].source == "mqtt"


@pytest.mark.req("F6")
async def test_samples_of_other_tags_are_passed_over() -> None:
    async with running({"condition": HOT}) as it:
        it.sees(flow=500.0, trip=True)
        it.sees(heat=50.0, flow=500.0)
        assert await it.told() == []
        assert it.scan.as_facts()["unknown"] == 0


# start ----------------------------------------------------------------------------------------------------------------
@pytest.mark.req("F6", "F7")
async def test_nothing_is_said_before_a_good_sample_and_then_what_was_true_before_is_state() -> None:
    async with running({"condition": HOT}, {"condition": {"kind": "bit", "tag": "m.trip"}}) as it:
        it.sees(Quality.BAD, heat=None, trip=None)
        it.sees(Quality.STALE, heat=99.0)
        assert await it.told() == []
        assert it.scan.as_facts()["unknown"] == 2
        it.sees(heat=99.0, trip=False)
        it.sees(trip=True)
        assert await it.told() == ["a raised", "b raised"]
        assert [e.is_state for e in it.ledger.events] == [True, False]


@pytest.mark.req("F6", "F7")
async def test_what_the_ledger_knows_is_neither_announced_again_nor_forgotten() -> None:
    known = (live("a", "act_7"), live("b", "act_8"), live("c", "old", state=AlarmState.RETURNED_UNACKNOWLEDGED))
    async with running({"condition": HOT}, {"condition": HOT}, {"condition": HOT}, {"condition": HOT}, know=known) as it:
        it.sees(Quality.STALE, heat=20.0)
        it.sees(heat=85.0)  # between the limits: what is known goes on
        assert await it.told() == []
        it.sees(after_s=1, heat=79.0)
        assert await it.told() == ["a cleared", "b cleared"]
        assert [e.activation_id for e in it.ledger.events] == ["plc:line:a:act_7", "plc:line:b:act_8"]
        assert not any(e.is_state or e.was_missed for e in it.ledger.events)
        it.sees(after_s=1, heat=95.0)
        assert await it.told() == ["a raised", "b raised", "c raised", "d raised"]
        assert {e.activation for e in it.ledger.events[2:]} == {"act_0001", "act_0002", "act_0003", "act_0004"}
        assert not any(e.is_state for e in it.ledger.events)


@pytest.mark.req("F6", "F7")
async def test_what_a_person_closed_and_is_still_so_is_raised_anew() -> None:
    async with running({"condition": HOT}) as it:
        it.sees(heat=50.0)
        it.sees(after_s=1, heat=95.0)
        assert await it.told() == ["a raised"]
        (raised,) = it.ledger.alarms.values()
        it.scan.known(replace(raised, state=AlarmState.NORMAL, cleared_utc=it.clock.utc()))
        it.sees(after_s=1, heat=95.0)
        assert await it.told() == ["a raised"]
        first, second = it.ledger.events
        assert first.activation != second.activation and not second.is_state
        it.sees(after_s=1, heat=50.0)
        assert await it.told() == ["a cleared"] and it.ledger.events[2].activation == second.activation


@pytest.mark.req("F6")
async def test_an_alarm_found_at_start_that_waits_for_its_delay_is_still_state() -> None:
    async with running({"condition": {**HOT, "on_delay_s": 5}}, {"condition": {**HOT, "on_delay_s": 5}}) as it:
        it.sees(heat=95.0)
        it.passes(4.9)
        assert await it.told() == []
        it.passes(0.2)
        assert await it.told() == ["a raised", "b raised"]
        assert all(e.is_state for e in it.ledger.events)
    async with running({"condition": {**HOT, "on_delay_s": 5}}) as it:
        it.sees(heat=95.0)
        it.sees(after_s=1, heat=20.0)
        it.sees(after_s=1, heat=95.0)
        it.passes(5)
        assert await it.told() == ["a raised"]
        assert not it.ledger.events[0].is_state, "it had gone since we first looked"


# delays ---------------------------------------------------------------------------------------------------------------
@pytest.mark.req("F6")
@pytest.mark.field("FC-F16")
async def test_a_chattering_contact_is_one_alarm_and_not_thousands() -> None:
    trip = {"condition": {"kind": "bit", "tag": "m.trip", "on_delay_s": 0.5, "off_delay_s": 2}}
    async with running(trip) as it:
        for _ in range(2_000):  # 50 ms on, 50 ms off
            it.sees(after_s=0.05, trip=True)
            it.sees(after_s=0.05, trip=False)
        assert it.account() == (0, 0, 0, 0, 0)
        it.sees(after_s=0.05, trip=True)
        it.passes(0.499)
        assert await it.told() == []
        it.passes(0.001)
        assert await it.told() == ["a raised"]
        for _ in range(2_000):
            it.sees(after_s=0.05, trip=False)
            it.sees(after_s=0.05, trip=True)
        it.sees(after_s=0.05, trip=False)
        it.passes(2)
        assert await it.told() == ["a cleared"]
        assert it.account() == (2, 2, 0, 0, 0)


@pytest.mark.req("F6")
async def test_delays_pass_without_a_further_sample_and_without_idle_polling(monkeypatch: pytest.MonkeyPatch) -> None:
    high = {"kind": "h", "limit": 5, "on_delay_s": 0.2}
    conditions = ({**high, "tag": "m.heat"}, {**high, "tag": "m.flow"}, {**high, "tag": "m.far", "on_delay_s": 600})
    clock = SystemClock()
    ledger = ListedLedger(clock)
    scan = AlarmScan(plant_of(*({"condition": condition} for condition in conditions)), clock, CountingIds(), ledger)
    wakes: list[int] = []
    expire = scan.expire

    def counted() -> None:
        wakes.append(1)
        expire()

    monkeypatch.setattr(scan, "expire", counted)
    task = asyncio.create_task(scan.run())
    try:
        for number, tags in enumerate([("heat",), ("far", "flow")], 1):  # the second while nothing is waited for
            started_ns = clock.monotonic_ns()
            scan.take([Reading(f"m.{tag}", 9.0, "", Quality.GOOD, clock.utc(), (1,)) for tag in tags])
            await until(lambda number=number: len(ledger.events) == number, "it came")  # type: ignore[misc]
            assert 0.2 <= (clock.monotonic_ns() - started_ns) / 1e9 < 5
        assert [e.alarm_id for e in ledger.events] == ["a", "b"]
        assert len(wakes) < 10, "it wakes when something is due"
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.mark.req("F6")
@pytest.mark.field("FC-F05")
async def test_no_delay_ends_while_the_value_cannot_be_seen() -> None:
    late = {**HOT, "on_delay_s": 5, "off_delay_s": 5}
    async with running({"condition": late}) as it:
        it.sees(heat=95.0)
        it.sees(Quality.STALE, after_s=1, heat=95.0)
        it.passes(60)
        assert await it.told() == []
        it.sees(heat=95.0)
        assert await it.told() == ["a raised"]
        it.sees(heat=20.0)
        it.link("silent")
        it.passes(60)
        assert await it.told() == []
        it.link("")
        it.passes(60)
        assert await it.told() == [], "in sight is not yet a value"
        it.sees(heat=20.0)
        assert await it.told() == ["a cleared"]


# the ledger is away ---------------------------------------------------------------------------------------------------
@pytest.mark.req("F6", "F7")
async def test_while_the_ledger_is_away_order_is_kept_and_pairs_are_accounted_for(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    trip, hot = {"condition": {"kind": "bit", "tag": "m.trip"}}, {"condition": HOT}
    async with running(trip, hot) as it:
        it.ledger.is_away = True
        it.sees(trip=False, heat=50.0)
        for _ in range(500):
            it.sees(trip=True)
            it.sees(trip=False)
        it.sees(heat=95.0)
        for _ in range(10):
            it.sees(trip=True)
            it.sees(trip=False)
        await until(lambda: it.ledger.tries > 2, "it is offered again and again")
        assert it.account() == (1021, 0, 0, 1018, 3), "the first coming, its going, and the other alarm's coming"
        assert len(it.scan._line) == 2
        it.ledger.is_away = False
        assert await it.told() == ["a raised", "b raised", "a cleared"]
        assert it.ledger.events[0].activation == it.ledger.events[2].activation
        assert it.account() == (1021, 3, 0, 1018, 0)
        said = [r.message for r in caplog.records if r.name == "drivers.alarms.ledger_line"]
        assert said == ["alarms.waits_for_ledger", "alarms.ledger_back"], "once a change"


@pytest.mark.req("F6")
async def test_what_is_true_when_the_ledger_comes_back_is_what_it_hears() -> None:
    async with running({"condition": {"kind": "bit", "tag": "m.trip"}}) as it:
        it.ledger.is_away = True
        it.sees(trip=False)
        for _ in range(3):
            it.sees(trip=True)
            it.sees(trip=False)
        it.sees(trip=True)
        it.ledger.is_away = False
        assert await it.told() == ["a raised"]
        it.sees(trip=False)
        assert await it.told() == ["a cleared"]
        assert it.account() == (8, 2, 0, 6, 0)


@pytest.mark.req("F6")
async def test_what_the_ledger_refuses_is_counted_and_does_not_stop_the_rest(caplog: pytest.LogCaptureFixture) -> None:
    async with running({"condition": HOT}) as it:
        it.ledger.refuses = True
        it.sees(heat=50.0)
        it.sees(heat=95.0)
        assert await it.told() == []
        assert it.account() == (1, 0, 1, 0, 0)
        assert "alarms.refused" in [r.message for r in caplog.records]
        it.ledger.refuses = False
        it.sees(heat=50.0)
        it.sees(heat=95.0)
        assert await it.told() == ["a cleared", "a raised"]


@pytest.mark.req("F6")
async def test_started_again_after_a_failure_it_hands_in_what_was_on_its_way() -> None:
    engine = Engine({"condition": HOT})
    engine.ledger.is_away = True
    for _ in range(2):
        task = asyncio.create_task(engine.scan.run())
        engine.sees(heat=50.0)
        engine.sees(heat=95.0)
        await until(lambda: engine.ledger.tries > 0, "it was offered")
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    engine.ledger.is_away = False
    task = asyncio.create_task(engine.scan.run())
    assert await engine.told() == ["a raised"]
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


# cost -----------------------------------------------------------------------------------------------------------------
def test_five_hundred_alarms_cost_little_a_sample() -> None:
    watched = [{"condition": {**HOT, "limit": 100 + n}} for n in range(500)]
    common = {"asset": "m", "priority": "low", "fault": "f", "playbook": "p", "text": {"en": "x"}}
    plant = plant_of()
    told = plant.model_dump(mode="json") | {"alarms": [common | {"id": f"a{n}"} | alarm for n, alarm in enumerate(watched)]}
    clock = ManualClock()
    scan = AlarmScan(Plant.model_validate(told), clock, CountingIds(), ListedLedger(clock))
    readings = [Reading("m.heat", 50.0 + n % 7, "degC", Quality.GOOD, clock.utc(), (1,)) for n in range(100)]
    started_ns = time.process_time_ns()
    for reading in readings:
        scan.take([reading])
    us_an_alarm = (time.process_time_ns() - started_ns) / 1e3 / len(readings) / 500
    assert us_an_alarm < 20  # measured below 1.5 on a busy machine
