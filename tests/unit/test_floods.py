"""Many alarms at once are one conversation, told by number; what nobody answers is told again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from appliance.contracts.admission import Outcome
from appliance.contracts.delivery import PRIORITY_ADVICE
from appliance.store import deliveries
from tests.support.alarms import acknowledge_all
from tests.support.flood_hall import FIRST, at_rest, burst, flooded, serving, summaries, take, until_told
from tests.support.floods import cleared, raised
from tests.support.hall import Hall, hot
from tests.support.waiting import until


@pytest.fixture
async def hall(tmp_path: Path) -> AsyncIterator[Hall]:
    async with flooded(tmp_path) as hall:
        yield hall


async def sessions(hall: Hall) -> set[str | None]:
    return {row["session_id"] for row in await hall.bench.rows("SELECT session_id FROM alarm")}


# one conversation ------------------------------------------------------------------------------------------------------
@pytest.mark.req("F6", "F7")
@pytest.mark.field("FC-F16")
async def test_a_burst_of_500_is_one_conversation_told_by_number(hall: Hall) -> None:
    (told,) = await burst(hall, 500)
    assert told == f"500 alarms at once. First: {FIRST}. 125 critical, 125 high, 250 lower. In hall 0 and 4 more areas."
    assert len(await sessions(hall)) == 1
    turns = await hall.bench.rows("SELECT intent, session_id FROM turn ORDER BY seq")
    assert [turn["intent"] for turn in turns] == ["alarm_raised", "alarm_flood"]
    assert {turn["session_id"] for turn in turns} == await sessions(hall)
    ends = await hall.bench.rows("SELECT outcome, count(*) AS number FROM admission GROUP BY outcome")
    assert ends == [{"outcome": Outcome.DONE, "number": 501}]  # the flood's own, besides those of 500 alarms
    dispositions = await hall.bench.rows("SELECT disposition, count(*) AS number FROM alarm_event GROUP BY 1 ORDER BY 1")
    assert dispositions == [{"disposition": "announce", "number": 1}, {"disposition": "flood", "number": 499}]


@pytest.mark.req("F6")
async def test_the_first_alarm_is_announced_before_the_flood_is_known(hall: Hall) -> None:
    await take(hall, [raised(hall.bench, 0)])
    assert (await hall.said())[0].startswith(FIRST)
    announced = await hall.bench.one(
        "SELECT admission.admitted_mono_ns AS came, delivery.queued_mono_ns AS told FROM admission, delivery LIMIT 1"
    )
    assert announced["told"] == announced["came"]  # the bench's clock stands still: nothing was waited for


@pytest.mark.req("F6")
async def test_the_number_is_said_before_the_rest_of_what_the_first_alarm_wants(hall: Hall) -> None:
    await burst(hall, 8)
    order = [row["priority"] for row in await hall.bench.rows("SELECT priority FROM delivery ORDER BY priority DESC, seq")]
    assert order[:2] == [13, 12] and set(order[2:]) == {PRIORITY_ADVICE}


@pytest.mark.req("F6")
async def test_seven_are_no_flood(hall: Hall) -> None:
    assert await burst(hall, 7) == []
    assert len(await sessions(hall)) == 7


@pytest.mark.req("F6")
async def test_alarms_that_come_one_by_one_are_told_one_by_one(hall: Hall) -> None:
    for number in range(10):
        await take(hall, [raised(hall.bench, number)])
        hall.bench.clock.advance(2.1)
    assert await summaries(hall) == [] and len(await sessions(hall)) == 10


@pytest.mark.req("F7")
async def test_what_comes_while_it_lasts_joins_it_and_its_ends_are_counted_not_told(hall: Hall) -> None:
    await burst(hall, 8)
    hall.bench.clock.advance(20)
    await take(hall, [raised(hall.bench, 8)])
    await take(hall, [cleared(hall.bench, number) for number in (0, 3, 8)])
    assert len(await summaries(hall)) == 1 and len(await sessions(hall)) == 1
    assert not [said for said in await hall.said() if "normal" in said]
    await take(hall, [hot(hall.bench)])  # of another machine, and another line
    assert len(await sessions(hall)) == 1


@pytest.mark.req("F6")
async def test_a_number_not_said_yet_is_replaced_and_one_that_was_said_is_followed_by_an_update(hall: Hall) -> None:
    await burst(hall, 8)
    await take(hall, [raised(hall.bench, number) for number in range(8, 16)])
    (told,) = await summaries(hall)
    assert told.startswith("16 alarms at once.")
    await hall.speak_all()
    await take(hall, [raised(hall.bench, number) for number in range(16, 31)])
    assert len(await summaries(hall)) == 1
    await take(hall, [raised(hall.bench, 31)])
    assert (await summaries(hall))[1:] == ["The alarm flood has grown to 32 alarms. 8 critical, 8 high, 16 lower."]


@pytest.mark.req("F6")
async def test_it_is_closed_with_what_is_left_and_its_last_end_is_told(hall: Hall) -> None:
    await burst(hall, 8)
    await take(hall, [cleared(hall.bench, number) for number in range(6)])
    await hall.speak_all()
    hall.bench.clock.advance(30)
    async with serving(hall.floods):
        await until_told(hall, 2)
        assert (await summaries(hall))[1] == "No more new alarms. 2 of 8 are still active. 1 medium, 1 low. In hall 1, hall 2."
        await take(hall, [cleared(hall.bench, 6)])
        await take(hall, [cleared(hall.bench, 7)])
        hall.floods.notify()
        await until_told(hall, 3)
    assert (await summaries(hall))[2:] == ["All 8 alarms of the flood are back to normal."]
    await take(hall, [raised(hall.bench, 20)])
    assert len(await sessions(hall)) == 2  # the flood is over


@pytest.mark.req("F6")
async def test_one_whose_alarms_are_all_gone_says_so_when_it_is_over(hall: Hall) -> None:
    await burst(hall, 8)
    await take(hall, [cleared(hall.bench, number) for number in range(8)])
    hall.bench.clock.advance(30)
    async with serving(hall.floods):
        await until_told(hall, 2)
    assert (await summaries(hall))[1] == "The alarm flood is over. All 8 alarms are back to normal."


@pytest.mark.req("R2", "F7")
async def test_alarms_that_waited_through_a_restart_are_one_flood(tmp_path: Path) -> None:
    async with flooded(tmp_path, is_open=False) as hall:
        await asyncio.gather(*(hall.alarm_door.admit(raised(hall.bench, number)) for number in range(40)))
        hall.bench.clock.boot_id = "boot-2"
        await hall.restart()
        hall.open()
        await at_rest(hall)
        (told,) = await summaries(hall)
        assert told.startswith(f"40 alarms at once. First: {FIRST}.") and len(await sessions(hall)) == 1


@pytest.mark.req("R2", "F7")
async def test_a_flood_survives_a_restart_and_goes_on(tmp_path: Path) -> None:
    async with flooded(tmp_path) as hall:
        await burst(hall, 8)
        await hall.speak_all()
        await hall.die()
        hall.bench.clock.boot_id = "boot-2"
        await hall.restart()
        hall.open()
        await take(hall, [raised(hall.bench, 8)])
        assert len(await sessions(hall)) == 1
        hall.bench.clock.advance(31)
        async with serving(hall.floods):
            await until_told(hall, 2)
        assert (await summaries(hall))[1].startswith("No more new alarms. 9 of 9 are still active.")


@pytest.mark.req("R5", "F6")
@pytest.mark.parametrize("when", ["before more come", "while it is said"])
async def test_first_words_cut_short_by_a_restart_are_said_once_in_the_end(tmp_path: Path, when: str) -> None:
    async with flooded(tmp_path) as hall:
        await burst(hall, 8)
        database, clock = hall.bench.database, hall.bench.clock
        begun = await database.transaction(lambda tx: deliveries.begin_next(tx, clock))
        assert begun is not None and begun.text.startswith("8 alarms at once.")
        await hall.die()
        await hall.restart()
        if when == "before more come":
            (begun,) = await database.transaction(lambda tx: deliveries.recover(tx, clock))
        hall.open()
        await take(hall, [raised(hall.bench, number) for number in range(8, 20)])
        told = await summaries(hall)
        first, grown = "20 alarms at once.", "The alarm flood has grown to 20 alarms."
        assert [text.split(".")[0] + "." for text in told] == (
            [first] if when == "before more come" else [begun.text[:17], grown]
        )


# told again ------------------------------------------------------------------------------------------------------------
async def again(hall: Hall) -> list[str]:
    rows = await hall.bench.rows(
        "SELECT text FROM delivery JOIN turn ON turn.id = turn_id WHERE turn.intent = 'alarm_again' ORDER BY delivery.seq"
    )
    return [row["text"] for row in rows]


async def look(hall: Hall) -> float | None:
    """Let the reannouncer look once, and everything that comes of it end."""
    await hall.speak_all()
    due = await hall.bench.database.transaction(hall.reannouncer.look)
    hall.rooms.queue.wake()
    await at_rest(hall)
    return due


@pytest.mark.req("F6")
async def test_an_alarm_nobody_answers_is_told_again_three_times_with_its_age(hall: Hall) -> None:
    await take(hall, [hot(hall.bench)])
    assert await look(hall) == pytest.approx(180, abs=5)  # speaking takes time
    for _ in range(5):
        hall.bench.clock.advance(180)
        await look(hall)
    text = "Motor three over temperature. Still active, for"
    assert await again(hall) == [f"{text} {minutes} minutes." for minutes in (3, 6, 9)]
    assert await look(hall) is None


@pytest.mark.req("F6")
@pytest.mark.parametrize("ends", ["acknowledged", "cleared", "answered", "not so urgent", "a minute later"])
async def test_what_somebody_answered_or_is_over_is_not_told_again(hall: Hall, ends: str) -> None:
    number = {"not so urgent": 3, "a minute later": 0}.get(ends, 1)
    await take(hall, [raised(hall.bench, number)])
    match ends:
        case "acknowledged":
            await acknowledge_all(hall.bench, hall.plant)
        case "cleared":
            await take(hall, [cleared(hall.bench, number)])
        case "answered":
            await hall.say("no")
    hall.bench.clock.advance(61 if ends == "a minute later" else 181)
    await look(hall)
    assert len(await again(hall)) == (ends == "a minute later")  # critical alarms are told again after a minute


@pytest.mark.req("F6", "R2")
async def test_a_repetition_is_neither_lost_nor_doubled_by_a_restart(tmp_path: Path) -> None:
    async with flooded(tmp_path) as hall:
        await take(hall, [hot(hall.bench)])
        await hall.speak_all()
        await hall.die()
        hall.bench.clock.advance(178)
        await hall.restart()
        await hall.bench.database.transaction(hall.reannouncer.look)  # it dies with the repetition admitted
        await hall.restart()
        await hall.bench.database.transaction(hall.reannouncer.look)
        hall.open()
        await at_rest(hall)
        assert await again(hall) == ["Motor three over temperature. Still active, for 3 minutes."]


@pytest.mark.req("F6")
async def test_after_a_reboot_without_a_clock_no_age_is_made_up(tmp_path: Path) -> None:
    async with flooded(tmp_path) as hall:
        await take(hall, [hot(hall.bench)])
        await hall.die()
        hall.bench.clock.boot_id, hall.bench.clock.is_synced = "boot-2", False
        await hall.restart()
        hall.open()
        await look(hall)
        assert await again(hall) == []
        hall.bench.clock.advance(181)
        await look(hall)
        assert await again(hall) == ["Motor three over temperature. Still active."]


@pytest.mark.req("F6")
async def test_what_is_shelved_or_not_said_yet_is_not_told_again(hall: Hall) -> None:
    await take(hall, [hot(hall.bench)])
    hall.bench.clock.advance(181)
    await hall.bench.database.transaction(hall.reannouncer.look)
    await at_rest(hall)
    assert await again(hall) == []  # its announcement still waits for the loudspeaker
    await hall.alarms.inhibitions.shelve("motor_3_over_temperature", 600, by="anna", reason="being repaired")
    await look(hall)
    assert await again(hall) == []
    hall.bench.clock.advance(600)
    await look(hall)
    assert len(await again(hall)) == 1


@pytest.mark.req("F6")
async def test_of_a_flood_only_the_number_is_told_again(hall: Hall) -> None:
    await burst(hall, 8)
    await look(hall)
    hall.bench.clock.advance(61)
    await look(hall)
    assert await again(hall) == []
    priorities = "2 critical, 2 high, 4 lower"
    told = f"8 of 8 alarms of the flood are still active and not acknowledged. First: {FIRST}. {priorities}."
    assert (await summaries(hall))[1:] == [told]
    await hall.speak_all()
    await acknowledge_all(hall.bench, hall.plant)
    hall.bench.clock.advance(61)
    await look(hall)
    assert len(await summaries(hall)) == 2


@pytest.mark.req("F6")
async def test_it_sleeps_until_something_is_due_and_wakes_for_news(hall: Hall) -> None:
    async with serving(hall.reannouncer):
        await take(hall, [hot(hall.bench)])
        await hall.speak_all()
        hall.bench.clock.advance(181)
        hall.reannouncer.notify()
        async with asyncio.timeout(10), hall.conductor.ended:
            while not await again(hall):
                await hall.conductor.ended.wait()
    await until(lambda: hall.conductor.running_turns == 0, "everything led")


# how it is told --------------------------------------------------------------------------------------------------------
@pytest.mark.req("F7")
async def test_what_was_so_before_is_told_as_no_news_with_its_age_if_that_is_known(hall: Hall) -> None:
    clock = hall.bench.clock
    since = clock.utc()
    clock.advance(3 * 3600 + 20)
    known = hot(hall.bench, is_state=True, source_utc=since, activation="1")
    await take(hall, [known])
    assert (await hall.said())[0] == "Motor three over temperature. Still active, for 3 hours. It is at 94 degrees Celsius."


@pytest.mark.req("F7")
@pytest.mark.parametrize("unknown", ["when", "what time it is"])
async def test_an_age_nobody_knows_is_not_told(hall: Hall, unknown: str) -> None:
    since = hall.bench.clock.utc()
    hall.bench.clock.advance(60)
    hall.bench.clock.is_synced = unknown == "when"
    await take(hall, [hot(hall.bench, is_state=True, source_utc=None if unknown == "when" else since)])
    assert (await hall.said())[0] == "Motor three over temperature. Still active. It is at 94 degrees Celsius."


@pytest.mark.req("F7")
async def test_what_the_gateway_lost_is_told_and_said_to_be_so(hall: Hall) -> None:
    await take(hall, [hot(hall.bench, was_missed=True), raised(hall.bench, 5, was_missed=True)])
    motor = "Motor three over temperature. The gateway did not report it. It is at 94 degrees Celsius."
    assert motor in await hall.said()
    assert [said for said in await hall.said() if said.startswith("Machine 5 fault 0. The gateway did not report it.")]


@pytest.mark.req("F6")
@pytest.mark.field("FC-F16")
async def test_a_chattering_contact_is_one_conversation_with_a_count(hall: Hall) -> None:
    for number in range(50):
        for change in (raised, cleared):
            await hall.alarm_door.admit(change(hall.bench, 7, activation=str(number)))
            hall.bench.clock.advance(0.5)
        await at_rest(hall)
    said = [text for text in await hall.said() if "keeps coming and going" in text]
    assert said == ["Machine 7 fault 0. It keeps coming and going, 6 times by now. I do not repeat it while that lasts."]
    assert len(await sessions(hall)) == 1 and len(await hall.bench.rows("SELECT 1 FROM alarm")) == 50
    assert len(await hall.said()) < 25  # of a hundred changes
