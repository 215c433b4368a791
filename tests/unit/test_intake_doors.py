"""The doors: what comes in is on disk, once, with everything that belongs to it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from appliance.admission.gate import Gate
from appliance.contracts.admission import Admission, Door, RequestKind
from appliance.contracts.alarm import AlarmAction, AlarmChange, AlarmEvent, AlarmState, Disposition
from appliance.contracts.errors import Refused, Unavailable
from appliance.contracts.operation import OperationLane
from appliance.contracts.speech import Utterance
from appliance.contracts.store import Transaction
from appliance.intake.alarm_door import AlarmDoor
from appliance.intake.console_door import TYPIST, ConsoleDoor
from appliance.intake.voice_door import SPEAKER, SPEAKER_LANE, VoiceDoor
from appliance.store import alarms
from drivers.alarms.states import advance_alarm
from tests.support.alarms import rooms_of
from tests.support.ledger import Bench, open_bench
from tests.support.planning import shipped_plant

RAISED, CLEARED = AlarmChange.RAISED, AlarmChange.CLEARED
HOT = AlarmEvent("line_3_plc", "motor_3_over_temperature", "7-1", RAISED, 94.2, "degC", datetime(2026, 3, 2, 7, tzinfo=UTC), 5)
SPOKEN = Utterance(
    id="ut_1", text="yes confirm", language="en", engine="pocketsphinx", confidence=0.8, wake_mono_ns=1, speech_ended_mono_ns=2,
    transcribed_mono_ns=3, facts={"snr_db": 15.0},
)  # fmt: skip


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    async with open_bench(tmp_path) as bench:
        yield bench


def gate_of(bench: Bench, **how: Any) -> Gate:
    return Gate(bench.database, bench.clock, bench.ids, **how)


def door_of(bench: Bench, **how: Any) -> AlarmDoor:
    return rooms_of(bench, shipped_plant(), **how).door


async def acknowledge(bench: Bench) -> None:
    def work(tx: Transaction) -> None:
        (alarm,) = alarms.live(tx)
        state = advance_alarm(alarm.state, AlarmAction.ACKNOWLEDGE)
        alarms.acknowledge(tx, bench.clock, alarm.activation_id, "voice", state)

    await bench.database.transaction(work)


# alarms ---------------------------------------------------------------------------------------------------------------
@pytest.mark.req("R1", "F7")
async def test_an_alarm_is_admitted_with_its_state(bench: Bench) -> None:
    admitted = await door_of(bench).admit(HOT)
    admission = admitted.admission
    assert not admitted.is_duplicate and admission is not None
    assert (admission.door, admission.kind, admission.priority) == (Door.MQTT, RequestKind.ALARM, 9)
    assert admission.lane == "asset:motor_3"  # one conversation at a time about one machine
    assert admission.payload == {
        "source": "line_3_plc", "alarm_id": "motor_3_over_temperature", "activation": "7-1", "change": "raised",
        "activation_id": "line_3_plc:motor_3_over_temperature:7-1", "value": 94.2, "unit": "degC",
        "source_utc": "2026-03-02T07:00:00+00:00", "source_mono_ns": 5, "is_state": False, "was_missed": False,
    }  # fmt: skip
    row = await bench.one("SELECT * FROM alarm")
    assert (row["asset"], row["priority"], row["state"], row["value"]) == ("motor_3", "high", "unacknowledged", 94.2)
    assert (row["source_mono_ns"], row["session_id"]) == (5, None)
    assert await bench.kinds(OperationLane.P0) == ["alarm.raised"]


@pytest.mark.req("F7")
@pytest.mark.field("FC-F17")
async def test_a_resend_changes_nothing(bench: Bench) -> None:
    door = door_of(bench)
    first = await door.admit(HOT)
    await acknowledge(bench)
    again = await asyncio.gather(*(door.admit(HOT) for _ in range(3)))
    assert first.admission is not None
    assert {(each.is_duplicate, each.admission and each.admission.id) for each in again} == {(True, first.admission.id)}
    assert (await bench.one("SELECT duplicates FROM alarm_event"))["duplicates"] == 3
    assert (await bench.one("SELECT state FROM alarm"))["state"] == "acknowledged"
    assert await bench.kinds(OperationLane.P0) == ["alarm.raised", "alarm.acknowledged"]


@pytest.mark.req("F7")
async def test_the_same_activation_with_another_value_is_refused(bench: Bench) -> None:
    door = door_of(bench)
    await door.admit(HOT)
    with pytest.raises(Refused):
        await door.admit(replace(HOT, value=99.0))
    assert (await bench.one("SELECT value FROM alarm"))["value"] == 94.2
    assert len(await bench.rows("SELECT * FROM admission")) == 1


@pytest.mark.req("F7")
@pytest.mark.parametrize(("acknowledged", "after"), [(False, AlarmState.RETURNED_UNACKNOWLEDGED), (True, AlarmState.NORMAL)])
async def test_a_clear_ends_the_activation_it_names(bench: Bench, acknowledged: bool, after: AlarmState) -> None:
    door = door_of(bench)
    await door.admit(HOT)
    other = replace(HOT, activation="7-2")
    if acknowledged:
        await acknowledge(bench)
    await door.admit(other)
    await door.admit(replace(HOT, change=CLEARED, value=80.0))
    first, second = await bench.rows("SELECT * FROM alarm ORDER BY seq")
    assert (first["state"], first["value"], first["cleared_utc"] is not None) == (after, 94.2, True)
    assert (second["state"], second["cleared_utc"]) == ("unacknowledged", None)
    assert len(await bench.rows("SELECT * FROM admission")) == 3


@pytest.mark.req("F7")
@pytest.mark.parametrize("acknowledged", [False, True])
async def test_a_clear_before_its_raise_is_an_activation_that_is_over(bench: Bench, acknowledged: bool) -> None:
    door = door_of(bench)
    await door.admit(replace(HOT, change=CLEARED, value=80.0))
    before = await bench.one("SELECT * FROM alarm")
    assert before["state"] == "returned_unacknowledged" and before["cleared_utc"] is not None
    if acknowledged:
        await acknowledge(bench)
    late = await door.admit(HOT)
    assert (late.is_duplicate, late.disposition) == (False, Disposition.REPEAT)  # it is accounted for, and
    after = await bench.one("SELECT * FROM alarm")
    assert after["state"] == ("normal" if acknowledged else "returned_unacknowledged")  # does not come alive again
    assert (after["value"], after["cleared_utc"]) == (94.2, before["cleared_utc"])


@pytest.mark.req("R1")
@pytest.mark.parametrize("fails", ["the alarm's row", "the admission"])
async def test_the_alarm_and_its_admission_stand_or_fall_together(bench: Bench, fails: str) -> None:
    def no_state(state: AlarmState, action: AlarmAction, *, latching: bool = False) -> AlarmState:
        raise Refused("no such transition")

    if fails == "the admission":
        door = door_of(bench, limit=0)
        expected: type[Exception] = Unavailable
    else:
        door = door_of(bench)
        door._advance = no_state
        expected = Refused
    with pytest.raises(expected):
        await door.admit(HOT)
    for table in ("alarm", "alarm_event", "alarm_source", "admission", "operation"):
        assert await bench.rows(f"SELECT * FROM {table}") == []


async def test_events_without_value_or_time_are_taken_too(bench: Bench) -> None:
    admitted = await door_of(bench).admit(replace(HOT, value=None, unit="", source_utc=None, source_mono_ns=None))
    assert admitted.admission is not None
    assert admitted.admission.payload["value"] is None and admitted.admission.payload["source_utc"] is None
    assert (await bench.one("SELECT value FROM alarm"))["value"] is None


# people ---------------------------------------------------------------------------------------------------------------
@pytest.mark.req("R1")
@pytest.mark.field("FC-R04")
async def test_an_utterance_is_admitted_once(bench: Bench) -> None:
    door = VoiceDoor(gate_of(bench))
    first, again = [await door.admit(SPOKEN) for _ in range(2)]
    admission = first.admission
    assert (first.is_duplicate, again.is_duplicate, again.admission.id) == (False, True, admission.id)
    assert (admission.door, admission.kind, admission.lane) == (Door.VOICE, RequestKind.UTTERANCE, SPEAKER_LANE)
    assert admission.payload == {
        "text": "yes confirm", "language": "en", "by": "voice", "principal": SPEAKER.to_json(), "utterance": "ut_1",
        "engine": "pocketsphinx", "confidence": 0.8, "facts": {"snr_db": 15.0}, "speech_ended_mono_ns": 2,
        "transcribed_mono_ns": 3,
    }  # fmt: skip


@pytest.mark.req("R1")
async def test_typing_the_same_twice_means_it_twice(bench: Bench) -> None:
    door = ConsoleDoor(gate_of(bench), bench.ids)
    typed: list[Admission] = [(await door.admit("yes", "en", by)).admission for by in ("ana", "ana", "bo")]
    assert len({admission.id for admission in typed}) == 3
    assert [admission.lane for admission in typed] == ["console:ana", "console:ana", "console:bo"]
    assert {admission.door for admission in typed} == {Door.CONSOLE}
    assert typed[0].payload == {"text": "yes", "language": "en", "by": "ana", "principal": replace(TYPIST, by="ana").to_json()}
    assert typed[0].priority < (await VoiceDoor(gate_of(bench)).admit(SPOKEN)).admission.priority
