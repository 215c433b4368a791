"""The time for tokens where the clock may be wrong: it goes on over restarts and reboots, and no ended token comes back."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from appliance.contracts.errors import StorageFullError, Unidentified
from appliance.contracts.store import Transaction
from appliance.store import audit
from appliance.store.database import Database
from tests.support.ledger import Bench, given_admission, open_bench
from tests.support.tokens import Desk, desk_of

pytestmark = pytest.mark.req("T3")

LONG_AGO = datetime(1970, 1, 1, 0, 0, 9, tzinfo=UTC)
LONG_AHEAD = datetime(2200, 1, 1, tzinfo=UTC)
MADE = int(datetime(2026, 3, 2, 9, tzinfo=UTC).timestamp())


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    async with open_bench(tmp_path) as bench:
        yield bench


@pytest.fixture
def desk(bench: Bench, tmp_path: Path) -> Desk:
    return desk_of(bench, tmp_path)


def for_an_hour(desk: Desk) -> str:
    """A token made when this machine's clock stands in another century."""
    return desk.sign(iat=MADE, nbf=MADE, exp=MADE + 3600)


async def refused_for(desk: Desk, token: str) -> str:
    with pytest.raises(Unidentified) as caught:
        await desk.tokens.verify(token)
    return str(caught.value.facts["reason"])


def be_at(bench: Bench, when: datetime, *, is_synced: bool) -> None:
    bench.clock.now, bench.clock.is_synced = when, is_synced


def reboot(bench: Bench) -> None:
    """Be the machine after a power cut: its clock begins anew."""
    bench.clock.boot_id, bench.clock.mono_ns = "boot-2", 10**9
    be_at(bench, LONG_AGO, is_synced=False)


async def test_neither_a_restart_nor_a_reboot_brings_an_ended_token_back_on_a_machine_without_a_clock(
    desk: Desk, bench: Bench, tmp_path: Path
) -> None:
    be_at(bench, LONG_AGO, is_synced=False)
    token = for_an_hour(desk)
    await desk.tokens.verify(token)
    bench.clock.advance(3600)
    await bench.database.transaction(
        lambda tx: audit.note(tx, bench.clock, "noted", "test", {})
    )  # as everything that is written meanwhile, it carries the wrong time
    again = desk_of(bench, tmp_path)
    assert await refused_for(again, token) == "expired", "within a boot the monotonic clock goes on"
    reboot(bench)
    assert await refused_for(desk_of(bench, tmp_path), token) == "expired", "and it was seen as ended"


async def test_time_that_passed_without_a_token_counts_after_a_reboot_as_far_as_anything_came_in(
    desk: Desk, bench: Bench, tmp_path: Path
) -> None:
    be_at(bench, LONG_AGO, is_synced=False)
    token = for_an_hour(desk)
    await desk.tokens.verify(token)
    bench.clock.advance(3600)
    await given_admission(bench, "an alarm")
    reboot(bench)
    assert await refused_for(desk_of(bench, tmp_path), token) == "expired"


async def test_time_is_written_once_a_minute_at_most_and_a_right_clock_corrects_it(desk: Desk, bench: Bench) -> None:
    token, kept = await desk.make(), "SELECT at_least_utc FROM token_time"
    first = await bench.one(kept)
    for _ in range(3):
        bench.clock.advance(20)
        await desk.tokens.verify(token)
        assert await bench.one(kept) == first
    bench.clock.advance(1)
    await desk.tokens.verify(token)
    assert (await bench.one(kept))["at_least_utc"].startswith("2026-03-02T08:01:01")
    be_at(bench, LONG_AHEAD, is_synced=False)
    await refused_for(desk, token)
    assert (await bench.one(kept))["at_least_utc"].startswith(f"{LONG_AHEAD.year}-")
    be_at(bench, datetime(2026, 3, 2, 8, 5, tzinfo=UTC), is_synced=True)
    await desk.tokens.verify(token)
    assert (await bench.one(kept))["at_least_utc"].startswith("2026-03-02T08:05")


@pytest.mark.parametrize(
    "damaged", ["", "2026-03-02Tgone", "2026-03-02T08:00:00.000000", "\0" * 32], ids=["empty", "cut", "no_zone", "zeroed"]
)
async def test_a_damaged_time_is_written_anew_and_no_fault(desk: Desk, bench: Bench, damaged: str) -> None:
    token = await desk.make()

    def damage(tx: Transaction) -> None:
        tx.execute("DROP TRIGGER operation_append_only_u")
        tx.execute("UPDATE operation SET at_utc = ?", ("x" + damaged,))
        tx.execute("UPDATE token_time SET at_least_utc = ?", (damaged,))

    await bench.database.transaction(damage)
    assert (await desk.tokens.verify(token)).principal.by == "ana"
    kept = await bench.one("SELECT at_least_utc FROM token_time")
    assert kept["at_least_utc"].startswith("2026-03-02T08:00:00")


class FullLedger:
    """A real ledger on which there is no room for a row."""

    def __init__(self, database: Database) -> None:
        self.fetch = database.fetch

    async def transaction(self, work: object) -> None:
        raise StorageFullError("no room left for ledger.db")


async def test_a_full_card_keeps_nobody_from_being_known_and_no_ended_token_alive(desk: Desk, bench: Bench) -> None:
    be_at(bench, LONG_AGO, is_synced=False)
    token = for_an_hour(desk)
    desk.tokens._time._ledger = FullLedger(bench.database)  # type: ignore[assignment]
    await desk.tokens.verify(token)
    bench.clock.mono_ns += 3599 * 10**9
    await desk.tokens.verify(token)
    bench.clock.mono_ns += 10**9
    assert await refused_for(desk, token) == "expired"
    assert await bench.rows("SELECT * FROM token_time") == []
