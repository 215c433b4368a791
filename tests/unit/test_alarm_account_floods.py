"""The account of alarms that a flood tells of: they are accounted for once somebody heard of the flood, and not before."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from appliance.store import deliveries
from tests.support.floods import flood_plant, raised
from tests.support.hall import Hall, open_hall

pytestmark = [pytest.mark.req("F7"), pytest.mark.field("FC-F16")]


async def burst(hall: Hall, count: int = 9) -> None:
    await asyncio.gather(*(hall.alarm_door.admit(raised(hall.bench, number)) for number in range(count)))
    async with asyncio.timeout(20), hall.conductor.ended:
        while await hall.bench.rows("SELECT 1 FROM admission WHERE status <> 'terminal'"):
            await hall.conductor.ended.wait()


async def end_all(hall: Hall, *, is_heard: bool) -> None:
    """Be the loudspeaker, or be none."""

    def work(tx: Any) -> None:
        while (said := deliveries.begin_next(tx, hall.bench.clock)) is not None:
            if is_heard:
                deliveries.finish(tx, hall.bench.clock, said.id, first_audio_mono_ns=1)
            else:
                deliveries.fail(tx, hall.bench.clock, said.id, why="no voice")

    await hall.bench.database.transaction(work)


async def counted(hall: Hall) -> tuple[bool, list[str], dict[str, Any]]:
    account = await hall.alarms.account.draw_up()
    (source,) = account["sources"]
    assert source["journalled"] == (
        source["announced"] + source["waiting"] + source["unheard"] + sum(source["suppressed"].values())
    )
    return account["holds"], account["faults"], source


@pytest.mark.parametrize("is_heard", [True, False])
async def test_a_floods_alarms_are_accounted_for_once_its_sentence_was_heard(tmp_path: Path, is_heard: bool) -> None:
    async with open_hall(tmp_path, plant=flood_plant()) as hall:
        await burst(hall)
        flooded = (await hall.bench.one("SELECT count(*) AS n FROM alarm_event WHERE disposition = 'flood'"))["n"]
        assert flooded >= 8
        holds, _, source = await counted(hall)
        assert holds and (source["waiting"], source["suppressed"]) == (9, {})
        await end_all(hall, is_heard=is_heard)
        holds, faults, source = await counted(hall)
        if is_heard:
            assert holds and (source["suppressed"], source["announced"]) == ({"flood": flooded}, 9 - flooded)
        else:
            assert (faults, source["unheard"]) == (["plc: 9 to be announced, heard by nobody"], 9)
