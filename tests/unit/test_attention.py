"""What is degraded for two hours asks for attention: once, by speech, MQTT and log, and in status."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from appliance.delivery.announcer import LOST_SENTENCES
from appliance.foundation.supervisor import Degraded
from appliance.health.attention import AFTER_S, Attention
from tests.support.ledger import Bench, open_bench
from tests.support.plans import phrasing
from tests.support.waiting import until

pytestmark = pytest.mark.req("R8")

SOON_S = 0.05


class Desk:
    def __init__(self, bench: Bench, *, language: str = "en", after_s: float = SOON_S) -> None:
        self.bench, self.degraded, self.told = bench, Degraded(), 0
        self.in_doubt: set[str] = set()
        self.degraded.mark("config", "the last good copy is used")  # before anybody kept the time
        self.attention = Attention(
            bench.database, bench.clock, bench.ids, phrasing(), self.degraded, sentences=LOST_SENTENCES, language=language,
            client_id="line-3", queued=self._note, may_be_over=self.in_doubt.__contains__, after_s=after_s,
        )  # fmt: skip

    def _note(self) -> None:
        self.told += 1

    @asynccontextmanager
    async def working(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self.attention.run())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def said(self) -> list[str]:
        return [row["text"] for row in await self.bench.rows("SELECT text FROM delivery WHERE channel = 'speech' ORDER BY seq")]


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    async with open_bench(tmp_path) as opened:
        yield opened


async def test_it_is_two_hours() -> None:
    assert AFTER_S == 7200


async def test_a_part_that_stays_degraded_is_told_once(bench: Bench) -> None:
    desk = Desk(bench)
    desk.degraded.clear("config")
    async with desk.working():
        desk.degraded.mark("mqtt", "refused")
        bench.clock.advance(SOON_S)
        await until(lambda: desk.told == 1, "it is told")
        desk.degraded.mark("mqtt", "no route")  # another reason, the same trouble
        (text,) = await desk.said()
        assert text.startswith("I have lost the alarm broker.") and text.endswith("Somebody should look.")
        message = await bench.one("SELECT topic, payload, retain FROM delivery WHERE channel = 'mqtt'")
        assert (message["topic"], message["retain"]) == ("floorhand/line-3/attention", 0)
        assert '"part":"mqtt"' in message["payload"] and '"why":"refused"' in message["payload"]
        assert desk.attention.needs_attention() == ["mqtt"]
        bench.clock.advance(10)
        assert desk.attention.degraded_s() == {"mqtt": 10.1}  # since it began, whatever the reason is by now
        desk.degraded.clear("mqtt")
        assert (desk.attention.needs_attention(), desk.attention.degraded_s()) == ([], {})
        desk.degraded.mark("mqtt", "refused")  # a new trouble has its own two hours
        bench.clock.advance(SOON_S)
        await until(lambda: desk.told == 2, "it is told")


async def test_what_comes_back_in_time_is_not_talked_about(bench: Bench) -> None:
    desk = Desk(bench)
    async with desk.working():
        desk.degraded.mark("plc:line_3", "away")
        desk.degraded.clear("plc:line_3")
        bench.clock.advance(SOON_S)
        await until(lambda: desk.told == 1, "the witness is told")
        assert await desk.said() == ["A part of me does not work. It has been so for two hours. Somebody should look."]
        assert desk.attention.needs_attention() == ["config"]  # was degraded before anybody kept the time


async def test_no_clock_that_is_set_makes_a_trouble_old_or_young(bench: Bench) -> None:
    desk = Desk(bench, after_s=AFTER_S)
    bench.clock.now = bench.clock.now.replace(year=2076)
    assert desk.attention.degraded_s() == {"config": 0.0}
    bench.clock.now = bench.clock.now.replace(year=1976)
    bench.clock.mono_ns += int(AFTER_S * 1e9)
    assert desk.attention.needs_attention() == ["config"]


async def test_a_new_start_of_the_service_says_nothing_twice(bench: Bench) -> None:
    desk = Desk(bench)
    bench.clock.advance(SOON_S)
    for _ in range(2):
        async with desk.working():
            await until(lambda: desk.told == 1, "it is told")
    assert len(await desk.said()) == 1


async def test_every_language_has_the_words(bench: Bench) -> None:
    desk = Desk(bench, language="zh")
    bench.clock.advance(SOON_S)
    async with desk.working():
        await until(lambda: desk.told == 1, "it is told")
    assert (await desk.said())[0].startswith("我有一部分不能工作。")


@pytest.mark.field("FC-D04")
async def test_a_fork_is_published_at_once_and_asked_about_after_two_hours(bench: Bench) -> None:
    desk = Desk(bench)
    desk.degraded.clear("config")
    async with desk.working():
        desk.degraded.mark("sync", "P1 is stopped: another history")
        await until(lambda: desk.told == 1, "it is published")
        assert (await desk.said(), desk.attention.needs_attention()) == ([], [])
        message = await bench.one("SELECT topic, payload FROM delivery WHERE channel = 'mqtt'")
        assert message["topic"] == "floorhand/line-3/attention" and "another history" in message["payload"]
        bench.clock.advance(SOON_S)
        await until(lambda: desk.told == 2, "it is asked about")
        (text,) = await desk.said()
        assert "The coordinator answers" in text and text.endswith("Somebody should look.")


@pytest.mark.req("A2")
async def test_nobody_is_called_for_what_may_be_over_and_was_not_looked_at(bench: Bench) -> None:
    desk = Desk(bench)
    desk.degraded.clear("config")
    desk.in_doubt.add("models")
    async with desk.working():
        desk.degraded.mark("models", "m: nothing answers at its address")
        desk.degraded.mark("mqtt", "refused")
        bench.clock.advance(SOON_S)
        await until(lambda: desk.told == 1, "the witness is told")
        assert desk.attention.needs_attention() == ["mqtt"] and len(await desk.said()) == 1
        desk.in_doubt.clear()  # somebody asked, and it rests again
        bench.clock.advance(2 * SOON_S)
        await until(lambda: desk.told == 2, "it is told")
        assert desk.attention.needs_attention() == ["models", "mqtt"]
        assert (await desk.said())[1].startswith("My language model does not answer.")
