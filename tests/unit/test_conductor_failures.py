"""Whatever breaks on the way, an admission ends with a record, its lane is free again, and somebody is told."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from appliance.conductor import Rooms
from appliance.contracts.admission import Outcome
from appliance.contracts.errors import Corrupt, FloorhandError, Malformed, OwnedElsewhere, Unavailable
from appliance.contracts.plant import Plant
from appliance.contracts.store import Transaction
from appliance.contracts.turn import Turn
from appliance.execution.runner import Runner
from appliance.execution.stretch import RunOutcome
from appliance.execution.turn_signal import TurnSignal
from appliance.store import owners
from tests.support.hall import Change, open_hall
from tests.support.planning import shipped_plant
from tests.support.waiting import until

ASK_TEMPERATURE = "what is the temperature of motor three"


class BreakingRunner(Runner):
    """Runs nothing: the room itself is broken, as often as it is told."""

    def __init__(self, whole: Runner, errors: Sequence[FloorhandError]) -> None:
        self.__dict__ |= whole.__dict__
        self._errors = list(errors)

    async def run(self, turn: Turn, signal: TurnSignal | None = None) -> RunOutcome:
        if self._errors:
            raise self._errors.pop(0)
        return await super().run(turn, signal)


def breaking(*errors: FloorhandError) -> Change:
    """Rooms whose runner raises each of ``errors`` once, then works."""
    return lambda rooms: replace(rooms, runner=BreakingRunner(rooms.runner, errors))


@pytest.mark.req("R1", "S3")
@pytest.mark.field("FC-R13")
@pytest.mark.parametrize("error", [Corrupt("the page is damaged"), Malformed("nonsense came back")])
async def test_a_broken_room_leaves_a_record_and_is_told_of(tmp_path: Path, error: FloorhandError) -> None:
    async with open_hall(tmp_path, change=breaking(error)) as hall:
        admission = await hall.say(ASK_TEMPERATURE)
        turn = await hall.turn(admission.turn_id)
        assert (admission.outcome, turn["state"], turn["failure"]) == (Outcome.FAILED, "failed", error.message)
        assert await hall.said(turn["id"]) == [f"That did not work. {error.message.capitalize()}."]
        assert hall.delivered == 1
        assert (await hall.say(ASK_TEMPERATURE)).outcome is Outcome.DONE  # the lane goes on


@pytest.mark.req("R1")
async def test_an_answer_that_breaks_the_room_ends_the_turn_that_asked(tmp_path: Path) -> None:
    async with open_hall(tmp_path) as hall:
        asked = await hall.say("set the fan speed of motor three to eighty percent")
        await hall.close()
        hall.change = breaking(Corrupt("the page is damaged"))
        await hall.restart()
        hall.open()
        answer = await hall.say("yes confirm")
        assert (answer.outcome, answer.turn_id) == (Outcome.FAILED, asked.turn_id)
        assert (await hall.turn(asked.turn_id))["state"] == "failed" and hall.bus.writes == []
        for by in ("other", "console"):
            assert (await hall.say("help", by=by)).outcome is Outcome.DONE  # both lanes are free


@pytest.mark.req("R1")
async def test_a_language_without_phrases_is_told_once_in_ours(tmp_path: Path) -> None:
    async with open_hall(tmp_path) as hall:
        admission = await hall.say("quelle heure est-il", language="fr")
        assert (admission.outcome, admission.turn_id) == (Outcome.FAILED, None)
        (row,) = await hall.bench.rows("SELECT language, text FROM delivery")
        assert row["language"] == "en" and row["text"].startswith("That did not work. ")
        beats = hall.beats
        assert (await hall.say("help")).outcome is Outcome.DONE
        assert hall.beats == beats + 2  # taken, run: the other one was not led again meanwhile


@pytest.mark.req("F7", "R1")
async def test_an_alarm_the_plant_model_has_lost_is_told_of(tmp_path: Path) -> None:
    def forget(rooms: Rooms) -> Rooms:
        plant = Plant.model_validate({**shipped_plant().model_dump(), "alarms": []})
        return replace(rooms, alarms=replace(rooms.alarms, plant=plant))

    async with open_hall(tmp_path, change=forget) as hall:
        assert (await hall.alarm()).outcome is Outcome.FAILED
        assert await hall.said() == ["That did not work. The plant model has no alarm motor_3_over_temperature."]


async def test_a_full_card_delays_a_turn_and_loses_none(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    async with open_hall(tmp_path, is_open=False) as hall:
        database = hall.bench.database
        long = "mumble " * 2_000  # its turn does not fit into a page that is there already
        admission = (await hall.console_door.admit(long, "en", "console")).admission
        await database.transaction(leave_no_page)
        hall.open()
        await until(lambda: "turn.waits_for_ledger" in caplog.messages, "the turn waits for room")
        assert (await hall.look(admission)).outcome is None
        await database.transaction(lambda tx: tx.execute("PRAGMA max_page_count = 1000000").fetchall())
        ended = await hall.ended(admission)
        assert ended.outcome is Outcome.DONE
        assert await hall.said(ended.turn_id) == ["I did not understand that."]
        assert caplog.messages.count("turn.waits_for_ledger") <= 2  # a pause between tries, not a busy loop
        assert "turn.failed" not in caplog.messages


def leave_no_page(tx: Transaction) -> None:
    """Bound the file to what it has."""
    used = tx.execute("PRAGMA page_count").fetchone()[0]
    tx.execute(f"PRAGMA max_page_count = {used}").fetchall()


@pytest.mark.req("R1")
async def test_a_turn_that_could_not_be_written_on_goes_on_from_the_ledger(tmp_path: Path) -> None:
    async with open_hall(tmp_path, change=breaking(Unavailable("the storage does not answer"))) as hall:
        admission = await hall.say(ASK_TEMPERATURE)
        assert admission.outcome is Outcome.DONE
        assert await hall.said() == ["The temperature of motor 3 is 94 degrees Celsius."]


@pytest.mark.req("R2")
async def test_a_core_that_lost_its_ledger_ends(tmp_path: Path) -> None:
    with pytest.raises(ExceptionGroup) as ended:
        async with open_hall(tmp_path) as hall:
            bench = hall.bench
            hall.bus.open_gate.clear()
            admission = (await hall.console_door.admit(ASK_TEMPERATURE, "en", "console")).admission
            await until(lambda: hall.bus.reading == 1, "the turn reads the machine")
            await bench.database.transaction(lambda tx: owners.take_ownership(tx, bench.clock, "another", os.getpid()) and None)
            hall.bus.open_gate.set()
            await hall._leading
    assert ended.group_contains(OwnedElsewhere)
    async with open_hall(tmp_path, is_open=False) as hall:
        hall.bench.ids.count = 1_000  # those of another process
        assert (await hall.look(admission)).outcome is None and await hall.said() == []
        (successor,) = (await hall.restart()).resumed
        hall.open()
        assert (await hall.ended(successor)).outcome is Outcome.DONE
        assert (await hall.say("help", by="other")).outcome is Outcome.DONE
