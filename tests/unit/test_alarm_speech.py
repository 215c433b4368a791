"""What alarms have to say waits for the loudspeaker: the urgent goes first, and what is over by then is not told as present."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from appliance.contracts.alarm import AlarmChange, Inhibition
from appliance.delivery.dispatcher import Dispatcher
from appliance.store import alarm_account, deliveries
from tests.support.alarms import acknowledge_all
from tests.support.floods import flood_plant, raised
from tests.support.hall import LOW_PRESSURE, Hall, hot, open_hall
from tests.support.plans import phrasing
from tests.support.waiting import until
from tests.unit.test_delivery_dispatcher import Speaker, running

HOT = "Motor three over temperature."
QUESTION = "Shall I create a work order for motor 3?"
CLEARED: dict[str, Any] = {"change": AlarmChange.CLEARED}


@pytest.fixture
async def hall(tmp_path: Path) -> AsyncIterator[Hall]:
    async with open_hall(tmp_path, plant=flood_plant()) as hall:
        yield hall


async def sounded(hall: Hall, most: int = 100) -> list[str]:
    """Be the loudspeaker for up to ``most`` deliveries; return what sounded."""
    clock, heard = hall.bench.clock, list[str]()
    for _ in range(most):
        begun = await hall.bench.database.transaction(lambda tx: deliveries.begin_next(tx, clock))
        if begun is None:
            break
        heard.append(f"{begun.lead} {begun.text}".strip())
        clock.advance(1)
        await hall.bench.database.transaction(partial(deliveries.finish, clock=clock, delivery_id=begun.id))
    return heard


async def raise_number(hall: Hall, number: int) -> None:
    admission = (await hall.alarm_door.admit(raised(hall.bench, number))).admission
    assert admission is not None
    await hall.ended(admission)


# order -----------------------------------------------------------------------------------------------------------------
@pytest.mark.req("F7", "V4")
async def test_every_alarm_is_announced_by_priority_before_any_advice_is_given(hall: Hall) -> None:
    for number in (3, 2, 1, 0):  # low, medium, high, critical
        await raise_number(hall, number)
    typed = await hall.say("what alarms are active")
    heard = await sounded(hall)
    assert [text.split(".")[0] for text in heard[:4]] == [f"Machine {number} fault 0" for number in range(4)]
    (answer,) = await hall.said(typed.turn_id)
    assert heard[-1] == answer, "it is on the screen of who typed"
    per_turn = [await hall.said(row["id"]) for row in await hall.bench.rows("SELECT id FROM turn ORDER BY seq")]
    for words in per_turn:
        assert sorted(words, key=heard.index) == words  # a conversation keeps its own order


@pytest.mark.req("F7", "R5")
async def test_what_an_alarm_has_to_say_does_not_wait_behind_answers_to_what_was_typed(hall: Hall) -> None:
    typed = [await hall.say("what alarms are active", by=f"user{number % 3}") for number in range(12)]
    alarm = await hall.alarm()
    spoken = await hall.utter("what is the load of motor three")
    bench, speaker = hall.bench, Speaker()
    dispatcher = Dispatcher(bench.database, bench.clock, bench.ids, speaker, phrasing(hall.plant))
    async with running(dispatcher):
        await until(lambda: len(speaker.given) >= 3 + 1 + len(typed), "all is said")
    turns = [delivery.turn_id for delivery in speaker.given]
    first = turns.index(typed[0].turn_id)
    assert turns[0] == spoken.turn_id, "who stands there is answered first"
    assert turns[1:first] == [alarm.turn_id] * (first - 1) and speaker.words[first - 1] == QUESTION
    assert alarm.turn_id not in turns[first:] and speaker.words[1].startswith(HOT)


# what is over ----------------------------------------------------------------------------------------------------------
@pytest.mark.req("F7")
async def test_an_alarm_that_went_before_it_could_be_said_is_told_as_over_and_asks_nothing(hall: Hall) -> None:
    turn_id = (await hall.alarm()).turn_id
    await hall.alarm(**CLEARED)
    assert await sounded(hall) == [f"Back to normal: {HOT}"]
    why = await hall.bench.rows("SELECT DISTINCT status, failure FROM delivery WHERE turn_id = ?", turn_id)
    assert why == [{"status": "abandoned", "failure": deliveries.STALE}]
    assert (await hall.turn((await hall.utter("yes")).turn_id))["intent"] == "nothing_pending"  # nobody has heard it
    await sounded(hall)
    (counted,) = await alarm_account.counts(hall.bench.database)
    assert (counted.announced, counted.unheard, counted.waiting, counted.suppressed) == (1, 0, 0, {"overtaken": 1})
    await hall.rooms.turns.abandon_unanswered()
    assert ((await hall.turn(turn_id))["state"], await hall.questions()) == ("abandoned", [])
    assert await sounded(hall) == []


@pytest.mark.req("F7")
async def test_advice_on_what_is_over_is_not_given_but_its_question_is_asked(hall: Hall) -> None:
    await hall.alarm()
    (announced,) = await sounded(hall, 1)
    await hall.alarm(**CLEARED)
    assert announced.startswith(HOT)
    assert await sounded(hall) == [f"Back to normal: {HOT}", QUESTION]
    await hall.rooms.turns.abandon_unanswered()
    assert await hall.questions() == [QUESTION]
    await hall.say("yes")
    assert await sounded(hall) == ["The work order is created."]  # who answers is answered


@pytest.mark.req("F7")
async def test_back_to_normal_is_not_said_of_an_alarm_that_came_back_and_only_once_of_one_that_did_not(hall: Hall) -> None:
    await hall.alarm()
    await sounded(hall)
    await hall.alarm(**CLEARED)
    await hall.alarm(activation="7-9")
    assert [text for text in await sounded(hall, 1) if HOT in text] == [f"{HOT} It is at 94 degrees Celsius."]
    assert not [text for text in await sounded(hall) if "normal" in text]
    await hall.alarm(activation="7-9", **CLEARED)
    await hall.alarm(activation="7-10")
    await hall.alarm(activation="7-10", **CLEARED)
    assert await sounded(hall) == [f"Back to normal: {HOT}"]


@pytest.mark.req("F6")
@pytest.mark.parametrize("ends", ["acknowledged", "cleared", "shelved", "nothing"])
async def test_still_active_is_not_said_of_what_somebody_dealt_with_meanwhile(hall: Hall, ends: str) -> None:
    await hall.alarm()
    await sounded(hall)
    hall.bench.clock.advance(181)
    await hall.bench.database.transaction(hall.reannouncer.look)
    hall.rooms.queue.wake()
    async with hall.conductor.ended:
        while not await hall.bench.rows("SELECT 1 FROM delivery WHERE text LIKE '%Still active%'"):
            await hall.conductor.ended.wait()
    match ends:
        case "acknowledged":
            await acknowledge_all(hall.bench, hall.plant)
        case "cleared":
            await hall.alarm(**CLEARED)
        case "shelved":
            await hall.alarms.inhibitions.shelve("motor_3_over_temperature", 600, by="anna", reason="being repaired")
    assert bool([text for text in await sounded(hall) if "Still active" in text]) == (ends == "nothing")


@pytest.mark.req("F6")
async def test_what_is_shelved_before_it_is_said_keeps_quiet_until_the_shelving_ends(hall: Hall) -> None:
    await hall.alarm()
    for _ in range(2):  # and the same again
        await hall.alarms.inhibitions.shelve("motor_3_over_temperature", 600, by="anna", reason="being repaired")
        assert await sounded(hall) == []
        assert await hall.alarms.inhibitions.end("motor_3_over_temperature", Inhibition.SHELVED, by="anna") == 1
        async with hall.conductor.ended:
            while await hall.bench.rows("SELECT 1 FROM admission WHERE status <> 'terminal'"):
                await hall.conductor.ended.wait()
    first, *_, last = await sounded(hall)
    assert first.startswith(f"{HOT} Still active") and last == QUESTION


@pytest.mark.req("F6")
@pytest.mark.field("FC-F16")
async def test_nine_raises_in_three_seconds_are_one_sentence_and_an_urgent_alarm_is_the_next(hall: Hall) -> None:
    for number in range(9):
        for change in (AlarmChange.RAISED, AlarmChange.CLEARED)[: 1 if number == 8 else 2]:
            journalled = await hall.alarm_door.admit(hot(hall.bench, activation=f"7-{number}", change=change))
            if journalled.admission is not None:
                await hall.ended(journalled.admission)
            hall.bench.clock.advance(0.15)
    await hall.alarm(**LOW_PRESSURE)
    heard = await sounded(hall)
    assert "keeps coming and going" in heard[0] and heard[1].startswith("Pump three low pressure")
    assert not [text for text in heard[2:] if "otor" in text]
    await hall.rooms.turns.abandon_unanswered()
    assert await hall.questions() == ["Shall I create a work order for pump 3?"]


@pytest.mark.req("R2", "F7")
async def test_a_restart_forgets_nothing_of_what_is_over(hall: Hall) -> None:
    await hall.alarm()
    await hall.alarm(**CLEARED)
    await hall.die()
    hall.bench.clock.boot_id = "boot-2"
    await hall.restart()
    hall.open()
    assert await sounded(hall) == [f"Back to normal: {HOT}"]
