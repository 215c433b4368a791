"""Reading back tells nothing of a write that another one may have replaced: it stays unknown, and is said to be."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.hall import Hall, open_hall
from tests.support.waiting import until

WHAT = "setting the fan speed of motor 3 to 80 percent"


@pytest.fixture
async def hall(tmp_path: Path) -> AsyncIterator[Hall]:
    async with open_hall(tmp_path) as hall:
        yield hall
        hall.bus.write_gate.set()


async def write(hall: Hall, wish: str, by: str) -> None:
    """Let the machine take a write that it does not answer."""
    writes = len(hall.bus.writes)
    await hall.say(f"set the fan speed of motor three to {wish} percent", by=by)
    await hall.console_door.admit("yes confirm", "en", by)
    await until(lambda: len(hall.bus.writes) > writes, "the machine was written to")


async def restarted(hall: Hall) -> None:
    await hall.die()
    hall.bus.write_gate.set()
    resumed = (await hall.restart()).resumed
    hall.open()
    for admission in resumed:
        await hall.ended(admission)


async def statuses(hall: Hall) -> list[str]:
    return [row["status"] for row in await hall.bench.rows("SELECT status FROM effect WHERE tool = 'write_tag' ORDER BY seq")]


@pytest.mark.req("T7", "R2")
async def test_two_writes_cut_off_together_are_both_unknown(hall: Hall) -> None:
    """The machine shows the second: that the first is not shown does not mean that it did not happen."""
    hall.bus.write_gate.clear()
    await write(hall, "eighty", "anna")
    await write(hall, "seventy", "bob")
    await restarted(hall)
    assert hall.bus.writes == [("motor_3.fan_speed", 80), ("motor_3.fan_speed", 70)]
    assert await statuses(hall) == ["unknown", "unknown"]
    said = await hall.said()
    unknown = f"I still do not know whether it was done: {WHAT}. Please check at the machine and settle it."
    assert f"{unknown} I have opened a ticket: somebody should look." in said
    assert not any(text.startswith("I checked.") for text in said)


@pytest.mark.req("T7")
async def test_asked_later_the_tool_tells_what_nothing_replaced(hall: Hall) -> None:
    """A stop left it unknown; nothing was written since."""
    hall.bus.write_gate.clear()
    await write(hall, "eighty", "anna")
    await hall.say("stop that", by="anna")
    await until(lambda: hall.conductor.running_turns == 0, "the turn has ended")
    assert await statuses(hall) == ["unknown"]
    hall.bus.write_gate.set()
    action = (await hall.bench.one("SELECT action_id FROM effect"))["action_id"]
    assert (await hall.rooms.runner.verify_unknown(action, "anna")).status == "applied"


@pytest.mark.req("T7")
async def test_a_later_write_takes_the_evidence_away(hall: Hall) -> None:
    hall.bus.write_gate.clear()
    await write(hall, "eighty", "anna")
    await hall.say("stop that", by="anna")
    await until(lambda: hall.conductor.running_turns == 0, "the turn has ended")
    hall.bus.write_gate.set()
    await write(hall, "seventy", "bob")
    await until(lambda: hall.conductor.running_turns == 0, "the write has ended")
    assert await statuses(hall) == ["unknown", "applied"]
    action = (await hall.bench.rows("SELECT action_id FROM effect ORDER BY seq"))[0]["action_id"]
    assert (await hall.rooms.runner.verify_unknown(action, "anna")).status == "unknown"
    assert (await hall.rooms.runner.settle_effect(action, "done", "I saw it", "anna")).status == "applied"
