"""What is kept of tags: by exception, bounded, apart from the ledger; what is asked of it; and what its damage costs."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from appliance.contracts.errors import Malformed, Refused, StorageFullError
from appliance.contracts.plant import Plant
from appliance.contracts.reading import Quality, Reading, Value
from appliance.foundation.supervisor import Degraded
from appliance.store import history as history_module
from appliance.store import history_file
from appliance.store.history import HISTORY_FILE, History
from appliance.store.history_file import HistoryFile, Moment
from appliance.store.history_settings import HistorySettings
from tests.support.clock import ManualClock
from tests.support.waiting import until

KEY = "motor_3.temperature"
PLANT = Plant.model_validate(
    {
        "site": "works",
        "links": [{"id": "plc", "host": "127.0.0.1", "port": 502}],
        "assets": [{"id": "motor_3", "area": "line_3", "spoken": {"en": ["motor 3"]}}],
        "alarms": [],
        "poll_groups": [{"name": "fast", "every_s": 1}],
        "tags": [
            {
                "name": name, "asset": "motor_3", "link": "plc", "device_id": 1, "kind": "input_register", "address": 4 * n,
                "type": kind, "spoken": {"en": [name]}, **more,
            }
            for n, (name, kind, more) in enumerate(
                [
                    ("temperature", "int16", {"scale": 0.1, "unit": "degC", "decimals": 1, "poll": "fast"}),
                    ("running", "bool", {"bit": 0, "poll": "fast"}),
                    ("label", "string", {"length": 2, "poll": "fast"}),
                    ("seldom", "int16", {}),
                ]
            )
        ],
    }
)  # fmt: skip


class Keeping:
    """A history with a clock that is moved, and the field that tells it."""

    def __init__(self, folder: Path, clock: ManualClock, settings: HistorySettings | None = None) -> None:
        self.clock, self.degraded, self.path = clock, Degraded(), folder / HISTORY_FILE
        self.history = History(self.path, PLANT, clock, self.degraded, settings or HistorySettings())

    def tell(self, value: Value | None, quality: Quality = Quality.GOOD, key: str = KEY) -> None:
        reading = Reading(key, value, "degC", quality, self.clock.utc(), (), "", self.clock.monotonic_ns())
        self.history.note([reading])

    async def points(self, minutes: float = 30, key: str = KEY) -> list[tuple[float, float | None]]:
        return [(round(p.at_s, 3), p.value) for p in (await self.history.track(key, minutes)).points]


@asynccontextmanager
async def keeping(
    folder: Path, clock: ManualClock | None = None, settings: HistorySettings | None = None
) -> AsyncIterator[Keeping]:
    kept = Keeping(folder, clock or ManualClock(), settings)
    try:
        yield kept
    finally:
        await kept.history.close()


@pytest.mark.req("F3")
async def test_what_is_reported_by_exception_is_kept_with_its_quality_and_holds_until_the_next(tmp_path: Path) -> None:
    async with keeping(tmp_path) as kept:
        kept.clock.advance(3600)
        for value, quality, after_s in ((61.0, Quality.GOOD, 600), (64.5, Quality.GOOD, 300), (64.5, Quality.STALE, 60)):
            kept.tell(value, quality)
            kept.clock.advance(after_s)
        kept.tell(None, Quality.BAD)
        kept.clock.advance(60)
        kept.tell(70.0)
        expected = [(780.0, 61.0), (1380.0, 64.5), (1680.0, None), (1740.0, None), (1800.0, 70.0)]
        assert await kept.points() == expected, "what waits to be written is there already"
        await kept.history.write()
        assert await kept.points() == expected
        assert await kept.points(10) == [
            (0.0, 61.0), (180.0, 64.5), (480.0, None), (540.0, None), (600.0, 70.0),
        ], "what was, holds"  # fmt: skip
        kept.tell(True, key="motor_3.running")
        assert await kept.points(key="motor_3.running") == [(1800.0, 1.0)]


async def test_what_is_not_kept_is_refused_with_the_reason(tmp_path: Path) -> None:
    async with keeping(tmp_path) as kept:
        kept.tell("A7", key="motor_3.label")
        for key, why in (
            ("motor_3.speed", "motor_3.speed is not a tag of this plant"),
            ("motor_3.seldom", "no values of motor_3.seldom are kept, because it is read only when somebody asks"),
            ("motor_3.label", "no values of motor_3.label are kept, because it is no number"),
        ):
            assert not kept.history.keeps(key)
            with pytest.raises(Refused, match=why):
                await kept.history.track(key, 5)
        with pytest.raises(Malformed, match="the look back is 1 to 20160 minutes, not 0"):
            await kept.history.track(KEY, 0)


async def test_a_look_back_sees_a_value_that_has_not_changed_for_long(tmp_path: Path) -> None:
    async with keeping(tmp_path) as kept:
        kept.tell(61.0)
        await kept.history.write()
        for minute in range(90):
            kept.clock.advance(60)
            kept.tell(minute % 2 == 0, key="motor_3.running")
            await kept.history.write()
        points = await kept.points(5)
        assert points[0] == (0.0, 61.0) and {value for _, value in points} == {61.0}


@pytest.mark.field("FC-B01")
async def test_a_clock_that_is_set_later_puts_right_what_was_kept_before(tmp_path: Path) -> None:
    async with keeping(tmp_path) as kept:
        right = kept.clock.now
        kept.clock.now -= timedelta(days=3000)  # no battery
        kept.clock.is_synced = False
        kept.tell(61.0)
        await kept.history.write()
        kept.clock.advance(600)
        kept.clock.now, kept.clock.is_synced = right + timedelta(seconds=600), True
        kept.tell(64.0)
        await kept.history.write()
        assert await kept.points() == [(1200.0, 61.0), (1800.0, 64.0)]
        track = await kept.history.track(KEY, 30)
        assert track.from_utc == right - timedelta(seconds=1200)


async def test_the_time_between_two_runs_is_a_gap(tmp_path: Path) -> None:
    clock = ManualClock()
    async with keeping(tmp_path, clock) as kept:
        kept.tell(61.0)
        clock.advance(300)
        kept.tell(62.0)
    clock.advance(240)
    clock.boot_id, clock.mono_ns = "boot-2", 5_000_000_000
    async with keeping(tmp_path, clock) as kept:
        clock.advance(60)
        assert await kept.points() == [(1200.0, 61.0), (1500.0, 62.0), (1500.0, None)]
        kept.tell(70.0)
        await kept.history.write()
        assert (await kept.points())[-2:] == [(1500.0, None), (1800.0, 70.0)]


async def test_of_two_values_within_a_second_the_later_is_kept(tmp_path: Path) -> None:
    async with keeping(tmp_path) as kept:
        for value in range(30):
            kept.tell(value)
            kept.clock.advance(0.1)
        assert [value for _, value in await kept.points()] == [9.0, 19.0, 29.0]


async def test_more_than_can_be_kept_is_dropped_and_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history_module, "MOST_WAITING", 5)
    async with keeping(tmp_path) as kept:
        for value in range(8):
            kept.tell(value)
            kept.clock.advance(2)
        await kept.history.write()
        assert kept.degraded.reasons == {"history": "3 values of tags came faster than they could be kept"}
        kept.tell(9)
        await kept.history.write()
        assert kept.degraded.reasons == {}
        assert [value for _, value in await kept.points()] == [0.0, 1.0, 2.0, 3.0, 4.0, 9.0]


async def test_damage_costs_the_values_and_nothing_else(tmp_path: Path) -> None:
    async with keeping(tmp_path) as kept:
        kept.tell(61.0)
        await kept.history.write()
    kept.path.write_bytes(b"no database at all" * 1000)
    async with keeping(tmp_path, kept.clock) as again:
        assert await again.points() == []
        again.tell(70.0)
        await again.history.write()
        assert [value for _, value in await again.points()] == [70.0]
        assert again.degraded.reasons == {}
    assert kept.path.with_name("history.sqlite.damaged").read_bytes().startswith(b"no database")


@pytest.mark.parametrize("wrong", ["points = x'00'", "points = 7", "from_ms = NULL", "points = 'text'", "until_ms = 'x'"])
async def test_a_row_that_a_damaged_page_changed_is_damage_and_no_fault(tmp_path: Path, wrong: str) -> None:
    async with keeping(tmp_path) as kept:
        kept.tell(61.0)
        await kept.history.write()
    with contextlib.closing(sqlite3.connect(kept.path, isolation_level=None)) as file:
        columns = "seq INTEGER PRIMARY KEY, run, tag, from_ms, until_ms, points"
        file.execute(f"CREATE TABLE damaged ({columns})")
        file.execute("INSERT INTO damaged SELECT seq, run, tag, from_ms, until_ms, points FROM segment")
        file.execute("DROP TABLE segment")
        file.execute("ALTER TABLE damaged RENAME TO segment")
        file.execute(f"UPDATE segment SET {wrong}")
    async with keeping(tmp_path, kept.clock) as again:
        assert await again.points() == []
        again.tell(70.0)
        await again.history.write()
        assert [value for _, value in await again.points()] == [70.0]
    assert kept.path.with_name("history.sqlite.damaged").exists()


async def test_a_file_of_a_later_version_is_set_aside_too(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / HISTORY_FILE) as file:
        file.execute("PRAGMA user_version = 7")
    file.close()
    async with keeping(tmp_path) as kept:
        kept.tell(61.0)
        await kept.history.write()
        assert await kept.points() == [(1800.0, 61.0)]


async def test_it_gives_way_to_the_ledger_when_the_disk_fills(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with keeping(tmp_path) as kept:
        monkeypatch.setattr(history_file, "LEAST_FREE_BYTES", 1 << 60)
        kept.tell(61.0)
        await kept.history.write()
        assert kept.degraded.reasons["history"].startswith("values of tags are not kept: less than")
        monkeypatch.undo()
        kept.tell(62.0)
        await kept.history.write()
        assert kept.degraded.reasons == {}
        assert [value for _, value in await kept.points()] == [62.0]


async def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    kept = Keeping(tmp_path / "missing", ManualClock())
    kept.tell(61.0)
    await kept.history.write()
    assert kept.degraded.reasons["history"].startswith("values of tags are not kept:")
    await kept.history.close()


def moment(ms: int, is_synced: bool = True) -> Moment:
    return Moment("boot-1", ms, 1_700_000_000_000, is_synced)


def test_the_ring_stays_within_its_size_and_drops_the_oldest(tmp_path: Path) -> None:
    most_bytes = 1 << 20
    file = HistoryFile(tmp_path / HISTORY_FILE, most_bytes, most_s=1e9)
    for minute in range(400):
        at_ms = minute * 60_000
        file.write({f"a.t{n}": [(at_ms + i * 1000, float(i)) for i in range(60)] for n in range(10)}, moment(at_ms + 60_000))
    assert (tmp_path / HISTORY_FILE).stat().st_size <= most_bytes
    kept = file.read("a.t3", 0, moment(400 * 60_000))
    assert kept[-1] == (399 * 60_000 + 59_000 + 1_700_000_000_000, 59.0)
    assert 20_000 > len(kept) > 5_000 and kept[0][0] > 1_700_000_000_000, "the oldest are gone, most of the ring is used"
    file.close()


def test_values_that_are_too_old_are_dropped_unless_the_clock_is_in_doubt(tmp_path: Path) -> None:
    file = HistoryFile(tmp_path / HISTORY_FILE, 8 << 20, most_s=3600)
    file.write({"a.t": [(0, 1.0)]}, moment(0))
    file.write({"a.t": [(7_200_000, 2.0)]}, moment(7_200_000, is_synced=False))
    assert len(file.read("a.t", 0, moment(7_200_000))) == 2
    file.write({"a.t": [(7_201_000, 3.0)]}, moment(7_201_000))
    assert [value for _, value in file.read("a.t", 0, moment(7_201_000))] == [2.0, 3.0]
    file.close()


def test_a_full_file_is_no_damage(tmp_path: Path) -> None:
    file = HistoryFile(tmp_path / HISTORY_FILE, 64 << 10, most_s=1e9)
    with pytest.raises(StorageFullError):
        file.write({f"a.t{n}": [(i * 1000, float(i)) for i in range(1000)] for n in range(20)}, moment(1_000_000))
    file.write({"a.t": [(0, 1.0)]}, moment(0))
    assert file.read("a.t", 0, moment(1)) == [(1_700_000_000_000, 1.0)]
    file.close()


async def test_the_service_writes_without_being_asked_when_much_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history_module, "_MANY_WAITING", 3)
    async with keeping(tmp_path) as kept:
        running = asyncio.create_task(kept.history.run())
        for value in range(3):
            kept.tell(value)
            kept.clock.advance(2)

        def is_written() -> bool:
            file = sqlite3.connect(f"file:{kept.path}?mode=ro", uri=True)
            try:
                return file.execute("SELECT count(*) FROM segment").fetchone() == (1,)
            except sqlite3.OperationalError:  # it is being made
                return False
            finally:
                file.close()

        await until(lambda: kept.path.exists() and is_written(), "three values are on disk")
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
