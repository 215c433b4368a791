"""The voice is away for a while: when it is back the truth of now is told, and nothing of then as if it were of now."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from appliance.contracts.alarm import AlarmChange
from appliance.contracts.delivery import Delivery
from appliance.contracts.errors import Unavailable
from appliance.contracts.speech import SpeechReceipt
from appliance.delivery.dispatcher import Dispatcher
from appliance.store import deliveries, unsaid
from appliance.store.unsaid import PRESENT_FOR_S, TOO_LATE
from tests.support.clock import ManualClock
from tests.support.hall import LOW_PRESSURE, Hall, open_hall
from tests.support.ledger import Bench, open_bench
from tests.support.operating import holding_of
from tests.support.plans import phrasing

ASK_TEMPERATURE = "what is the temperature of motor three"
HOT = "Motor three over temperature."
CLEARED: dict[str, Any] = {"change": AlarmChange.CLEARED}


class Loudspeaker:
    """A mouth that may be away."""

    def __init__(self) -> None:
        self.is_away = False
        self.tried = asyncio.Event()
        self.sounded: list[str] = []

    async def say(self, delivery: Delivery) -> SpeechReceipt:
        self.tried.set()
        if self.is_away:
            raise Unavailable("no voice process", may_have_played=False)
        self.sounded.append(f"{delivery.lead} {delivery.text}".strip())
        return SpeechReceipt(delivery.id, 11, 22)


class Voice:
    """A dispatcher of its own over a ledger, on a loudspeaker that outlives it."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.mouth = Loudspeaker()
        self.start()

    def start(self) -> None:
        """Speak, as a new process does."""
        bench = self.bench
        wording = phrasing()
        self.dispatcher = Dispatcher(bench.database, bench.clock, bench.ids, self.mouth, wording, waits=lambda: iter([30.0] * 9))
        self._speaking = asyncio.create_task(self.dispatcher.run())

    async def stop(self) -> None:
        """End where it stands."""
        self._speaking.cancel()
        await asyncio.wait({self._speaking})

    def goes_away(self) -> None:
        """From now on nothing can be said."""
        self.mouth.is_away = True

    async def is_tried(self) -> None:
        """Return when what waits was tried, in vain."""
        self.mouth.tried.clear()
        self.dispatcher.voice_ready()
        async with asyncio.timeout(20):
            await self.mouth.tried.wait()
        await self.until(lambda rows: all(row["status"] == "pending" for row in rows))

    async def comes_back(self) -> list[str]:
        """Speak again; return what sounded once nothing waits any more."""
        self.mouth.is_away = False
        self.mouth.sounded.clear()
        self.dispatcher.voice_ready()
        await self.until(lambda rows: not rows)
        return list(self.mouth.sounded)

    async def until(self, holds: Callable[[list[dict[str, Any]]], bool]) -> None:
        open_ones = "SELECT * FROM delivery WHERE channel = 'speech' AND status IN ('pending', 'attempting')"
        async with asyncio.timeout(20):
            while not holds(await self.bench.rows(open_ones)):  # noqa: ASYNC110 - rows set no event
                await asyncio.sleep(0.005)


@pytest.fixture
async def hall(tmp_path: Path) -> AsyncIterator[Hall]:
    async with open_hall(tmp_path) as hall:
        yield hall


@pytest.fixture
async def voice(hall: Hall) -> AsyncIterator[Voice]:
    voice = Voice(hall.bench)
    yield voice
    await voice.stop()


