"""The dispatcher says what is queued, one at a time, keeps receipts, and waits without spinning when there is no voice."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from appliance.contracts.delivery import Delivery
from appliance.contracts.errors import Malformed, StorageFullError, Unavailable
from appliance.contracts.speech import SpeechReceipt
from appliance.contracts.store import Transaction
from appliance.delivery.dispatcher import Dispatcher
from appliance.store import deliveries
from tests.support.ledger import Bench, open_bench
from tests.support.plans import phrasing

_SOON_S = 5.0


class Speaker:
    """Stands for the voice: remembers what it was given; ``answers`` are raised in turn instead of speaking."""

    def __init__(self) -> None:
        self.given: list[Delivery] = []
        self.answers: list[Exception] = []
        self.during: Callable[[Delivery], Any] | None = None

    async def say(self, delivery: Delivery) -> SpeechReceipt:
        self.given.append(delivery)
        if self.during is not None:
            await self.during(delivery)
        if self.answers:
            raise self.answers.pop(0)
        return SpeechReceipt(delivery.id, 11, 22)

    @property
    def words(self) -> list[str]:
        return [f"{d.lead} {d.text}".strip() for d in self.given]


class Booth:
    """A bench with a dispatcher on it."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.speaker = Speaker()

    def dispatcher(self, waits: Callable[[], Iterator[float]] = lambda: iter([0.0] * 99)) -> Dispatcher:
        return Dispatcher(self.bench.database, self.bench.clock, self.bench.ids, self.speaker, phrasing(), waits=waits)

    async def queue(self, text: str, *, priority: int = 6, lead: str = "", language: str = "en") -> None:
        await self.bench.database.transaction(
            lambda tx: deliveries.queue(
                tx, self.bench.clock, self.bench.ids, turn_id=None, language=language, text=text, lead=lead, priority=priority
            )
        )

    async def rows(self) -> list[dict[str, Any]]:
        return await self.bench.rows("SELECT * FROM delivery ORDER BY seq")

    async def until(self, holds: Callable[[list[dict[str, Any]]], bool]) -> None:
        async with asyncio.timeout(_SOON_S):
            while not holds(await self.rows()):  # noqa: ASYNC110 - rows set no event
                await asyncio.sleep(0.005)


@pytest.fixture
async def booth(tmp_path: Path) -> AsyncIterator[Booth]:
    async with open_bench(tmp_path) as bench:
        yield Booth(bench)


@asynccontextmanager
async def running(dispatcher: Dispatcher) -> AsyncIterator[Dispatcher]:
    task = asyncio.create_task(dispatcher.run())
    try:
        yield dispatcher
        assert not task.done(), "the dispatcher ended"
    finally:
        task.cancel()
        await asyncio.wait({task})


def all_said(rows: list[dict[str, Any]]) -> bool:
    return all(row["status"] == "delivered" for row in rows)


@pytest.mark.req("R5", "V5")
async def test_what_waits_is_said_by_urgency_and_the_receipt_is_kept(booth: Booth) -> None:
    await booth.queue("an answer", priority=6)
    await booth.queue("Motor 3.", lead="Alarm.", priority=9)
    async with running(booth.dispatcher()):
        await booth.until(all_said)
    assert booth.speaker.words == ["Alarm. Motor 3.", "an answer"]
    assert {row["first_audio_mono_ns"] for row in await booth.rows()} == {11}


async def test_a_new_one_is_said_when_told_of(booth: Booth) -> None:
    async with running(booth.dispatcher()) as dispatcher:
        for text in ("one", "two"):
            await booth.queue(text)
            dispatcher.notify()
            await booth.until(all_said)
    assert booth.speaker.words == ["one", "two"]


@pytest.mark.req("R5")
async def test_the_attempt_is_on_disk_before_the_first_sound_and_only_one_is_said_at_a_time(booth: Booth) -> None:
    seen: list[list[str]] = []

    async def look(_: Delivery) -> None:
        seen.append([row["status"] for row in await booth.rows()])

    booth.speaker.during = look
    await booth.queue("one")
    await booth.queue("two")
    async with running(booth.dispatcher()):
        await booth.until(all_said)
    assert seen == [["attempting", "pending"], ["delivered", "attempting"]]


