"""Shelving, suppression by design, out of service: who, why, for how long, and what is told when it ends."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

from appliance.contracts.alarm import Disposition, Inhibition
from appliance.contracts.errors import Malformed, Refused
from appliance.contracts.operation import OperationLane
from tests.support.alarms import AlarmBench, acknowledge_all, event, rooms_of
from tests.support.ledger import Bench, open_bench
from tests.support.waiting import until

SHELVED, OUT, SUPPRESSED = Inhibition.SHELVED, Inhibition.OUT_OF_SERVICE, Inhibition.SUPPRESSED


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    async with open_bench(tmp_path) as opened:
        yield opened


async def announced(bench: Bench) -> list[tuple[str, str, bool]]:
    """(activation, change, is_state) of everything that was admitted."""
    payloads = [json.loads(row["payload"]) for row in await bench.rows("SELECT payload FROM admission ORDER BY seq")]
    return [(p["activation_id"], p["change"], p["is_state"]) for p in payloads]


@pytest.mark.req("F6", "F7")
async def test_a_shelved_alarm_keeps_its_states_and_is_not_told(bench: Bench) -> None:
    rooms = rooms_of(bench)
    held = await rooms.inhibitions.shelve("hot", 1800, by="anna", reason="fan is being cleaned")
    assert (held.left_s, held.by, held.reason, held.kind) == (1800, "anna", "fan is being cleaned", SHELVED)
    raised = await rooms.door.admit(event(bench))
    assert (raised.disposition, raised.admission) == (Disposition.SHELVED, None)
    assert raised.alarm is not None and raised.alarm.state == "unacknowledged"
    gone = await rooms.door.admit(event(bench, cleared=True))
    assert gone.disposition is Disposition.SHELVED and gone.alarm is not None and gone.alarm.state == "returned_unacknowledged"
    assert (await rooms.door.admit(event(bench, "trip"))).disposition is Disposition.ANNOUNCE  # only the one that was named
    log = await bench.rows("SELECT kind, entity, payload FROM operation WHERE lane = 'P0' ORDER BY seq LIMIT 1")
    assert (log[0]["kind"], log[0]["entity"]) == ("alarm.shelved", "hot")
    assert json.loads(log[0]["payload"]) == {"by": "anna", "reason": "fan is being cleaned", "for_s": 1800}


@pytest.mark.req("F6", "F7")
@pytest.mark.parametrize("how", ["its time is over", "somebody ends it"])
async def test_what_is_still_active_and_was_never_told_is_told_when_shelving_ends(bench: Bench, how: str) -> None:
    rooms = rooms_of(bench)
    await rooms.door.admit(event(bench, activation="before"))
    await rooms.inhibitions.shelve("hot", 60, by="anna", reason="cleaning")
    await rooms.door.admit(event(bench, activation="gone"))
    await rooms.door.admit(event(bench, activation="gone", cleared=True))
    await rooms.door.admit(event(bench, activation="there"))
    bench.clock.advance(61)
    woken = rooms.woken
    if how == "somebody ends it":
        assert await rooms.inhibitions.end("hot", SHELVED, by="bo") == 1
    else:
        assert await rooms.inhibitions.end_what_is_over() is None
    assert rooms.woken == woken + 1
    assert await announced(bench) == [("gateway:hot:before", "raised", False), ("gateway:hot:there", "raised", True)]
    ends = await bench.one("SELECT ended_by FROM alarm_inhibition")
    assert ends["ended_by"] == ("bo" if how == "somebody ends it" else "its time was over")
    assert (await bench.kinds(OperationLane.P0))[-1] == "alarm.unshelved"
    told = await rooms.door.admit(event(bench, activation="there", cleared=True))
    assert told.disposition is Disposition.ANNOUNCE  # who was told of it is told of its end
    account = await rooms.account.draw_up()
    assert account["holds"] and account["sources"][0]["suppressed"] == {"shelved": 2}


@pytest.mark.req("F6")
async def test_an_alarm_that_another_inhibition_holds_stays_held(bench: Bench) -> None:
    rooms = rooms_of(bench)
    await rooms.inhibitions.shelve("hot", 60, by="anna", reason="cleaning")
    await rooms.inhibitions.take_out("hot", by="bo", reason="sensor is broken")
    assert (await rooms.door.admit(event(bench))).disposition is Disposition.OUT_OF_SERVICE
    assert await rooms.inhibitions.end("hot", OUT, by="bo") == 0
    assert (await bench.one("SELECT disposition FROM alarm_event"))["disposition"] == "shelved"
    await rooms.door.suppress("hot", True, "motor is off")
    assert await rooms.inhibitions.end("hot", SHELVED, by="anna") == 0
    assert (await bench.one("SELECT disposition FROM alarm_event"))["disposition"] == "suppressed"
    await rooms.door.suppress("hot", False, "motor is on")
    assert await announced(bench) == [("gateway:hot:1", "raised", True)]


@pytest.mark.req("F6")
async def test_suppression_by_design_is_told_once(bench: Bench) -> None:
    rooms = rooms_of(bench)
    for _ in range(3):
        await rooms.door.suppress("hot", True, "motor_3.running is false")
    assert (await rooms.door.admit(event(bench))).disposition is Disposition.SUPPRESSED
    for _ in range(3):
        await rooms.door.suppress("hot", False, "motor_3.running is true")
    kinds = await bench.kinds(OperationLane.P0)
    assert kinds == ["alarm.suppressed", "alarm.raised", "alarm.unsuppressed"]
    assert len(await announced(bench)) == 1
    with pytest.raises(Refused):
        await rooms.door.suppress("nothing", True, "why")


@pytest.mark.req("F6")
async def test_shelving_needs_a_reason_a_person_and_a_time_the_site_allows(bench: Bench) -> None:
    hold = rooms_of(bench).inhibitions
    for wrong in ({"by": "anna", "reason": " "}, {"by": "", "reason": "cleaning"}):
        with pytest.raises(Malformed):
            await hold.shelve("hot", 60, **wrong)
    with pytest.raises(Malformed):
        await hold.shelve("hot", 0, by="anna", reason="cleaning")
    with pytest.raises(Refused, match="480 minutes at most"):
        await hold.shelve("hot", 28_801, by="anna", reason="cleaning")
    with pytest.raises(Refused, match="no alarm nothing"):
        await hold.shelve("nothing", 60, by="anna", reason="cleaning")
    with pytest.raises(Refused, match="hot is not shelved"):
        await hold.end("hot", SHELVED, by="anna")
    assert await hold.held() == [] and await bench.rows("SELECT 1 FROM operation") == []


@pytest.mark.req("F6")
async def test_shelving_again_starts_its_time_anew(bench: Bench) -> None:
    hold = rooms_of(bench).inhibitions
    await hold.shelve("hot", 60, by="anna", reason="cleaning")
    bench.clock.advance(50)
    await hold.shelve("hot", 60, by="bo", reason="still cleaning")
    bench.clock.advance(50)
    assert await hold.end_what_is_over() == pytest.approx(10)
    assert [(held.by, held.left_s) for held in await hold.held()] == [("bo", pytest.approx(10))]


@pytest.mark.req("F6")
async def test_time_that_is_over_holds_nothing_even_if_nobody_ended_it_yet(bench: Bench) -> None:
    rooms = rooms_of(bench)
    await rooms.inhibitions.shelve("hot", 60, by="anna", reason="cleaning")
    bench.clock.advance(60)
    assert (await rooms.door.admit(event(bench))).disposition is Disposition.ANNOUNCE


async def after_reboot(
    tmp_path: Path, *, mono_s: float, wall_s: float, was_synced: bool = True, is_synced: bool = True
) -> tuple[float | None, list[str]]:
    """Shelve for 600 s, let 100 s pass, reboot; return what is left then, and what became of a raise."""
    async with open_bench(tmp_path) as bench:
        bench.clock.is_synced = was_synced
        await rooms_of(bench).inhibitions.shelve("hot", 600, by="anna", reason="cleaning")
        bench.clock.advance(100)
        clock, ids = bench.clock, bench.ids
    clock.boot_id, clock.mono_ns, clock.is_synced = "boot-2", int(mono_s * 1e9), is_synced
    clock.now += timedelta(seconds=wall_s)
    async with open_bench(tmp_path, clock=clock, ids=ids) as bench:
        rooms = rooms_of(bench)
        left_s = await rooms.inhibitions.end_what_is_over()
        told = await rooms.door.admit(event(bench))
        return left_s, [told.disposition]


@pytest.mark.req("F6", "R2")
async def test_shelving_outlives_a_reboot_by_the_wall_clock_if_that_was_right(tmp_path: Path) -> None:
    assert await after_reboot(tmp_path / "a", mono_s=30, wall_s=200) == (pytest.approx(300), ["shelved"])
    assert await after_reboot(tmp_path / "b", mono_s=30, wall_s=501) == (None, ["announce"])


@pytest.mark.req("F6")
async def test_after_a_reboot_with_a_wrong_clock_it_ends_no_later_than_its_time_from_the_boot_on(tmp_path: Path) -> None:
    # Fifty years ahead, then behind: neither ends it at once, nor keeps it for ever.
    far_s = 50 * 365 * 86_400.0
    assert await after_reboot(tmp_path / "a", mono_s=30, wall_s=far_s, was_synced=False) == (pytest.approx(570), ["shelved"])
    assert await after_reboot(tmp_path / "b", mono_s=601, wall_s=-far_s, was_synced=False) == (None, ["announce"])
    # The time was right then and is not known now: look again soon, it may become known.
    assert await after_reboot(tmp_path / "c", mono_s=30, wall_s=-50, is_synced=False) == (pytest.approx(60), ["shelved"])


@pytest.mark.req("F6")
async def test_the_service_sleeps_until_the_next_end_and_is_woken_by_a_change(bench: Bench) -> None:
    rooms = rooms_of(bench)
    running = asyncio.create_task(rooms.inhibitions.run())
    try:
        await rooms.door.admit(event(bench, activation="0"))
        await rooms.inhibitions.shelve("hot", 0.05, by="anna", reason="a short one")
        await rooms.door.admit(event(bench))
        bench.clock.advance(1)
        await until(lambda: rooms.woken == 2, "the end of the shelving")
        assert (await announced(bench))[-1] == ("gateway:hot:1", "raised", True)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


@pytest.mark.req("F6", "F7")
async def test_nobody_acknowledges_by_all_what_nobody_was_told(bench: Bench) -> None:
    rooms: AlarmBench = rooms_of(bench)
    await rooms.inhibitions.shelve("hot", 60, by="anna", reason="cleaning")
    await rooms.door.admit(event(bench))
    await rooms.door.admit(event(bench, "trip"))
    shown = await bench.database.transaction(lambda tx: rooms.handling.acknowledge_in(tx, "gateway:trip:1", 1, by="anna"))
    assert (shown.acknowledged_by, shown.revision) == ("anna", 2)
    with pytest.raises(Refused, match="changed meanwhile: it is acknowledged now"):
        await rooms.handling.acknowledge("gateway:trip:1", 1, by="bo")
    await rooms.door.admit(event(bench, "jam"))
    await acknowledge_all(bench, rooms.plant)
    with pytest.raises(Refused):
        await rooms.handling.reset("gateway:jam:1", 2, by="anna")  # still active
    await rooms.door.admit(event(bench, "jam", cleared=True))
    assert (await rooms.handling.reset("gateway:jam:1", 3, by="anna")).state == "normal"


@pytest.mark.req("F7", "F8")
async def test_a_button_acknowledges_what_was_live_when_it_was_pressed(bench: Bench) -> None:
    rooms = rooms_of(bench)
    await rooms.inhibitions.shelve("jam", 60, by="anna", reason="cleaning")
    for name in ("hot", "trip", "jam"):
        await rooms.door.admit(event(bench, name))
    bench.clock.advance(1)
    pressed_ns = bench.clock.monotonic_ns()
    bench.clock.advance(0.2)
    await rooms.door.admit(event(bench, "trip", cleared=True))  # changed while the press was on its way
    await rooms.door.admit(event(bench, "hot", "2"))
    done = await rooms.handling.acknowledge_known_at(pressed_ns, by="panel")
    assert [(alarm.activation_id, alarm.acknowledged_by) for alarm in done] == [("gateway:hot:1", "panel")]