# answers --------------------------------------------------------------------------------------------------------------
@pytest.mark.req("R5", "V5")
async def test_answers_nobody_waits_for_any_more_become_one_sentence(hall: Hall, voice: Voice) -> None:
    """Typed and spoken ones, over a whole outage; a number read then is never told as one of now."""
    voice.goes_away()
    for _ in range(2):
        await hall.utter(ASK_TEMPERATURE)
        await hall.say(ASK_TEMPERATURE)
        hall.bench.clock.advance(PRESENT_FOR_S)
        await hall.utter("what alarms are active")
        await voice.is_tried()
    hall.bench.clock.advance(PRESENT_FOR_S)
    assert await voice.comes_back() == ["I could not say 6 answers in time. Please ask again."]
    rows = await hall.bench.rows("SELECT DISTINCT status, failure FROM delivery WHERE turn_id IS NOT NULL")
    assert rows == [{"status": "abandoned", "failure": TOO_LATE}]
    notices = await hall.bench.rows("SELECT status, unsaid FROM delivery WHERE unsaid > 0 ORDER BY seq")
    assert [row["status"] for row in notices].count("delivered") == 1 and notices[-1]["unsaid"] == 6


@pytest.mark.req("R5", "V5")
async def test_an_answer_that_is_still_waited_for_is_said(hall: Hall, voice: Voice) -> None:
    voice.goes_away()
    await hall.utter(ASK_TEMPERATURE)
    hall.bench.clock.advance(PRESENT_FOR_S - 1)
    assert await voice.comes_back() == ["The temperature of motor 3 is 94 degrees Celsius."]


@pytest.mark.req("R5", "V5")
async def test_one_answer_is_told_of_in_its_language(hall: Hall, voice: Voice) -> None:
    voice.goes_away()
    await hall.say("3号电机的温度是多少", language="zh")
    hall.bench.clock.advance(PRESENT_FOR_S)
    assert await voice.comes_back() == ["有一个回答没能及时说出，请再问一次。"]


@pytest.mark.req("R5", "R4")
async def test_a_restart_makes_no_second_notice(hall: Hall, voice: Voice) -> None:
    voice.goes_away()
    for _ in range(2):
        await hall.utter(ASK_TEMPERATURE)
        hall.bench.clock.advance(PRESENT_FOR_S)
        await voice.is_tried()
        await voice.stop()
        voice.start()
    assert await voice.comes_back() == ["I could not say 2 answers in time. Please ask again."]


@pytest.mark.req("V4", "S7")
async def test_a_question_nobody_heard_is_not_asked_of_who_comes_by_later(hall: Hall, voice: Voice) -> None:
    voice.goes_away()
    await hall.utter("set the fan speed of motor three to eighty percent")
    hall.bench.clock.advance(PRESENT_FOR_S)
    assert await voice.comes_back() == ["I could not say an answer in time. Please ask again."]
    await hall.utter("yes confirm")
    assert hall.bus.writes == []


# alarms ---------------------------------------------------------------------------------------------------------------
@pytest.mark.req("R5", "F7")
async def test_an_alarm_that_cleared_while_the_voice_was_away_is_told_as_over(hall: Hall, voice: Voice) -> None:
    voice.goes_away()
    await hall.alarm()
    await voice.is_tried()
    await hall.alarm(**CLEARED)
    hall.bench.clock.advance(10)
    assert await voice.comes_back() == [f"Back to normal: {HOT}"]


@pytest.mark.req("R5", "F7", "R4")
async def test_an_alarm_that_cleared_while_the_core_was_down_too_is_told_as_over(hall: Hall, voice: Voice) -> None:
    voice.goes_away()
    await hall.alarm()
    await voice.is_tried()
    await voice.stop()
    await hall.alarm(**CLEARED)
    hall.bench.clock.advance(3600)
    voice.start()
    assert await voice.comes_back() == [f"From earlier: Back to normal: {HOT}"]


@pytest.mark.req("R5", "F7")
async def test_an_alarm_that_is_still_there_is_told_with_its_number_as_one_of_then(hall: Hall, voice: Voice) -> None:
    voice.goes_away()
    await hall.alarm(**LOW_PRESSURE)
    await voice.is_tried()
    hall.bench.clock.advance(PRESENT_FOR_S)
    first, *_ = await voice.comes_back()
    assert first.startswith("From earlier: Pump three low pressure.")