async def test_a_more_urgent_one_that_comes_meanwhile_is_next(booth: Booth) -> None:
    async def alarm(delivery: Delivery) -> None:
        if delivery.text == "one":
            await booth.queue("fire", priority=9)

    booth.speaker.during = alarm
    await booth.queue("one")
    await booth.queue("two")
    async with running(booth.dispatcher()):
        await booth.until(lambda rows: len(rows) == 3 and all_said(rows))
    assert booth.speaker.words == ["one", "fire", "two"]


@pytest.mark.req("R5", "R8")
async def test_without_a_voice_it_stays_pending_and_does_not_spin(booth: Booth) -> None:
    booth.speaker.answers = [Unavailable("no voice process")] * 99
    await booth.queue("one")
    async with running(booth.dispatcher(waits=lambda: iter([0.0, 0.0, 3600.0]))) as dispatcher:
        await booth.until(lambda rows: len(booth.speaker.given) == 3 and rows[0]["status"] == "pending")
        for _ in range(20):  # words that are queued meanwhile do not make it try again
            dispatcher.notify()
            await asyncio.sleep(0)
        (row,) = await booth.rows()
        assert (row["status"], row["attempts"], row["may_be_repeat"]) == ("pending", 0, 0)
        assert len(booth.speaker.given) == 3
        booth.speaker.answers = []
        dispatcher.voice_ready()
        await booth.until(all_said)
    assert booth.speaker.words == ["one"] * 4


@pytest.mark.req("R5")
async def test_what_may_have_been_heard_is_repeated_as_such_three_times_at_most(booth: Booth) -> None:
    booth.speaker.answers = [Unavailable("the device went away", may_have_played=True)] * 3
    await booth.queue("Motor 3.", lead="Alarm.")
    async with running(booth.dispatcher()):
        await booth.until(lambda rows: rows[0]["status"] == "abandoned")
    assert booth.speaker.words == ["Alarm. Motor 3.", "Again: Alarm. Motor 3.", "Again: Alarm. Motor 3."]


@pytest.mark.req("R5")
@pytest.mark.parametrize(("language", "words"), [("en", "Again: Hot."), ("zh", "再说一遍： Hot.")])
async def test_what_a_stop_cut_short_is_said_again_as_a_repetition(booth: Booth, language: str, words: str) -> None:
    speaking = asyncio.Event()

    async def hang(_: Delivery) -> None:
        speaking.set()
        await asyncio.Event().wait()

    booth.speaker.during = hang
    await booth.queue("Hot.", language=language)
    async with running(booth.dispatcher()):
        await speaking.wait()
    assert [row["status"] for row in await booth.rows()] == ["attempting"]
    booth.speaker = Speaker()
    async with running(booth.dispatcher()):
        await booth.until(all_said)
    assert booth.speaker.words == [words]


@pytest.mark.field("FC-V11", "FC-V12")
async def test_what_can_never_be_said_fails_and_the_next_one_is_said(booth: Booth) -> None:
    booth.speaker.answers = [Malformed("this voice has no such script")]
    await booth.queue("漢字")
    await booth.queue("two")
    async with running(booth.dispatcher()):
        await booth.until(lambda rows: rows[1]["status"] == "delivered")
    (failed, _) = await booth.rows()
    assert (failed["status"], failed["failure"]) == ("failed", "this voice has no such script")


class FillingCard:
    """The ledger on a card that is full for the next ``full_for`` writes; everything else is the real one."""

    def __init__(self, bench: Bench) -> None:
        self._database = bench.database
        self.full_for = 0
        self.refused = 0

    async def transaction(self, work: Callable[[Transaction], Any]) -> Any:
        if self.full_for:
            self.full_for -= 1
            self.refused += 1
            raise StorageFullError("the card is full")
        return await self._database.transaction(work)

    async def fetch(self, sql: str, parameters: Any = ()) -> Any:
        return await self._database.fetch(sql, parameters)


@pytest.mark.field("FC-D01")
async def test_a_card_that_fills_while_something_is_said_ends_nothing_and_repeats_nothing(booth: Booth) -> None:
    card = FillingCard(booth.bench)
    dispatcher = Dispatcher(card, booth.bench.clock, booth.bench.ids, booth.speaker, phrasing(), waits=lambda: iter([0.0] * 99))

    async def fill(_: Delivery) -> None:
        card.full_for = 3

    booth.speaker.during = fill
    await booth.queue("once")
    async with running(dispatcher):
        await booth.until(all_said)
    assert booth.speaker.words == ["once"] and card.refused == 3
