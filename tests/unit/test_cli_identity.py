"""``floorhand identity`` and ``floorhand ledger``: from the command line through the local API to the ledger, and back."""

from __future__ import annotations

import asyncio
import contextlib
import getpass
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from appliance.cli import exit_codes
from appliance.console.acts import Acts
from appliance.console.api import LocalApi
from appliance.foundation.supervisor import Degraded
from appliance.foundation.system_clock import SystemClock
from appliance.ledger_standing import LedgerStanding
from appliance.store import damage, identities, salvage
from tests.support.command_line import Run, command_line
from tests.support.core import StandInCore
from tests.support.ledger import ORIGIN, Bench, open_bench
from tests.support.old_ledger import root_of, spoil, write_history

pytestmark = pytest.mark.req("O2")


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    return command_line(monkeypatch, tmp_path, capsys)


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    """A salvaged ledger on another machine than it was written on, served."""
    path = await write_history(tmp_path, 10)
    spoil(path, [root_of(path, "turn")], 1)
    damage.suspect(path, "a test said so")
    salvage.mend(path, SystemClock(), ORIGIN)
    async with open_bench(tmp_path) as opened:
        for machine in ("board=1111", "board=2222"):
            await opened.database.transaction(lambda tx, machine=machine: identities.compare(tx, opened.clock, machine, 0))
        standing = LedgerStanding(opened.database, opened.clock, Degraded(), "board=2222")
        await standing.load()
        api = LocalApi(
            StandInCore(), opened.database, dict, path=tmp_path / "run/api.sock", language="en", acts=Acts(ledger=standing)
        )  # fmt: skip
        running = asyncio.create_task(api.run())
        await api.serving.wait()
        yield opened
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running


@pytest.mark.field("FC-D04")
async def test_a_copy_is_shown_and_adopted_with_name_and_note(bench: Bench, run: Run) -> None:
    code, out, _ = await run("ledger", "show")
    assert code == exit_codes.OK and "machine_changed" in out and "board=1111" in out
    code, _, err = await run("identity", "adopt")
    assert code == exit_codes.USAGE and "--note" in err
    code, out, _ = await run("identity", "adopt", "--note", "the board was replaced")
    assert code == exit_codes.OK and out.startswith("adopted: written on the machine board=1111")
    row = await bench.one("SELECT adopted_by, note FROM identity_fault")
    assert row == {"adopted_by": getpass.getuser(), "note": "the board was replaced"}
    code, _, err = await run("identity", "adopt", "--note", "again")
    assert code == exit_codes.PROBLEM and "nothing speaks against" in err


async def test_a_loss_is_shown_and_settled_with_name_and_note(bench: Bench, run: Run) -> None:
    code, out, _ = await run("ledger", "show", "--json")
    (told,) = json.loads(out)["salvages"]
    assert code == exit_codes.OK and told["set_aside"] == "ledger.db.damaged-1" and told["why"] == "a test said so"
    assert told["lost"] == ["turn (10 before, 0 now)"]
    row = {"tables": {"turn": {"before": 40, "after": 31}}, "lost_commits": 8, "unplaced_pages": 0}
    await bench.database.transaction(lambda tx: tx.execute("UPDATE salvage SET account = ?", (json.dumps(row),)) and None)
    code, out, _ = await run("ledger", "show")
    assert "40 before, 31 now" in out and "8 commits" in " ".join(out.split())
    code, out, _ = await run("ledger", "settle", "1", "--note", "nothing was under way")
    assert code == exit_codes.OK and "ledger.db.damaged-1" in out
    code, _, err = await run("ledger", "settle", "1", "--note", "again")
    assert code == exit_codes.PROBLEM and "was settled by" in err
    code, _, err = await run("ledger", "settle", "7", "--note", "what")
    assert code == exit_codes.PROBLEM and "does not exist" in err
