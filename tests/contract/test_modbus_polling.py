"""Polling over real sockets: rates, merging, quality through an outage, what is told to whom."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any

import pytest

from appliance.contracts.plant import Plant
from appliance.contracts.reading import Quality, Reading, Visibility
from appliance.foundation.supervisor import Degraded
from appliance.foundation.system_clock import SystemClock
from drivers.modbus.bus import ModbusBus
from tests.support.register_plc import Asked, RegisterPlc, register_plc
from tests.support.waiting import until

FAST_S, SLOW_S, TIMEOUT_S = 0.02, 0.25, 0.3
HOLDING = 3


def tag(name: str, address: int, **more: Any) -> dict[str, Any]:
    base = {"name": name, "asset": "a", "link": "l", "device_id": 1, "kind": "holding_register", "type": "uint16", "spoken": {}}
    return base | {"address": address} | more


def plant(port: int, tags: list[dict[str, Any]], devices: Sequence[dict[str, Any]] = ()) -> Plant:
    link = {"id": "l", "host": "127.0.0.1", "port": port, "timeout_s": TIMEOUT_S, "retries": 0, "devices": list(devices)}
    return Plant.model_validate(
        {
            "site": "s",
            "links": [link],
            "assets": [{"id": "a", "area": "x", "spoken": {}}],
            "poll_groups": [{"name": "fast", "every_s": FAST_S}, {"name": "slow", "every_s": SLOW_S}],
            "tags": tags,
            "alarms": [],
        }
    )


class Site:
    def __init__(self, bus: ModbusBus, plc: RegisterPlc, degraded: Degraded) -> None:
        self.bus = bus
        self.plc = plc
        self.degraded = degraded
        self.samples: list[tuple[int, Reading]] = []
        self.news: list[Reading] = []
        self.seen: list[Visibility] = []
        self._clock = SystemClock()
        bus.sample_listeners.append(self._note)
        bus.change_listeners.append(self.news.extend)
        bus.visibility_listeners.append(self.seen.append)

    def _note(self, readings: Sequence[Reading]) -> None:
        self.samples += [(self._clock.monotonic_ns(), reading) for reading in readings]

    def of(self, name: str) -> list[Reading]:
        return [reading for _, reading in self.samples if reading.tag == f"a.{name}"]

    def times_s(self, name: str) -> list[float]:
        return [at_ns / 1e9 for at_ns, reading in self.samples if reading.tag == f"a.{name}"]

    def newest(self, name: str) -> Reading:
        return self.of(name)[-1]


@asynccontextmanager
async def site(
    tables: dict[tuple[int, int], dict[int, int]],
    tags: list[dict[str, Any]],
    devices: Sequence[dict[str, Any]] = (),
    prepare: Callable[[RegisterPlc], None] = lambda plc: None,
    clock: SystemClock | None = None,
) -> AsyncIterator[Site]:
    async with register_plc(tables) as plc:
        prepare(plc)
        degraded = Degraded()
        bus = ModbusBus(plant(plc.port, tags, devices), clock or SystemClock(), degraded)
        it = Site(bus, plc, degraded)
        running = asyncio.create_task(bus.run())
        try:
            yield it
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            await bus.close()


def registers(count: int) -> dict[int, int]:
    return {address: 100 + address for address in range(count)}


@pytest.mark.req("F3")
async def test_each_group_has_its_own_rate_and_neighbours_share_a_request() -> None:
    tags = [tag("t0", 0, poll="fast"), tag("t5", 5, poll="fast"), tag("s3", 3, poll="slow"), tag("unpolled", 4)]
    async with site({(1, HOLDING): registers(10)}, tags) as it:
        await until(lambda: len(it.of("t0")) >= 50, "fifty fast samples")
        kinds = {(each.function, each.address, each.count) for each in it.plc.asked}
        assert kinds == {(HOLDING, 0, 6), (HOLDING, 3, 1)}, "nothing else is asked for"
        took_s = it.times_s("t0")[49] - it.times_s("t0")[0]
        assert took_s >= 48 * FAST_S, "no more often than declared"
        assert len(it.of("t0")) == len(it.of("t5"))
        slow = len(it.of("s3"))
        assert 2 <= slow <= took_s / SLOW_S + 2
        assert (it.newest("t5").value, it.newest("s3").value) == (105, 103)
        assert it.bus.last("a.t0").quality is Quality.GOOD  # type: ignore[union-attr]
        assert it.bus.last("a.unpolled") is None
        assert it.plc.connections == 1


@pytest.mark.req("F3")
async def test_only_what_moved_is_news() -> None:
    tags = [tag("t0", 0, poll="fast"), tag("t1", 1, poll="fast", deadband=5), tag("t2", 2, poll="fast")]
    cells = registers(3)
    async with site({(1, HOLDING): cells}, tags) as it:
        await until(lambda: len(it.news) == 3, "everything is news at first")
        cells[0], cells[1] = 7, cells[1] + 3
        await until(lambda: len(it.news) == 4, "a change is news")
        cells[1] += 2
        await until(lambda: len(it.news) == 5, "the deadband is reached")
        so_far = len(it.samples)
        await until(lambda: len(it.samples) > so_far + 30, "more samples")
        assert [(reading.tag, reading.value) for reading in it.news[3:]] == [("a.t0", 7), ("a.t1", 106)]


@pytest.mark.req("F3", "F7")
@pytest.mark.field("FC-F05", "FC-F06")
async def test_an_outage_is_stale_with_the_old_time_and_ends_without_a_burst() -> None:
    tags = [tag("t0", 0, poll="fast"), tag("s3", 3, poll="slow")]
    async with site({(1, HOLDING): registers(10)}, tags) as it:
        await until(lambda: it.of("t0") and it.of("s3"), "polled")
        it.plc.silent.add(1)
        await until(lambda: it.newest("t0").quality is Quality.STALE, "stale")
        assert it.newest("s3").quality is Quality.STALE, "all blocks of the device at once"
        good = [reading for reading in it.of("t0") if reading.quality is Quality.GOOD][-1]
        stale = it.newest("t0")
        assert (stale.value, stale.source_utc, stale.raw) == (good.value, good.source_utc, good.raw)
        assert "no answer" in stale.why
        assert "holding_register 0 of device 1 on l" in stale.why
        last = it.bus.last("a.t0")
        assert last is not None
        assert (last.quality, last.source_utc) == (Quality.STALE, good.source_utc)
        assert it.seen[-1].link == "l"
        assert (it.seen[-1].device_id, it.seen[-1].is_visible) == (None, False)
        assert list(it.degraded.reasons) == ["plc:l"]
        silent_for = len(it.plc.asked)
        await until(lambda: len(it.plc.asked) >= silent_for + 3, "asked again")
        assert {r.quality for r in it.of("t0")[-3:]} == {Quality.STALE}
        assert {r.source_utc for r in it.of("t0") if r.quality is Quality.STALE} == {good.source_utc}, "never a fresh time"
        assert [r.quality for r in it.news if r.tag == "a.t0"] == [Quality.GOOD, Quality.STALE], "told once"

        it.plc.silent.clear()
        await until(lambda: it.newest("t0").quality is Quality.GOOD, "good again", within_s=20)
        back = len(it.of("t0"))
        await until(lambda: len(it.of("t0")) >= back + 20, "polled on")
        times_s = it.times_s("t0")[back - 1 :]
        assert times_s[20] - times_s[0] >= 19 * FAST_S, "what was missed is not made up for"
        assert [r.quality for r in it.news if r.tag == "a.t0"] == [Quality.GOOD, Quality.STALE, Quality.GOOD]
        assert it.degraded.reasons == {}
        assert [each.is_visible for each in it.seen] == [True, False, True]


@pytest.mark.req("F1", "F3")
@pytest.mark.field("FC-F10")
async def test_a_dead_device_keeps_only_its_own_tags_waiting() -> None:
    tags = [tag("t0", 0, poll="fast"), tag("dead", 0, poll="fast", device_id=2)]
    async with site({(1, HOLDING): registers(2), (2, HOLDING): registers(2)}, tags) as it:
        await until(lambda: it.of("t0") and it.of("dead"), "both polled")
        it.plc.silent.add(2)
        await until(lambda: "plc:l:2" in it.degraded.reasons, "the device is said to be lost")
        assert it.degraded.reasons["plc:l:2"].startswith(f"cannot see device 2 at 127.0.0.1:{it.plc.port}: no answer")
        assert it.seen[-1] == Visibility("l", 2, is_visible=False, why=it.seen[-1].why)
        so_far = len(it.of("t0"))
        await until(lambda: len(it.of("t0")) >= so_far + 60, "its neighbour goes on")
        gaps_s = [after - before for before, after in pairwise(it.times_s("t0"))]
        assert max(gaps_s) < 2 * TIMEOUT_S, "it waits for one time-out at most"
        assert sorted(gaps_s)[len(gaps_s) // 2] < 4 * FAST_S, "and seldom"
        assert {r.quality for r in it.of("t0")} == {Quality.GOOD}
        assert it.newest("dead").quality is Quality.STALE
        it.plc.silent.clear()
        await until(lambda: not it.degraded.reasons, "found again", within_s=20)


@pytest.mark.req("F3")
async def test_a_slow_group_of_many_blocks_does_not_hold_up_a_fast_one() -> None:
    scattered = [tag(f"s{n}", 100 * n, poll="slow") for n in range(1, 11)]
    cells = {address: 1 for n in range(11) for address in range(100 * n, 100 * n + 2)}
    async with site({(1, HOLDING): cells}, [tag("t0", 0, poll="fast"), *scattered], prepare=_slow) as it:
        await until(lambda: len(it.of("s10")) >= 3, "all slow blocks are read too")
        order = [each.address for each in it.plc.asked[:-1]]
        waits = _runs_without(order, 0)
        assert max(waits) <= 4, "between two fast samples only so many slow ones as are due first"


@pytest.mark.req("F3")
async def test_a_device_too_slow_for_its_rate_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", logger="drivers.modbus.poller")
    cells = {0: 1, 500: 1, 1000: 1}
    async with site({(1, HOLDING): cells}, [tag(f"t{at}", at, poll="fast") for at in cells]) as it:
        it.plc.delay_s[1] = 2 * FAST_S
        await until(lambda: caplog.records, "said to be behind")
        so_far = len(it.of("t0"))
        await until(lambda: len(it.of("t0")) > so_far + 30, "polled on")
        assert [record.getMessage() for record in caplog.records] == ["modbus.poll_behind"], "for all its blocks"
        assert {reading.quality for reading in it.of("t0")} == {Quality.GOOD}


def _slow(plc: RegisterPlc) -> None:
    plc.delay_s[1] = 0.006


def _runs_without(order: list[int], wanted: int) -> list[int]:
    at = [place for place, address in enumerate(order) if address == wanted]
    return [after - before - 1 for before, after in pairwise(at)]


@pytest.mark.req("F3")
async def test_a_block_over_an_address_that_is_not_there_is_parted_once() -> None:
    cells = registers(10)
    del cells[4]
    async with site(
        {(1, HOLDING): cells}, [tag("t0", 0, poll="fast"), tag("t1", 1, poll="fast"), tag("t8", 8, poll="fast")]
    ) as it:
        await until(lambda: len(it.of("t8")) >= 10, "polled")
        assert it.plc.asked[0] == Asked(1, HOLDING, 0, 9)
        assert {(each.address, each.count) for each in it.plc.asked[1:]} == {(0, 2), (8, 1)}
        assert {reading.quality for _, reading in it.samples} == {Quality.GOOD}


class Ahead(SystemClock):
    """The time, some of it skipped."""

    ahead_s = 0.0

    def monotonic_ns(self) -> int:
        return super().monotonic_ns() + int(self.ahead_s * 1e9)


@pytest.mark.req("F3")
async def test_a_plc_that_starts_with_no_addresses_is_not_asked_for_parts_again_and_again() -> None:
    cells: dict[int, int] = {}
    tags = [tag(f"t{n}", n, poll="fast") for n in range(16)]
    async with site({(1, HOLDING): cells}, tags) as it:
        await until(lambda: len(it.of("t0")) >= 10, "polled")
        assert {reading.quality for _, reading in it.samples} == {Quality.BAD}
        assert len(it.plc.asked) <= 1 + 30 + 12, "looked for parts once"
        cells.update(registers(16))
        await until(lambda: it.newest("t15").quality is Quality.GOOD, "there")
        so_far = len(it.plc.asked)
        await until(lambda: len(it.plc.asked) > so_far + 5, "polled on")
        assert set(it.plc.asked[so_far:]) == {Asked(1, HOLDING, 0, 16)}, "in one request"


@pytest.mark.req("F3")
async def test_a_parted_block_is_whole_again_when_the_missing_address_came() -> None:
    cells, clock = registers(8), Ahead()
    del cells[3], cells[6]
    async with site({(1, HOLDING): cells}, [tag(f"t{n}", n, poll="fast") for n in range(8)], clock=clock) as it:
        await until(lambda: len(it.of("t7")) >= 3, "polled")
        await it.bus.read([f"a.t{n}" for n in range(8)])
        for skipped_s in (13, 25):  # still missing: tried in vain, later each time
            so_far = len(it.plc.asked)
            clock.ahead_s += skipped_s
            await until(lambda so_far=so_far: len(it.plc.asked) > so_far + 30, "polled on")  # type: ignore[misc]
            assert it.plc.asked[so_far:].count(Asked(1, HOLDING, 0, 8)) == 1
        cells.update(registers(8))
        clock.ahead_s += 60
        await until(lambda: it.newest("t3").quality is Quality.GOOD, "there")
        so_far = len(it.plc.asked)
        await until(lambda: len(it.plc.asked) > so_far + 5, "polled on")
        await it.bus.read([f"a.t{n}" for n in range(8)])
        assert set(it.plc.asked[so_far:]) == {Asked(1, HOLDING, 0, 8)}, "in one request, on demand too"
        assert {it.newest(f"t{n}").value for n in range(8)} == set(range(100, 108))


@pytest.mark.req("F3")
async def test_what_one_poller_stumbles_over_stops_no_other() -> None:
    tags = [tag("t0", 0, poll="fast"), tag("u0", 0, poll="fast", device_id=2)]
    async with site({(1, HOLDING): registers(1), (2, HOLDING): registers(1)}, tags) as it:
        it.bus.sample_listeners.append(_stumble)
        await until(lambda: "poll:l:2" in it.degraded.reasons, "said")
        so_far = len(it.of("t0"))
        await until(lambda: len(it.of("t0")) > so_far + 10, "the other goes on")


def _stumble(readings: Collection[Reading]) -> None:
    if any(reading.tag == "a.u0" for reading in readings):
        raise ValueError("a fault in our own program")


@pytest.mark.req("F3")
async def test_a_tag_that_is_not_there_is_bad_and_hides_no_other() -> None:
    async with site({(1, HOLDING): {0: 1, 2: 3}}, [tag(f"t{n}", n, poll="fast") for n in range(3)]) as it:
        await until(lambda: len(it.of("t1")) >= 3, "polled")
        assert {name: it.newest(name).quality for name in ("t0", "t1", "t2")} == {
            "t0": Quality.GOOD, "t1": Quality.BAD, "t2": Quality.GOOD,
        }  # fmt: skip
        assert it.newest("t1").why == "holding_register 1 of device 1 on l: the device answers ILLEGAL DATA ADDRESS"
        assert it.bus.is_online("l")


@pytest.mark.req("F3")
async def test_forbidden_addresses_and_the_devices_bound_hold_on_the_wire() -> None:
    tags = [tag(f"t{n}", n, poll="fast") for n in range(12) if n != 5]
    device = {"id": 1, "most_registers": 4, "forbidden": [{"kind": "holding_register", "first": 5, "last": 5}]}
    async with site({(1, HOLDING): registers(12)}, tags, [device]) as it:
        await until(lambda: len(it.of("t11")) >= 5, "polled")
        await it.bus.read([f"a.t{n}" for n in range(12) if n != 5])
        for each in it.plc.asked:
            assert each.count <= 4
            assert not each.address <= 5 < each.address + each.count
        assert it.newest("t11").value == 111


@pytest.mark.req("F7")
async def test_a_link_without_polled_tags_is_kept_in_sight_and_tells_no_samples() -> None:
    async with site({(1, HOLDING): registers(3)}, [tag("t0", 2)]) as it:
        await until(lambda: it.bus.is_online("l"), "in sight unasked")
        assert it.plc.asked == [Asked(1, HOLDING, 2, 1)]
        assert it.samples == []
        assert it.bus.last("a.t0") is None


@pytest.mark.req("F2")
@pytest.mark.field("FC-F02", "FC-F03")
async def test_a_probe_shows_all_four_orders_beside_the_raw_words() -> None:
    tags = [
        tag("level", 0, type="float32", word_order="ABCD", unit="bar"),
        tag("count", 2, type="int16"),
        tag("on", 3, type="bool", bit=1),
    ]
    async with site({(1, HOLDING): {0: 0x6666, 1: 0x42BC, 2: 65531, 3: 2}}, tags) as it:
        probed = await it.bus.probe("a.level")
        assert (probed["wire"], probed["raw"]) == ("holding_register 0-1 of device 1 on l", ["0x6666", "0x42BC"])
        rows = {row["order"]: row for row in probed["readings"]}
        assert list(rows) == ["ABCD", "BADC", "CDAB", "DCBA"]
        assert [order for order, row in rows.items() if row["is_declared"]] == ["ABCD"]
        assert rows["CDAB"]["value"] == pytest.approx(94.2, rel=1e-6)
        assert rows["CDAB"]["hex"] == "42BC 6666"
        assert rows["ABCD"]["value"] != pytest.approx(94.2, rel=1e-6)
        (count,) = {(row["unsigned"], row["signed"], row["value"]) for row in (await it.bus.probe("a.count"))["readings"]}
        assert count == (65531, -5, -5), "both signs; a number of one register has one order only"
        assert [row["value"] for row in (await it.bus.probe("a.on"))["readings"]] == [True]
