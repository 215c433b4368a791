"""Interlocks over live tags: what is not known to hold does not hold (X5, F4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from appliance.contracts.errors import Refused, Unavailable
from appliance.contracts.plant import Plant
from appliance.contracts.reading import Quality, Reading
from tests.support.bus import TableBus
from tests.support.gate import FAN, SET_FAN, Gate, open_gate, plan_of, principal, rules, write_step
from tests.support.planning import shipped_plant

pytestmark = pytest.mark.req("X5", "F4")

ANA = principal()
HOT = {"require": "motor_3.temperature < 90 and pump_3.flow > 5"}
LOCKED = rules(ask=[], allow=["write_tag"], writes=[{"tags": ["motor_3.*"], "interlocks": [HOT]}])


class AgedBus(TableBus):
    """A table in which tags can have another quality or age."""

    changes: dict[str, dict[str, Any]]

    async def read(self, keys: Sequence[str]) -> dict[str, Reading]:
        found = await super().read(keys)
        return {key: replace(reading, **self.changes.get(key, {})) for key, reading in found.items()}


def aged(bench: Any, plant: Any) -> AgedBus:
    bus = AgedBus(plant, bench.clock)
    bus.changes = {}
    bus.values |= {"motor_3.temperature": 80.0}
    return bus


async def write(gate: Gate, *, language: str = "en") -> str:
    """Have a write come to the gate that nobody prepared; return what was said, empty when it was made."""
    turn = await gate.unprepared([write_step()], ANA)
    if (await gate.run(turn)).kind == "finished":
        return ""
    return (await gate.said())[-1]


async def test_a_write_is_made_while_the_interlock_holds_and_not_while_it_does_not(tmp_path: Path) -> None:
    async with open_gate(tmp_path, LOCKED, bus=aged) as gate:
        assert await write(gate) == "" and gate.bus.writes == [(FAN, 80)]
        gate.bus.values["motor_3.temperature"] = 94.2
        assert await write(gate) == (
            "I cannot do that. The interlock does not permit that now. The temperature of motor 3 is 94 degrees Celsius."
            " The flow of pump 3 is 12.0 cubic metres per hour."
        )
        assert gate.bus.writes == [(FAN, 80)]
        effects = await gate.bench.rows("SELECT status, note FROM effect ORDER BY seq")
        assert [row["status"] for row in effects] == ["applied", "none"] and "interlock" in effects[1]["note"]
        assert (await gate.decisions())[-1] == ("write_tag", "deny", "interlock")


@pytest.mark.parametrize(
    "changes, words",
    [
        ({"quality": Quality.STALE, "age_s": 14}, "The temperature of motor 3 was last known 14 seconds ago"),
        ({"age_s": 5.1}, "The temperature of motor 3 was last known 5 seconds ago"),
        ({"quality": Quality.BAD, "value": None, "source_utc": None}, "The temperature of motor 3 cannot be read"),
        ({"source_utc": None}, "The temperature of motor 3 cannot be read"),
        ({"value": float("nan")}, "The temperature of motor 3"),
        ({"value": "hot"}, "The interlock cannot be judged"),
    ],
)
async def test_a_value_that_is_not_good_or_too_old_permits_nothing(tmp_path: Path, changes: dict[str, Any], words: str) -> None:
    async with open_gate(tmp_path, LOCKED, bus=aged) as gate:
        told = dict(changes)
        if (age_s := told.pop("age_s", None)) is not None:
            told["source_utc"] = gate.bench.clock.utc() - timedelta(seconds=age_s)
        gate.bus.changes = {"motor_3.temperature": told}
        said = await write(gate)
        assert words in said and gate.bus.writes == []


def plant_of_states() -> Plant:
    """The shipped plant and a drive that says what it does: ``motor_3.status`` in bits, ``motor_3.mode`` in numbers."""
    told = shipped_plant().model_dump(mode="json")
    place = {"asset": "motor_3", "link": "line_3", "device_id": 1, "kind": "holding_register", "type": "uint16"}
    status = {"name": "status", "address": 900, "flags": {0: "ready", 1: "fault", 2: "overload"}, "spoken": {"en": ["status"]}}
    mode = {"name": "mode", "address": 901, "names": {0: "local", 1: "remote", 2: "service"}, "spoken": {"en": ["mode"]}}
    told["tags"] += [place | status, place | mode]
    return Plant.model_validate(told)


@pytest.mark.parametrize(
    "require, shown, words",
    [
        ('motor_3.status != "fault"', {"status": "ready"}, ""),
        ('motor_3.status != "fault"', {"status": "ready, bit 7"}, ""),
        ('motor_3.status != "fault"', {"status": "fault"}, "The interlock does not permit that now"),
        ('motor_3.status != "fault"', {"status": "fault, overload"}, "The status of motor 3 is fault, overload"),
        ('motor_3.status == "ready"', {"status": "ready, overload"}, ""),
        ('motor_3.status == "ready"', {"status": "none"}, "The interlock does not permit that now"),
        ('motor_3.mode != "service"', {"mode": "remote"}, ""),
        ('motor_3.mode != "service"', {"mode": "service"}, "The interlock does not permit that now"),
        ('motor_3.mode != "service"', {"mode": "7"}, "The mode of motor 3 is 7, a state that is not declared"),
        ('motor_3.mode != "service" or pump_3.running', {"mode": "7"}, "The mode of motor 3 is 7"),
    ],
)
async def test_a_bit_is_judged_by_itself_and_a_state_nobody_declared_permits_nothing(
    tmp_path: Path, require: str, shown: dict[str, str], words: str
) -> None:
    settings = rules(ask=[], allow=["write_tag"], writes=[{"tags": [FAN], "interlocks": [{"require": require}]}])
    async with open_gate(tmp_path, settings, bus=aged, plant=plant_of_states()) as gate:
        gate.bus.values |= {f"motor_3.{name}": value for name, value in shown.items()}
        said = await write(gate)
        assert words in said and (said == "") is (words == "")
        assert gate.bus.writes == ([] if words else [(FAN, 80)])


async def test_a_value_as_old_as_the_rule_allows_will_do(tmp_path: Path) -> None:
    slow = rules(ask=[], allow=["write_tag"], writes=[{"tags": ["*"], "interlocks": [HOT | {"fresh_s": 60}]}])
    async with open_gate(tmp_path, slow, bus=aged) as gate:
        gate.bus.changes = {"motor_3.temperature": {"source_utc": gate.bench.clock.utc() - timedelta(seconds=59)}}
        assert await write(gate) == ""


async def test_every_rule_that_matches_counts(tmp_path: Path) -> None:
    both = rules(
        ask=[], allow=["write_tag"],
        writes=[{"tags": ["motor_3.*"], "interlocks": [HOT]}, {"tags": [FAN], "interlocks": [{"require": "not pump_3.running"}]}],
    )  # fmt: skip
    async with open_gate(tmp_path, both, bus=aged) as gate:
        assert "interlock" in await write(gate)
        gate.bus.values["pump_3.running"] = False
        assert await write(gate) == ""


async def test_nobody_is_asked_to_confirm_what_would_be_refused(tmp_path: Path) -> None:
    why = HOT | {"why": {"en": "Motor 3 is too hot for that.", "zh": "3号电机温度过高。"}}
    async with open_gate(tmp_path, rules(writes=[{"tags": [FAN], "interlocks": [why]}]), bus=aged) as gate:
        gate.bus.values["motor_3.temperature"] = 94.2
        with pytest.raises(Refused, match="Motor 3 is too hot for that"):
            await gate.ask(SET_FAN, ANA)
        assert await gate.said() == []
        assert await gate.decisions() == [("write_tag", "deny", "interlock")]


async def test_what_held_when_it_was_asked_for_is_looked_at_again_directly_before_the_write(tmp_path: Path) -> None:
    async with open_gate(tmp_path, rules(writes=[{"tags": [FAN], "interlocks": [HOT]}]), bus=aged) as gate:
        await gate.ask(SET_FAN, ANA)
        gate.bus.values["motor_3.temperature"] = 94.2  # while the person thinks
        assert await gate.answer("yes confirm", ANA) == "failed"
        assert gate.bus.writes == []
        assert (await gate.decisions())[-2:] == [("write_tag", "allow", "consent"), ("write_tag", "deny", "interlock")]


async def test_what_an_interlock_kept_from_happening_counts_for_no_limit(tmp_path: Path) -> None:
    rule = {"tags": [FAN], "interlocks": [HOT], "most": {"count": 1, "within_s": 600}}
    async with open_gate(tmp_path, rules(ask=[], allow=["write_tag"], writes=[rule]), bus=aged) as gate:
        gate.bus.values["motor_3.temperature"] = 94.2
        assert "interlock" in await write(gate)
        gate.bus.values["motor_3.temperature"] = 80.0
        assert await write(gate) == ""


async def test_a_write_that_cannot_be_read_back_is_unknown_and_not_done_again(tmp_path: Path) -> None:
    async with open_gate(tmp_path, LOCKED, bus=aged) as gate:
        gate.bus.answers_writes = False
        turn = await gate.unprepared([write_step(70)], ANA)
        gate.bus.changes = {FAN: {"quality": Quality.STALE}}
        assert (await gate.run(turn)).kind == "failed"
        assert gate.bus.writes == [(FAN, 70)]
        effect = await gate.bench.one("SELECT status FROM effect")
        assert effect["status"] == "unknown"
        assert (await gate.said())[-1].startswith("I still do not know whether it was done")


async def test_a_field_that_does_not_answer_refuses(tmp_path: Path) -> None:
    async with open_gate(tmp_path, LOCKED, bus=aged) as gate:
        gate.bus.is_away = True
        assert "cannot be read" in await write(gate)
        with pytest.raises(Refused):
            await gate.planned(plan_of(write_step()), ANA)
        assert gate.bus.writes == [] and not issubclass(Refused, Unavailable)
