"""What calls of models took, from the ledger to the command line: by session, by day, what is unknown shown as that (A4)."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from appliance.cli import exit_codes
from appliance.console.api import LocalApi
from appliance.contracts.model import Message, ModelCall, ModelRequest, Usage
from appliance.store import model_calls
from drivers.models.chain import ModelChain
from drivers.models.settings import ModelPrice, ModelSettings
from tests.support.command_line import Run, command_line
from tests.support.core import StandInCore
from tests.support.ledger import Bench, open_bench
from tests.support.model_peer import model_peer, says, status

pytestmark = pytest.mark.req("A4")

MONDAY = datetime(2026, 3, 2, 23, 59, 59, tzinfo=UTC)


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    async with open_bench(tmp_path) as opened:
        yield opened


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    return command_line(monkeypatch, tmp_path, capsys)


@pytest.fixture
async def service(bench: Bench, tmp_path: Path, run: Run) -> AsyncIterator[Bench]:
    api = LocalApi(StandInCore(), bench.database, dict, path=tmp_path / "run/api.sock", language="en")
    running = asyncio.create_task(api.run())
    async with asyncio.timeout(10):
        await api.serving.wait()
    yield bench
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running


def call(session: str, at: datetime, cost: float | None = None, **changes: Any) -> ModelCall:
    usage = Usage(100, 10, 40, False, 1500.0, cost, "" if cost is None else changes.pop("currency", "EUR"))
    told = {"provider": "cloud", "model": "m-1", "purpose": "plan", "outcome": "ok", "turn_id": "t-1", "usage": usage}
    return ModelCall(**(told | {"session_id": session, "began_utc": at} | changes))


async def given(bench: Bench, *calls: ModelCall) -> None:
    for each in calls:
        await bench.database.transaction(lambda tx, each=each: model_calls.insert(tx, bench.ids, each))  # type: ignore[misc]


async def story(bench: Bench) -> None:
    failed = Usage(80, 3, 0, True, 500.0)
    await given(
        bench,
        call("s-1", MONDAY, 0.5),
        call("s-1", MONDAY + timedelta(seconds=2), 0.25, currency="USD"),
        call("s-2", MONDAY + timedelta(seconds=3), outcome="cut", usage=failed),
        call("s-1", MONDAY + timedelta(days=1), 0.125),
    )


async def test_sums_by_session_and_by_day(bench: Bench) -> None:
    await story(bench)
    first, second = await model_calls.by_session(bench.database)
    assert (first.name, first.calls, first.not_ok, first.tokens_in, first.tokens_out, first.tokens_cached) == (
        "s-1",
        3,
        0,
        300,
        30,
        120,
    )
    assert (first.costs, first.unpriced, first.duration_ms) == ({"EUR": 0.625, "USD": 0.25}, 0, 4500.0)
    assert (second.name, second.calls, second.not_ok, second.estimated) == ("s-2", 1, 1, 1)
    assert (second.costs, second.unpriced) == ({}, 1)
    days = await model_calls.by_day(bench.database)
    assert [(each.name, each.calls, each.costs, each.unpriced) for each in days] == [
        ("2026-03-03", 3, {"EUR": 0.125, "USD": 0.25}, 1),
        ("2026-03-02", 1, {"EUR": 0.5}, 0),
    ]
    since = MONDAY + timedelta(hours=1)
    assert [each.calls for each in await model_calls.by_day(bench.database, since=since)] == [1]
    assert len(await model_calls.by_session(bench.database, limit=1)) == 1
    assert [each["outcome"] for each in await model_calls.newest(bench.database, limit=2)] == ["ok", "cut"]


async def test_the_oldest_make_room(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_calls, "MOST_CALLS", 3)
    await given(bench, *(call(f"s-{n}", MONDAY) for n in range(10)))
    assert [each["session_id"] for each in await model_calls.newest(bench.database)] == ["s-9", "s-8", "s-7"]


async def test_the_command_shows_what_is_known_and_what_is_not(service: Bench, run: Run) -> None:
    assert await run("usage") == (exit_codes.OK, "no language model was called\n", "")
    await story(service)
    code, out, err = await run("usage")
    assert (code, err) == (0, "")
    days = [line.split() for line in out.splitlines()]
    assert days[1][:2] == ["2026-03-03", "3"]
    assert out.splitlines()[1].rstrip().endswith("0.1250 EUR + 0.2500 USD, unknown for 1 of 3")
    assert out.splitlines()[2].rstrip().endswith("0.5000 EUR")
    sessions = (await run("usage", "--by", "session"))[1].splitlines()
    assert sessions[0].startswith("session") and sessions[2].rstrip().endswith("unknown")
    calls = await run("usage", "--by", "call", "--limit", "2")
    assert "cut" in calls[1] and "only the newest 2" in calls[2]
    code, out, err = await run("usage", "--since", "2026-03-03", "--json")
    (day,) = json.loads(out)
    assert (code, day["name"], day["calls"], day["unpriced"]) == (0, "2026-03-03", 3, 1)
    assert json.loads((await run("usage", "--since", "2026-03-03T12:00:00", "--json"))[1])[0]["calls"] == 1


async def test_the_command_says_what_is_wrong_with_a_question(service: Bench, run: Run) -> None:
    code, _, err = await run("usage", "--since", "yesterday")
    assert code == exit_codes.USAGE and "yesterday" in err
    assert (await run("usage", "--by", "month"))[0] == exit_codes.USAGE


async def test_without_a_service_it_says_so(run: Run) -> None:
    assert (await run("usage"))[0] == exit_codes.NOT_REACHABLE


async def test_from_a_call_over_http_to_the_ledger(bench: Bench) -> None:
    price = ModelPrice(tokens_in_per_million=10, tokens_out_per_million=100, currency="CNY")

    async def note(done: ModelCall) -> None:
        await bench.database.transaction(lambda tx: model_calls.insert(tx, bench.ids, done))

    with model_peer([status(401), says("yes")]) as peer:
        settings = ModelSettings(name="peer", url=peer.url, keys=("a", "b"), price=price)  # type: ignore[arg-type]
        chain = ModelChain([settings], bench.clock, within_s=30, note=note)
        await chain.complete(ModelRequest((Message("user", "hello"),), 16, session_id="s-1", turn_id="t-1"))
        await chain.close()
    (day,) = await model_calls.by_day(bench.database)
    assert (day.calls, day.not_ok, day.tokens_in, day.tokens_out, day.tokens_cached) == (2, 1, 100, 7, 40)
    assert day.costs == {"CNY": pytest.approx((100 * 10 + 7 * 100) / 1e6)}
