"""What is heard and cannot be taken: who said it is told so, past everything that waits."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from appliance.admission.gate import Gate
from appliance.contracts.delivery import PRIORITY_ANSWER
from appliance.contracts.speech import Grammar, Utterance
from appliance.hearing import Hearing
from appliance.intake.voice_door import VoiceDoor
from appliance.planning.planner import Planner
from appliance.words import Words
from tests.support.hall import phrasebook_of
from tests.support.ledger import Bench, open_bench, request
from tests.support.planning import shipped_plant, shipped_playbooks
from tests.support.plans import phrasing
from tests.support.waiting import until
from tests.unit.test_intake_doors import SPOKEN

WAITS = "I did not take that, because too much waits already. Please say it again in a little while."


class Mouthless:
    """Ears that hear what the test says. Implements ``contracts.ports.Ears``."""

    def __init__(self) -> None:
        self.said: asyncio.Queue[Utterance] = asyncio.Queue()
        self.taken = 0

    async def utterances(self) -> AsyncIterator[Utterance]:
        while True:
            yield await self.said.get()
            self.taken += 1

    async def load_grammar(self, grammar: Grammar, prepared: Sequence[str]) -> None:
        """Any grammar will do."""

    async def expect_answer(self, pending: bool) -> None:
        """Nothing is expected."""

    async def hear(self, *utterances: Utterance) -> None:
        """Return once all were dealt with."""
        wanted = self.taken + len(utterances)
        for utterance in utterances:
            self.said.put_nowait(utterance)
        await until(lambda: self.taken == wanted, "they were heard")


@asynccontextmanager
async def listening(bench: Bench, gate: Gate, told: list[None]) -> AsyncIterator[Mouthless]:
    ears, plant = Mouthless(), shipped_plant()
    phrasebook = phrasebook_of(plant)
    planner = Planner(phrasebook, shipped_playbooks(), plant, {})
    words = Words(phrasing(plant), bench.clock, bench.ids, "en")
    hearing = Hearing(ears, VoiceDoor(gate), phrasebook, planner, bench.database, words, lambda: told.append(None))
    task = asyncio.create_task(hearing.listen())
    try:
        yield ears
        assert not task.done(), "it listens on"
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    async with open_bench(tmp_path) as opened:
        yield opened


async def words_of(bench: Bench) -> list[tuple[str, int]]:
    return [(row["text"], row["priority"]) for row in await bench.rows("SELECT text, priority FROM delivery ORDER BY seq")]


@pytest.mark.req("R1", "R5")
async def test_a_spoken_sentence_that_finds_no_room_is_said_to_be_lost_once(bench: Bench) -> None:
    gate, told = Gate(bench.database, bench.clock, bench.ids, limit=1), list[None]()
    await gate.admit(request("typed", lane="console:a"))
    async with listening(bench, gate, told) as ears:
        await ears.hear(*(replace(SPOKEN, id=f"ut_{number}") for number in range(4)))
        assert await words_of(bench) == [(WAITS, PRIORITY_ANSWER)]
        await ears.hear(replace(SPOKEN, id="ut_zh", language="zh"))
        assert (await words_of(bench))[1][0].startswith("排队的事情太多")
    noted = await bench.rows("SELECT entity FROM operation WHERE kind = 'audit.turned_away'")
    assert [row["entity"] for row in noted] == ["speaker:floor"] and told


@pytest.mark.req("R1")
@pytest.mark.field("FC-D01")
async def test_on_a_full_disk_it_is_said_that_only_alarms_are_taken(bench: Bench) -> None:
    gate = Gate(bench.database, bench.clock, bench.ids, refuses_talk=lambda: "the storage is full: only alarms are taken")
    async with listening(bench, gate, []) as ears:
        await ears.hear(SPOKEN, replace(SPOKEN, id="ut_2"))
    (said,) = await words_of(bench)
    assert "my disk is full" in said[0]


@pytest.mark.req("R1")
async def test_while_nothing_can_be_written_it_listens_on(bench: Bench) -> None:
    gate = Gate(bench.database, bench.clock, bench.ids)
    async with listening(bench, gate, []) as ears:
        await ears.hear(SPOKEN)
        await bench.database.close()
        await ears.hear(replace(SPOKEN, id="ut_2"))
        await ears.hear(replace(SPOKEN, id="ut_3"))
