"""Checks that are due later: each at most once, and every one accounted for."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from appliance.admission.gate import Gate
from appliance.contracts.clock import Clock
from appliance.contracts.errors import Refused
from appliance.contracts.operation import OperationLane
from appliance.contracts.principal import AccessLevel, Identification, Principal
from appliance.contracts.scheduled_check import ScheduledCheck
from appliance.intake.schedule_door import ScheduleDoor
from appliance.store import scheduled_checks
from tests.support.ledger import Bench, open_bench
from tests.support.plans import phrasing

ANNA = Principal("anna", Identification.TOKEN, "technician", AccessLevel.OPERATOR, "jti-1")
WHAT = "read the temperature of motor 3"


@dataclass
class Yard:
    """A bench with a gate; doors are made as a test needs them."""

    bench: Bench
    limit: int = 256
    woken: int = field(default=0, init=False)
    said: int = field(default=0, init=False)

    def door(self, clock: Clock | None = None) -> ScheduleDoor:
        bench = self.bench

        def wake() -> None:
            self.woken += 1

        def said() -> None:
            self.said += 1

        gate = Gate(bench.database, bench.clock, bench.ids, self.limit, notify=wake)
        return ScheduleDoor(bench.database, gate, clock or bench.clock, bench.ids, phrasing(), said=said)

    async def ask(self, after_s: float = 600.0, *, language: str = "en", what: str = WHAT) -> ScheduledCheck:
        bench = self.bench
        return await bench.database.transaction(
            lambda tx: scheduled_checks.schedule(
                tx, bench.clock, bench.ids, turn_id="tr_1", lane="console:anna", language=language, principal=ANNA,
                intent="read_tag", slots={"tag": "motor_3.temperature"}, what=what, after_s=after_s,
            )
        )  # fmt: skip

    async def admissions(self) -> list[dict[str, Any]]:
        return await self.bench.rows("SELECT * FROM admission ORDER BY seq")

    async def statuses(self) -> list[str]:
        return [row["status"] for row in await self.bench.rows("SELECT status FROM scheduled_check ORDER BY seq")]

    async def until_statuses(self, *statuses: str) -> None:
        async with asyncio.timeout(10):
            while await self.statuses() != list(statuses):  # noqa: ASYNC110 - rows set no event
                await asyncio.sleep(0.005)

    async def texts(self) -> list[str]:
        return [row["text"] for row in await self.bench.rows("SELECT text FROM delivery ORDER BY seq")]

    def reboot(self, off_s: float, *, is_synced: bool = True) -> None:
        """Be off for a time: the monotonic clock starts anew, and wall time may not be known."""
        clock = self.bench.clock
        clock.advance(off_s)
        clock.boot_id, clock.mono_ns, clock.is_synced = f"{clock.boot_id}+", 5_000_000_000, is_synced


@pytest.fixture
async def yard(tmp_path: Path) -> AsyncIterator[Yard]:
    async with open_bench(tmp_path) as bench:
        yield Yard(bench)


@pytest.mark.req("Y1")
async def test_what_is_due_is_admitted_as_if_it_was_said_now_with_who_asked_and_that_nobody_may_be_there(yard: Yard) -> None:
    check = await yard.ask(600)
    door = yard.door()
    assert (await door.look(), await yard.admissions()) == (600, [])
    yard.bench.clock.advance(600)
    yard.bench.clock.now = yard.bench.clock.now.replace(year=1990)  # wall time was set: within a boot it does not count
    assert await door.look() is None
    (admission,) = await yard.admissions()
    assert (admission["door"], admission["kind"], admission["lane"]) == ("schedule", "utterance", "schedule:checks")
    payload = json.loads(admission["payload"])
    assert (payload["text"], payload["language"], payload["by"], payload["unattended"]) == (WHAT, "en", "schedule", True)
    assert Principal.from_json(payload["principal"]) == ANNA
    assert (await yard.statuses(), yard.woken, yard.said) == (["started"], 1, 1)
    assert await yard.texts() == [f"I was asked earlier to do this: {WHAT}."]
    row = await yard.bench.one("SELECT * FROM scheduled_check")
    assert (row["id"], row["admission_id"]) == (check.id, admission["id"])
    kinds = await yard.bench.kinds(OperationLane.P1)
    assert [kind for kind in kinds if kind.startswith("check.")] == ["check.scheduled", "check.started"]


@pytest.mark.field("FC-R07")
async def test_two_schedulers_that_both_found_it_due_fire_it_once(yard: Yard) -> None:
    """Both have read the row as waiting before either acts on it; whoever sets it second writes nothing at all."""
    check = await yard.ask(60)
    yard.bench.clock.advance(61)
    first, second = yard.door(), yard.door()
    await asyncio.gather(first._due(check, 1.0), second._due(check, 1.0))
    assert (len(await yard.admissions()), await yard.texts()) == (1, [f"I was asked earlier to do this: {WHAT}."])
    assert yard.woken == 1
    kinds = await yard.bench.kinds(OperationLane.P1)
    assert kinds.count("check.started") == 1
    await asyncio.gather(*(door._miss(check, "check_missed_down", "late") for door in (first, second)))
    assert (await yard.statuses(), len(await yard.texts())) == (["started"], 1)


@pytest.mark.field("FC-R07")
async def test_two_schedulers_that_run_and_one_of_the_next_start_fire_each_check_once(yard: Yard) -> None:
    for _ in range(8):
        await yard.ask(60)
    yard.bench.clock.advance(60)
    doors = [yard.door() for _ in range(2)]
    running = [asyncio.create_task(door.run()) for door in doors]
    try:
        await yard.until_statuses(*["started"] * 8)
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
    yard.bench.clock.advance(28)
    await yard.door().look()
    assert len(await yard.admissions()) == 8 == len(await yard.texts())


@pytest.mark.field("FC-R08")
async def test_what_was_due_while_nothing_ran_is_made_up_and_says_so_or_is_missed_and_says_so(yard: Yard) -> None:
    await yard.ask(60, what="read the temperature of motor 1")
    await yard.ask(500)
    await yard.ask(2_000, what="read the temperature of motor 2")
    yard.bench.clock.advance(1_000)  # the appliance was down within one boot
    assert await yard.door().look() == 1_000
    assert await yard.statuses() == ["missed", "started", "waiting"]
    assert await yard.texts() == [
        "I have missed what I was asked to do: read the temperature of motor 1. I was not running at that time.",
        f"I was asked earlier to do this, and I am 8 minutes 20 seconds late: {WHAT}.",
    ]
    (missed,) = await yard.bench.rows("SELECT payload FROM operation WHERE kind = 'check.missed'")
    assert "due 940 s ago" in json.loads(missed["payload"])["why"]


@pytest.mark.field("FC-R08")
@pytest.mark.parametrize(("off_s", "becomes"), [(300.0, "waiting"), (900.0, "started"), (2_000.0, "missed")])
async def test_across_a_reboot_wall_time_tells_when_it_was_set_at_both_ends(yard: Yard, off_s: float, becomes: str) -> None:
    await yard.ask(600)
    yard.reboot(off_s)
    left = await yard.door().look()
    assert (await yard.statuses(), left) == ([becomes], 300.0 if becomes == "waiting" else None)


@pytest.mark.field("FC-R08")
async def test_while_no_clock_can_be_trusted_it_waits_and_the_list_says_why(yard: Yard) -> None:
    check = await yard.ask(600)
    yard.reboot(500, is_synced=False)
    door = yard.door()
    assert await door.look() == 1_200
    (shown,) = await door.checks(waiting_only=True, limit=10)
    assert (shown["id"], shown["left_s"], "until something sets the clock" in shown["why"]) == (check.id, None, True)
    yard.bench.clock.advance(40)
    yard.bench.clock.is_synced = True
    assert (await door.look(), await yard.statuses()) == (60.0, ["waiting"])
    (shown,) = await door.checks(waiting_only=True, limit=10)
    assert (shown["left_s"], shown["why"]) == (60.0, "")


@pytest.mark.field("FC-R08")
async def test_a_check_nobody_can_tell_the_time_of_is_missed_and_not_forgotten(yard: Yard) -> None:
    await yard.ask(600)
    yard.reboot(500, is_synced=False)
    door = yard.door()
    yard.bench.clock.advance(1_200)  # whatever time it is: so long after this start it is too late
    assert (await door.look(), await yard.statuses()) == (None, ["missed"])
    yard.bench.clock.is_synced = False
    await yard.ask(600)  # asked for while no clock was set, so no clock can ever tell
    yard.reboot(10, is_synced=True)
    assert (await yard.door().look(), await yard.statuses()) == (None, ["missed", "missed"])
    assert (await yard.texts())[-1].endswith("I was restarted and cannot tell when it was due.")


@pytest.mark.field("FC-R08")
async def test_what_finds_no_room_is_tried_again_and_missed_aloud_when_it_is_too_late(yard: Yard) -> None:
    yard.limit = 0
    await yard.ask(60)
    yard.bench.clock.advance(61)
    door = yard.door()
    assert (await door.look(), await yard.statuses(), await yard.texts()) == (1.0, ["waiting"], [])
    yard.bench.clock.advance(599)
    assert (await door.look(), await yard.statuses()) == (None, ["missed"])
    assert (await yard.texts())[0].endswith("Too much else was waiting.")
    yard.limit = 256
    await yard.ask(60)
    yard.bench.clock.advance(61)
    await yard.door().look()
    assert await yard.statuses() == ["missed", "started"]


@pytest.mark.field("FC-R08")
async def test_what_a_person_cancels_is_not_made_and_stays_in_the_list(yard: Yard) -> None:
    check, door = await yard.ask(60), yard.door()
    assert (await door.cancel(check.id, "bert"))["status"] == "cancelled"
    with pytest.raises(Refused, match="is cancelled already"):
        await door.cancel(check.id, "carl")
    with pytest.raises(Refused, match="there is no check check_none"):
        await door.cancel("check_none", "carl")
    yard.bench.clock.advance(61)
    assert (await door.look(), await yard.admissions()) == (None, [])
    assert await door.checks(waiting_only=True, limit=10) == []
    (shown,) = await door.checks(waiting_only=False, limit=10)
    assert (shown["status"], shown["why"], shown["by"], shown["what"]) == ("cancelled", "cancelled by bert", "anna", WHAT)


@pytest.mark.field("FC-R08")
async def test_the_list_tells_what_became_of_what_was_started(yard: Yard) -> None:
    await yard.ask(60)
    yard.bench.clock.advance(60)
    door = yard.door()
    await door.look()
    (shown,) = await door.checks(waiting_only=False, limit=10)
    assert (shown["status"], shown["outcome"]) == ("started", "queued")
    await yard.bench.database.transaction(lambda tx: tx.execute("UPDATE admission SET status='terminal', outcome='done'"))
    (shown,) = await door.checks(waiting_only=False, limit=10)
    assert shown["outcome"] == "done"


async def test_it_sleeps_until_the_next_one_and_wakes_for_news(tmp_path: Path) -> None:
    """With the real clock: due in 0.2 s, asked for while the service sleeps with nothing to do."""
    from appliance.foundation.system_clock import SystemClock

    clock: Any = SystemClock()
    async with open_bench(tmp_path, clock=clock) as bench:
        yard = Yard(bench)
        door = yard.door()
        running = asyncio.create_task(door.run())
        try:
            await yard.ask(0.2)
            door.notify()
            await yard.until_statuses("started")
            row = await bench.one("SELECT c.due_mono_ns, a.admitted_mono_ns FROM scheduled_check c, admission a")
            assert row["admitted_mono_ns"] >= row["due_mono_ns"]
        finally:
            running.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await running
