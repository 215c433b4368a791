"""What people depend on is said to be lost once, and to be back once; what blinks is not talked about."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Set
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from appliance.contracts.admission import PRIORITY_ALARM, PRIORITY_UTTERANCE
from appliance.contracts.plant import Plant
from appliance.contracts.store import Transaction
from appliance.delivery.announcer import REPLIES, Announcer, told_by_alarms
from appliance.foundation.supervisor import Degraded
from tests.support.ledger import Bench, open_bench
from tests.support.planning import shipped_plant
from tests.support.plans import phrasing
from tests.support.waiting import until

SETTLE_S = 0.05
LOST = "I have lost the alarm broker. PLC alarms cannot reach me until it is back. I keep trying."
BACK = "The alarm broker is back."


class Desk:
    """An announcer at work. ``told`` counts what it queued."""

    def __init__(
        self, bench: Bench, language: str = "en", said_lost: Set[str] = frozenset(), silent: Set[str] = frozenset()
    ) -> None:
        self.bench = bench
        self.degraded = Degraded()
        self.told = 0
        self.announcer = Announcer(
            bench.database, bench.clock, bench.ids, phrasing(), self.degraded, language=language,
            delivered=self._note, settle_s=SETTLE_S, said_lost=said_lost, silent=silent,
        )  # fmt: skip

    def _note(self) -> None:
        self.told += 1

    @asynccontextmanager
    async def working(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self.announcer.run())
        await until(lambda: self.degraded.listeners, "the announcer listens")
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            assert self.degraded.listeners == []

    async def says(self, count: int) -> list[str]:
        await until(lambda: self.told >= count, f"{count} announcements")
        return await self.said()

    async def said(self) -> list[str]:
        return [row["text"] for row in await self.bench.rows("SELECT text FROM delivery ORDER BY seq")]

    async def settle(self) -> None:
        """Return after a loss of another part, begun now, was announced and taken back: whatever came before it has settled."""
        count = self.told
        self.degraded.mark("plc:witness", "away")
        await self.says(count + 1)
        self.degraded.clear("plc:witness")
        await self.says(count + 2)


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    async with open_bench(tmp_path) as bench:
        yield Desk(bench)


@pytest.mark.req("R8")
async def test_a_loss_is_said_once_and_its_end_once(desk: Desk) -> None:
    async with desk.working():
        desk.degraded.mark("mqtt", "refused")
        assert await desk.says(1) == [LOST]
        for why in ("no route", "refused"):
            desk.degraded.mark("mqtt", why)  # lost as before, for another reason
        await desk.settle()
        desk.degraded.clear("mqtt")
        assert (await desk.says(4))[-1] == BACK
        await desk.settle()
    assert [text for text in await desk.said() if "broker" in text] == [LOST, BACK]
    row = (await desk.bench.rows("SELECT * FROM delivery ORDER BY seq"))[0]
    assert (row["priority"], row["turn_id"], row["language"], row["channel"]) == (7, None, "en", "speech")


@pytest.mark.req("R8")
async def test_a_link_that_blinks_is_not_talked_about(desk: Desk) -> None:
    async with desk.working():
        for _ in range(3):
            desk.degraded.mark("mqtt", "refused")
            desk.degraded.clear("mqtt")
        await desk.settle()
    assert not [text for text in await desk.said() if "broker" in text]


@pytest.mark.req("R8")
async def test_a_loss_counts_from_its_own_beginning(desk: Desk) -> None:
    async with desk.working():
        desk.degraded.mark("plc:line_3", "away")
        while not desk.told:  # blink all the while another loss settles
            desk.degraded.mark("mqtt", "refused")
            await asyncio.sleep(0)
            desk.degraded.clear("mqtt")
            await asyncio.sleep(0)
            desk.degraded.mark("mqtt", "refused")
            await asyncio.sleep(0.001)
        assert await desk.said() == ["I cannot see the PLC."]  # the broker has been away for a moment only
        assert await desk.says(2) == ["I cannot see the PLC.", LOST]


@pytest.mark.req("R8")
async def test_what_nobody_depends_on_is_not_talked_about(desk: Desk) -> None:
    async with desk.working():
        for part in ("memory.encoder", "voice", "mqtt-inbox", "listening"):
            desk.degraded.mark(part, "broken")
        await desk.settle()
    assert {*await desk.said()} == {"I cannot see the PLC.", "I can see the PLC again."}


@pytest.mark.req("R8")
async def test_what_was_lost_before_anybody_listened_is_said(desk: Desk) -> None:
    desk.degraded.mark("mqtt", "refused")
    async with desk.working():
        assert await desk.says(1) == [LOST]
    desk.degraded.clear("mqtt")
    desk.degraded.mark("coordinator", "no route")
    async with desk.working():  # its supervisor started it again
        assert (await desk.says(3))[1:] == ["The coordinator cannot be reached. I keep working and will catch up later.", BACK]


@pytest.mark.req("R8")
async def test_what_waits_for_answers_comes_after_them(desk: Desk) -> None:
    async with desk.working():
        for count, part in enumerate(("plc:line_3", "coordinator"), 1):
            desk.degraded.mark(part, "away")
            await desk.says(count)
    plc, coordinator = await desk.bench.rows("SELECT priority FROM delivery ORDER BY seq")
    assert PRIORITY_ALARM > plc["priority"] > PRIORITY_UTTERANCE > coordinator["priority"]


@pytest.mark.req("F7", "R8")
async def test_a_plc_whose_loss_is_an_alarm_is_left_to_that_alarm(tmp_path: Path) -> None:
    unreachable = [
        {"id": "lost", "condition": {"kind": "unreachable", "link": "line_3"}},
        {"id": "lost_5", "condition": {"kind": "unreachable", "link": "line_4", "device_id": 5}},
    ]
    told = shipped_plant().model_dump()
    common = {"asset": "motor_3", "priority": "high", "fault": "lost", "playbook": "none", "text": {"en": "No PLC", "zh": "PLC"}}
    links = [{"id": name, "host": "127.0.0.1"} for name in ("line_3", "line_4")]
    alarms = [alarm | common for alarm in unreachable]
    plant = Plant.model_validate(told | {"links": links, "alarms": alarms})
    assert told_by_alarms(plant) == {"plc:line_3", "plc:line_4:5"}
    async with open_bench(tmp_path) as bench:
        desk = Desk(bench, silent=told_by_alarms(plant))
        desk.degraded.mark("plc:line_3", "no answer")
        async with desk.working():
            desk.degraded.mark("plc:line_4:5", "no answer")
            desk.degraded.mark("plc:line_4", "no answer")  # the whole link: no alarm tells of it
            assert await desk.says(1) == ["I cannot see the PLC."]
            await desk.settle()
            desk.degraded.clear("plc:line_3")
            await desk.settle()
        assert (await desk.said()).count("I cannot see the PLC.") == 3  # two of them are the witness'


@pytest.mark.parametrize("comes_back", ["while the announcer works", "before it begins"])
async def test_a_loss_said_before_a_restart_is_not_said_again_but_its_end_is(tmp_path: Path, comes_back: str) -> None:
    async with open_bench(tmp_path) as bench:
        desk = Desk(bench, said_lost={"coordinator"})
        if comes_back == "while the announcer works":
            desk.degraded.mark("coordinator", "not reached since yesterday")
        async with desk.working():
            if comes_back == "while the announcer works":
                await desk.settle()
                assert not [text for text in await desk.said() if "coordinator" in text]
            desk.degraded.clear("coordinator")
            await until(lambda: desk.announcer._said_lost == set(), "its end is said")
        assert [text for text in await desk.said() if "oordinator" in text] == ["The coordinator is back."]


async def test_a_loss_that_could_not_be_written_down_is_said_after_a_new_start(desk: Desk) -> None:
    def break_ledger(tx: Transaction) -> None:
        tx.execute("CREATE TRIGGER full BEFORE INSERT ON delivery BEGIN SELECT RAISE(ABORT, 'no'); END")

    await desk.bench.database.transaction(break_ledger)
    desk.degraded.mark("mqtt", "refused")
    task = asyncio.create_task(desk.announcer.run())
    await asyncio.wait({task}, timeout=10)
    assert task.exception() is not None and desk.told == 0
    await desk.bench.database.transaction(lambda tx: tx.execute("DROP TRIGGER full") and None)
    async with desk.working():
        assert await desk.says(1) == [LOST]


@pytest.mark.parametrize("language", ["en", "zh"])
async def test_every_part_has_its_words_in_every_language(tmp_path: Path, language: str) -> None:
    async with open_bench(tmp_path) as bench:
        desk = Desk(bench, language)
        async with desk.working():
            for part in REPLIES:
                desk.degraded.mark(part, "away")
            await desk.says(len(REPLIES))
            for part in REPLIES:
                desk.degraded.clear(part)
            said = await desk.says(2 * len(REPLIES))
    assert len(set(said)) == 2 * len(REPLIES)
