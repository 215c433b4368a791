"""Signals, the timeline, and that the same seed is the same run."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from appliance.contracts.reading import Value
from appliance.foundation.system_clock import SystemClock
from drivers.sim.gateway import Gateway
from drivers.sim.journal import Journal
from drivers.sim.orders import ORDERS, Order
from drivers.sim.scenario import Scenario
from drivers.sim.signals import SIGNALS
from drivers.sim.simulation import Simulation
from drivers.sim.timeline import Timeline
from tests.support.plant import shipped_plant

PLANT = shipped_plant()


def played(told: dict[str, Any], times: list[float], **context: Any) -> list[Value]:
    signal = SIGNALS.validate_python(told, context=context)
    values: list[Value] = []
    before: Value | None = None
    last_s, chance = 0.0, random.Random(1)
    for t_s in times:
        before = signal.after(before, t_s, t_s - last_s, chance, {"a.b": 8.0}.__getitem__)
        last_s = t_s
        values.append(before)
    return values


def test_a_ramp_stays_starts_again_or_goes_back() -> None:
    times = [0.0, 5.0, 10.0, 15.0, 25.0]
    ramp = {"signal": "ramp", "from": 0, "to": 100, "over_s": 10}
    assert played(ramp, times) == [0, 50, 100, 100, 100]
    assert played(ramp | {"then": "again"}, times) == [0, 50, 0, 50, 50]
    assert played(ramp | {"then": "back"}, times) == [0, 50, 100, 50, 50]


def test_a_sine_goes_up_first() -> None:
    values = played({"signal": "sine", "mean": 10, "amplitude": 2, "period_s": 4}, [0, 1, 2, 3])
    assert values == pytest.approx([10, 12, 10, 8])


def test_a_square_follows_its_duty_exactly_on_the_edge() -> None:
    steps = [n * 0.05 for n in range(16)]
    values = played({"signal": "square", "period_s": 0.4, "duty": 0.25}, steps)
    assert values == ([True] * 2 + [False] * 6) * 2


def test_steps_take_texts_and_states() -> None:
    assert played({"signal": "steps", "values": ["idle", "run"], "every_s": 2}, [0, 1.9, 2, 4]) == ["idle", "idle", "run", "idle"]


def test_a_lag_nears_another_tag() -> None:
    values = played({"signal": "lag", "towards": "a.b", "gain": 2, "bias": 1, "time_constant_s": 10, "start": 0}, [0, 10, 1000])
    assert values == pytest.approx([0, 17 * (1 - 0.36788), 17], abs=0.01)


def test_a_random_walk_stays_within_its_bounds_and_moves() -> None:
    values = played({"signal": "random_walk", "start": 5, "spread": 0.2, "low": 4, "high": 6}, [float(n) for n in range(500)])
    assert all(4 <= float(value) <= 6 for value in values)
    assert len(set(values)) > 300


def test_a_file_is_played_and_begins_again(tmp_path: Path) -> None:
    (tmp_path / "v.csv").write_text("seconds,value\n0,1\n# note\n2,true\n4,stop\n6,0\n", encoding="utf-8")
    told = {"signal": "file", "file": "v.csv"}
    assert played(told, [0, 1, 2, 4, 5.9, 6, 8], folder=tmp_path) == [1, 1, True, "stop", "stop", 1, True]
    assert played(told | {"again": False}, [7], folder=tmp_path) == [0]


@pytest.mark.parametrize("text", ["5,1\n2,1\n", "", "a,b\nc,d\n", "1\n"])
def test_a_bad_file_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "v.csv").write_text(text, encoding="utf-8")
    with pytest.raises(ValidationError):
        SIGNALS.validate_python({"signal": "file", "file": "v.csv"}, context={"folder": tmp_path})


def order(**told: Any) -> Order:
    return ORDERS.validate_python(told)


def test_the_timeline_keeps_order_and_repeats() -> None:
    timeline = Timeline()
    timeline.add([order(do="counts", at_s=1), order(do="stop", at_s=1), order(do="behave", at_s=2, every_s=3, rounds=2)])
    assert [each.do for each in timeline.due(0.9)] == []
    assert [each.do for each in timeline.due(1.0)] == ["counts", "stop"]
    assert [each.do for each in timeline.due(20.0)] == ["behave", "behave"]
    assert timeline.due(1000.0) == []
    timeline.add([order(do="counts", at_s=1)], repeat_every_s=10)
    assert [len(timeline.due(t_s)) for t_s in (1, 5, 11, 21, 41)] == [1, 0, 1, 1, 2]


class Told:
    """A simulation that listens nowhere: time passes only when it is stepped."""

    def __init__(self, scenario: dict[str, Any], *, seed: int = 0) -> None:
        self.reports: list[dict[str, Any]] = []
        self.stopped = False
        clock = SystemClock()
        self.journal = Journal(None)
        gateway = Gateway(PLANT, self.journal, None, clock, self.report)
        self.sim = Simulation(
            PLANT,
            ["line_3"],
            Scenario.model_validate(scenario),
            gateway=gateway,
            clock=clock,
            report=self.report,
            stop=self.stop,
            seed=seed,
        )

    def stop(self) -> None:
        self.stopped = True

    def report(self, **fields: Any) -> None:
        self.reports.append(fields)

    def run(self, seconds: float, step_s: float = 0.5) -> list[tuple[Value | None, ...]]:
        series = []
        for _ in range(round(seconds / step_s)):
            self.sim.step(step_s)
            series.append(tuple(self.value(tag.key) for tag in PLANT.tags))
        return series

    def value(self, key: str) -> Value | None:
        return self.sim.memory.get(PLANT.tag_by_key[key])

    def alarms(self) -> list[tuple[str, str]]:
        return [(each["id"], each["state"]) for each in self.reports if each["event"] == "alarm"]


STORY: dict[str, Any] = {
    "tags": {
        "motor_3.vibration": {"play": {"signal": "random_walk", "start": 2, "spread": 0.1, "low": 0, "high": 9}, "noise": 0.05},
        "pump_3.*": {"play": {"signal": "constant", "value": 3}, "noise": 0.01},
    },
    "events": [{"at_s": 5, "do": "overheat", "asset": "motor_3"}, {"at_s": 110, "do": "fail", "tag": "motor_3.temperature"}],
}


@pytest.mark.req("F9")
def test_the_same_seed_is_the_same_run_and_another_seed_is_another() -> None:
    runs = [Told(STORY, seed=7), Told(STORY, seed=7), Told(STORY, seed=8)]
    series = [told.run(120) for told in runs]
    assert series[0] == series[1]
    assert runs[0].reports == runs[1].reports
    assert series[0] != series[2]
    assert ("motor_3_over_temperature", "raised") in runs[0].alarms()


@pytest.mark.req("F9")
def test_any_tag_can_be_played_and_the_machines_leave_it_alone() -> None:
    told = Told({"tags": {"motor_3.temperature": {"play": {"signal": "square", "low": 20, "high": 95, "period_s": 40}}}})
    told.run(95)
    assert told.alarms() == [("motor_3_over_temperature", "raised"), ("motor_3_over_temperature", "cleared")] * 2 + [
        ("motor_3_over_temperature", "raised")
    ]
    assert told.value("motor_3.load") == pytest.approx(70, abs=2), "the rest of the machine runs on"


def test_what_was_set_holds_until_it_recovers() -> None:
    told = Told({})
    told.sim.obey(order(do="set", tag="pump_3.pressure", to=1.0))
    told.run(30)
    assert told.value("pump_3.pressure") == 1.0
    assert told.alarms() == [("pump_3_low_pressure", "raised")]
    told.sim.obey(order(do="recover"))
    told.run(1)
    assert told.value("pump_3.pressure") == pytest.approx(4, abs=0.2)
    assert told.alarms()[-1] == ("pump_3_low_pressure", "cleared")


def test_a_ramp_starts_where_the_tag_is() -> None:
    told = Told({})
    told.run(1)
    told.sim.obey(order(do="ramp", tag="motor_3.temperature", to=92, over_s=10))
    first, *_, last = (float(series[0] or 0) for series in told.run(12))
    assert first == pytest.approx(63.5, abs=1.5)
    assert last == 92


@pytest.mark.field("FC-F12")
def test_a_broken_sensor_gives_no_number_and_raises_nothing() -> None:
    told = Told({})
    told.sim.obey(order(do="fail", tag="motor_3.temperature"))
    told.run(10)
    assert told.value("motor_3.temperature") is None
    assert told.alarms() == []
    told.sim.obey(order(do="recover", tag="motor_3.temperature"))
    told.run(1)
    assert told.value("motor_3.temperature") == pytest.approx(62, abs=2)


def test_an_alarm_that_is_told_stays_until_it_is_told_or_recovers() -> None:
    told = Told({})
    told.sim.obey(order(do="alarm", alarm="motor_3_over_temperature", value=91.5))
    told.run(10)
    told.sim.obey(order(do="alarm", alarm="motor_3_over_temperature"))  # the same again is nothing new
    assert told.alarms() == [("motor_3_over_temperature", "raised")]
    told.sim.obey(order(do="recover"))
    told.run(1)
    assert told.alarms()[1:] == [("motor_3_over_temperature", "cleared")], "its condition is looked at again"


@pytest.mark.req("F9")
def test_a_burst_raises_so_many_activations_in_its_time() -> None:
    told = Told({"events": [{"at_s": 1, "do": "burst", "count": 30, "over_s": 3}]})
    told.run(2.5)
    some = sum(1 for _, state in told.alarms() if state == "raised")
    assert 12 <= some <= 18, "half of the time, half of them"
    told.run(3)
    states = [state for _, state in told.alarms()]
    assert (states.count("raised"), states.count("cleared")) == (30, 27)
    sent = []
    while (entry := told.journal.oldest()) is not None:
        sent.append(entry.payload)
        told.journal.strike(entry)
    assert [payload["sequence"] for payload in sent] == list(range(1, 58)), "a gap would be a loss"
    assert len({payload["activation"] for payload in sent}) == 30


def test_an_order_with_a_time_waits_for_it() -> None:
    told = Told({})
    told.run(5)
    told.sim.obey(order(do="stop", at_s=2))
    told.run(1.5)
    assert not told.stopped
    told.run(0.5)
    assert told.stopped


def test_what_does_not_fit_the_tag_is_told_once_and_not_shown() -> None:
    told = Told({"tags": {"motor_3.load": {"play": {"signal": "ramp", "from": 6000, "to": 7000, "over_s": 10}}}})
    told.run(20)
    assert told.value("motor_3.load") == pytest.approx(6550, abs=51)
    assert [each["tag"] for each in told.reports if each["event"] == "does_not_fit"] == ["motor_3.load"]
