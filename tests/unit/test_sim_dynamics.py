"""The simulated machines behave as their story says."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drivers.sim.dynamics import LIMITS, Conveyor, Limit, Motor, Pump, approach


@given(st.floats(-100, 100), st.floats(-100, 100), st.floats(0.1, 100), st.floats(0.01, 1000))
def test_a_lag_never_overshoots(value: float, target: float, time_constant_s: float, dt_s: float) -> None:
    after = approach(value, target, time_constant_s, dt_s)
    assert min(value, target) - 1e-9 <= after <= max(value, target) + 1e-9


def test_a_lag_is_the_same_in_one_step_and_in_many() -> None:
    many = 20.0
    for _ in range(100):
        many = approach(many, 90.0, 50.0, 0.5)
    assert many == pytest.approx(approach(20.0, 90.0, 50.0, 50.0))


def test_a_sound_motor_stays_cool() -> None:
    motor = Motor()
    for _ in range(600):
        motor = motor.step(1.0)
    assert motor.temperature_degc == pytest.approx(Motor().temperature_degc, abs=1.0)


@pytest.mark.parametrize("fan_percent", [0, 60, 80, 100])
def test_a_motor_with_a_failing_fan_overheats_and_no_fan_speed_clears_the_alarm(fan_percent: float) -> None:
    limit = LIMITS["over_temperature"]
    motor = replace(Motor(), fan_percent=60.0).overheating()
    seconds = 0
    while motor.temperature_degc < limit.raise_:
        motor, seconds = motor.step(1.0), seconds + 1
    assert seconds < 120, "a second or two at the default speed of the simulation"
    motor = replace(motor, fan_percent=fan_percent)
    for _ in range(600):
        motor = motor.step(1.0)
    assert limit.clear < motor.temperature_degc < 200
    for _ in range(600):
        motor = replace(motor, fan_percent=60.0).sound().step(1.0)
    assert motor.temperature_degc < limit.clear


def test_more_fan_is_cooler() -> None:
    settled = [replace(Motor(), fan_percent=percent).settled_degc for percent in range(0, 101, 10)]
    assert settled == sorted(settled, reverse=True)


def test_a_leak_drops_the_pressure_below_its_limit_and_repair_brings_it_back() -> None:
    pump = Pump().leaking()
    for _ in range(300):
        pump = pump.step(1.0)
    assert pump.pressure_bar < LIMITS["low_pressure"].raise_
    assert 0 < pump.flow_m3_h < Pump().flow_m3_h
    for _ in range(300):
        pump = pump.sound().step(1.0)
    assert pump.pressure_bar > LIMITS["low_pressure"].clear


def test_a_jam_draws_current_and_a_belt_follows_its_setpoint() -> None:
    belt = Conveyor().jammed()
    for _ in range(100):
        belt = belt.step(1.0)
    assert belt.current_a > LIMITS["overcurrent"].raise_
    belt = replace(belt.sound(), setpoint_m_s=0.0)
    for _ in range(100):
        belt = belt.step(1.0)
    assert (belt.speed_m_s, belt.is_running) == (0.0, False)
    assert belt.current_a == pytest.approx(0.0, abs=0.1)


@pytest.mark.parametrize(
    ("limit", "values", "active"),
    [
        (Limit(90, 80), [89, 90, 85, 81, 79, 85], [False, True, True, True, False, False]),
        (Limit(2, 3), [2.5, 1.9, 2.5, 2.9, 3.1, 2.5], [False, True, True, True, False, False]),
    ],
)
def test_limits_have_hysteresis_on_either_side(limit: Limit, values: list[float], active: list[bool]) -> None:
    state, seen = False, []
    for value in values:
        state = limit.is_active(value, state)
        seen.append(state)
    assert seen == active