# what is so for as long as it waits -----------------------------------------------------------------------------------
@pytest.mark.req("R10", "R5")
@pytest.mark.parametrize("is_released", [False, True])
@pytest.mark.parametrize("boot", ["boot-1", "boot-2"])
async def test_a_hold_is_said_however_late_and_only_as_it_is(tmp_path: Path, is_released: bool, boot: str) -> None:
    """It is no answer that somebody waited for: with the voice back, whoever stands there must know that nothing is executed."""
    async with open_bench(tmp_path) as bench:
        voice, holding = Voice(bench), holding_of(bench)
        voice.goes_away()
        await holding.hold("belt off", "anna")
        await voice.is_tried()
        if is_released:
            await holding.release("anna")
        bench.clock.advance(PRESENT_FOR_S + 1)
        bench.clock.boot_id = boot
        on, off = "I am on hold. Nothing is executed until I am released.", "I am released and carry out work again."
        assert await voice.comes_back() == [off if is_released else on]
        await voice.stop()


# words of an earlier boot ---------------------------------------------------------------------------------------------
@pytest.mark.req("R5", "R4")
async def test_a_power_cut_makes_everything_old(tmp_path: Path) -> None:
    async with open_bench(tmp_path) as before:

        def queue(tx: Any) -> None:
            for text, priority in (("An answer.", 14), ("Lunch.", 5)):
                deliveries.queue(tx, before.clock, before.ids, turn_id=None, language="en", text=text, priority=priority)

        await before.database.transaction(queue)
    clock = ManualClock(before.clock.now, boot_id="boot-2")
    async with open_bench(tmp_path, clock=clock, ids=before.ids) as bench:
        voice = Voice(bench)
        assert await voice.comes_back() == ["I could not say an answer in time. Please ask again.", "From earlier: Lunch."]
        await voice.stop()


@pytest.mark.req("R5")
async def test_what_may_have_been_heard_is_not_counted_as_unsaid(tmp_path: Path) -> None:
    async with open_bench(tmp_path) as bench:

        def cut_short(tx: Any) -> list[Delivery]:
            queued = deliveries.queue(tx, bench.clock, bench.ids, turn_id=None, language="en", text="x", priority=14)
            deliveries.begin(tx, queued.id)
            deliveries.give_back(tx, bench.clock, queued.id, may_have_been_heard=True, why="the device went away")
            bench.clock.advance(PRESENT_FOR_S)
            return unsaid.abandon_late(tx, bench.clock)

        assert await bench.database.transaction(cut_short) == []
        assert (await bench.one("SELECT status FROM delivery"))["status"] == "abandoned"


@pytest.mark.req("R5", "V5")
async def test_old_words_that_may_be_a_repeat_are_told_as_both(tmp_path: Path) -> None:
    async with open_bench(tmp_path) as bench:

        def cut_short(tx: Any) -> None:
            queued = deliveries.queue(tx, bench.clock, bench.ids, turn_id=None, language="en", text="Lunch.", priority=7)
            deliveries.begin(tx, queued.id)
            bench.clock.advance(PRESENT_FOR_S)

        await bench.database.transaction(cut_short)
        voice = Voice(bench)
        assert await voice.comes_back() == ["Again: From earlier: Lunch."]
        await voice.stop()


async def test_what_waits_is_read_by_its_index(tmp_path: Path) -> None:
    """A year of what was said lies behind it."""
    async with open_bench(tmp_path) as bench:
        for sql, values in (
            (deliveries._NEXT, ("speech", None)),
            (deliveries._UNDER_WAY, ("speech", None)),
            (unsaid._LATE, ("b", 5)),
        ):
            plan = [row["detail"] for row in await bench.rows(f"EXPLAIN QUERY PLAN {sql}", *values)]
            assert any("delivery_open" in step for step in plan), plan
