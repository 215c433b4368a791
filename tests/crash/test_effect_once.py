"""SIGKILL before and after every commit and the effect itself: at most one effect, every unknown settled, nothing lost.

The effect is a line appended to a real file by a real process, which is killed at each point in turn; another process then
goes on with the same ledger, and is itself killed at each of its points.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, TypeVar

import pytest

from appliance.contracts.delivery import Delivery
from appliance.contracts.operation import OperationLane
from appliance.contracts.plan import Step
from appliance.contracts.speech import SpeechReceipt
from appliance.contracts.store import Transaction
from appliance.contracts.turn import Turn
from appliance.delivery.dispatcher import Dispatcher
from appliance.execution.runner import Runner
from appliance.execution.toolbox.toolbox import Toolbox
from appliance.execution.tools.create_work_order import CreateWorkOrder
from appliance.execution.tools.say import Say
from appliance.foundation.id_source import SystemIds
from appliance.foundation.system_clock import SystemClock
from appliance.store import deliveries, effects, leases, operations, owners, turns
from appliance.store.database import Database
from tests.support.effect_file import Look, MarkFile, lines
from tests.support.plans import open_turn, phrasing
from tests.support.runner_ports import runner_ports

T = TypeVar("T")
RunChild = Callable[..., int]

_CHILD_S = 30.0  # a loaded machine; a child needs a tenth of a second
_NEVER = 10_000

STEPS = (
    Step("look", "look", {}),
    Step("write", "mark", {"line": "one", "what": "the mark"}),
    Step("order", "create_work_order", {"asset": "motor_3", "title": "Check"}),
    Step("done", "say", {"text": "Written {steps.write.line}, order {steps.order.id}."}),
)


class KillSwitch:
    """Kills this process at the ``deadly``-th point it is told of. Points are written to ``trace`` as they come."""

    def __init__(self, deadly: int, trace: Path) -> None:
        self._left = deadly
        self._trace = trace

    def at(self, point: str) -> None:
        with self._trace.open("a", encoding="utf-8") as trace:
            trace.write(point + "\n")
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        self._left -= 1


class DyingLedger:
    """A real ledger that tells the switch before and after each commit."""

    def __init__(self, database: Database, switch: KillSwitch) -> None:
        self._database = database
        self._switch = switch

    async def transaction(self, work: Callable[[Transaction], T]) -> T:
        self._switch.at("before commit")
        value = await self._database.transaction(work)
        self._switch.at("after commit")
        return value


async def run_in_child(folder: Path, deadly: int) -> None:
    """Take the ledger over, open the turn if there is none, and run it until the end or death."""
    clock = SystemClock()
    ids = SystemIds(clock)
    switch = KillSwitch(deadly, folder / "trace.txt")
    database = await Database.open(folder / "ledger.db", clock)
    await database.transaction(lambda tx: operations.set_origin(tx, clock, "line-3"))
    owned = await database.transaction(lambda tx: owners.take_ownership(tx, clock, instance="child"))
    await database.transaction(lambda tx: effects.orphan(tx, clock, owned.epoch))
    turn = await _turn(database, clock, ids)
    await database.transaction(lambda tx: leases.take(tx, clock, turn.id, turn.lane, owned.epoch))
    box = Toolbox([Say(clock, ids), CreateWorkOrder(clock), Look(), MarkFile(folder / "effects.txt", switch.at)])
    ledger: Any = DyingLedger(database, switch)
    ports = runner_ports(folder, clock)
    outcome = await Runner(ledger, box, clock, ids, owned.epoch, phrasing(), **ports, settle_waits=lambda: [0.0]).run(turn)
    (folder / "outcome.txt").write_text(outcome.kind)
    await database.close()


async def _turn(database: Database, clock: SystemClock, ids: SystemIds) -> Turn:
    rows = await database.fetch(turns.BY_ID, ("tr_1",))
    return turns.to_turn(rows[0]) if rows else await open_turn(database, clock, ids, STEPS)


class FileMouth:
    """Speaks into a file."""

    def __init__(self, path: Path, switch: KillSwitch) -> None:
        self._path = path
        self._switch = switch

    async def say(self, delivery: Delivery) -> SpeechReceipt:
        self._switch.at("before speech")
        with self._path.open("a", encoding="utf-8") as spoken:
            spoken.write(f"{delivery.lead} {delivery.text}".strip() + "\n")
        self._switch.at("after speech")
        return SpeechReceipt(delivery.id, 1, 2)


async def speak_in_child(folder: Path, deadly: int) -> None:
    """Queue one sentence if there is none, and speak until nothing is left to say, or death."""
    clock = SystemClock()
    switch = KillSwitch(deadly, folder / "trace.txt")
    database = await Database.open(folder / "ledger.db", clock)

    def queue_once(tx: Transaction) -> None:
        operations.set_origin(tx, clock, "line-3")
        if not tx.execute("SELECT 1 FROM delivery").fetchone():
            deliveries.queue(tx, clock, SystemIds(clock), turn_id=None, language="en", text="Motor 3 is hot.", priority=9)

    await database.transaction(queue_once)
    ledger: Any = DyingLedger(database, switch)
    mouth = FileMouth(folder / "spoken.txt", switch)
    speaking = asyncio.create_task(Dispatcher(ledger, clock, SystemIds(clock), mouth, phrasing()).run())
    async with asyncio.timeout(_CHILD_S):
        while await database.transaction(deliveries.open_count):  # noqa: ASYNC110 - rows set no event
            await asyncio.sleep(0.002)
    speaking.cancel()
    await asyncio.wait({speaking})
    await database.close()


def serve() -> None:
    """Fork a child for each line ``what deadly folder`` on stdin, and tell how it ended. Everything is imported once, here."""
    for line in sys.stdin:
        what, deadly, folder = line.rstrip("\n").split(" ", 2)
        work = {"run": run_in_child, "speak": speak_in_child}[what]
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                asyncio.run(work(Path(folder), int(deadly)))
                code = 0
            finally:
                sys.stderr.flush()
                os._exit(code)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])}\n")
        sys.stdout.flush()


@pytest.fixture(scope="module")
def run_child() -> Iterator[RunChild]:
    """Run one process to its end or death and return its exit code."""
    command = [sys.executable, "-m", "tests.crash.test_effect_once"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1) as server:
        assert server.stdin is not None and server.stdout is not None

        def run(folder: Path, deadly: int, what: str = "run") -> int:
            server.stdin.write(f"{what} {deadly} {folder}\n")
            code = int(server.stdout.readline())
            assert code in (0, -signal.SIGKILL), f"the child ended with {code}"
            return code

        yield run
        server.stdin.close()
        assert server.wait(_CHILD_S) == 0


def points(folder: Path) -> list[str]:
    return lines(folder / "trace.txt")


def folders(base: Path, count: int) -> Iterator[tuple[int, Path]]:
    for number in range(count):
        folder = base / f"{number:03d}"
        folder.mkdir()
        yield number, folder


def check(folder: Path) -> None:
    """What must hold after the last process ran to its end."""
    with closing(sqlite3.connect(folder / "ledger.db")) as ledger:
        ledger.row_factory = sqlite3.Row
        written = lines(folder / "effects.txt")
        found = [dict(row) for row in ledger.execute("SELECT * FROM effect")]
        states = {row["step_id"]: row["state"] for row in ledger.execute("SELECT step_id, state FROM action")}
        said = [row["text"] for row in ledger.execute("SELECT text FROM delivery ORDER BY seq")]
        orders = [row["id"] for row in ledger.execute("SELECT id FROM work_order")]
        for lane in (OperationLane.P1, OperationLane.P2):
            operations.verify_chain(ledger, lane)
        created = ledger.execute("SELECT count(*) FROM operation WHERE kind = 'work_order.created'").fetchone()[0]
    assert len(written) <= 1, "the effect happened twice"
    (effect,) = found
    assert effect["status"] == ("applied" if written else "none"), "the ledger tells what the world shows"
    if effect["was_unknown"]:
        assert effect["settled_by"] == "verify"
        assert sum("I do not know yet" in text for text in said) == 1, "an unknown is said once"
        assert sum("I checked" in text for text in said) == 1, "and so is how it was settled"
    finished = (folder / "outcome.txt").read_text() == "finished"
    assert finished == bool(written)
    if finished:
        assert states == dict.fromkeys(states, "done")
        assert len(orders) == 1 == created
        assert said[-1] == f"Written one, order {orders[0]}."
        assert sum(text.startswith("Written") for text in said) == 1, "every sentence is queued once"
    else:
        assert states == {"look": "done", "write": "failed", "order": "pending", "done": "pending"}


@pytest.mark.req("R2", "R6", "T6", "T7")
@pytest.mark.field("FC-R03")
def test_killed_at_every_point_and_started_again(tmp_path: Path, run_child: RunChild) -> None:
    whole = tmp_path / "whole"
    whole.mkdir()
    assert run_child(whole, _NEVER) == 0
    check(whole)
    assert {"before commit", "after commit", "before effect", "after effect"} <= set(points(whole))
    died_unknown = 0
    for deadly, folder in folders(tmp_path, len(points(whole))):
        assert run_child(folder, deadly) == -signal.SIGKILL
        assert run_child(folder, _NEVER) == 0
        check(folder)
        with closing(sqlite3.connect(folder / "ledger.db")) as ledger:
            died_unknown += ledger.execute("SELECT was_unknown FROM effect").fetchone()[0]
    assert died_unknown >= 4  # after the intent, before and after the effect, and before the outcome was written


@pytest.mark.req("R2", "R6", "T7")
def test_killed_again_while_settling(tmp_path: Path, run_child: RunChild) -> None:
    whole = tmp_path / "whole"
    whole.mkdir()
    assert run_child(whole, _NEVER) == 0
    for fatal in ("before effect", "after effect"):
        first = points(whole).index(fatal)
        base = tmp_path / fatal.replace(" ", "-")
        base.mkdir()
        resumed = base / "resumed"
        resumed.mkdir()
        assert run_child(resumed, first) == -signal.SIGKILL
        assert run_child(resumed, _NEVER) == 0
        check(resumed)
        again = points(resumed)[first + 1 :]
        settled_on_disk = again.index("after verify") + 2  # what comes after is killed at every point by the test above
        assert again[settled_on_disk] == "after commit"
        for second, folder in folders(base, settled_on_disk + 1):
            assert run_child(folder, first) == -signal.SIGKILL
            assert run_child(folder, second) == -signal.SIGKILL
            assert run_child(folder, _NEVER) == 0
            check(folder)


@pytest.mark.req("R5")
def test_killed_while_speaking(tmp_path: Path, run_child: RunChild) -> None:
    whole = tmp_path / "whole"
    whole.mkdir()
    assert run_child(whole, _NEVER, "speak") == 0
    assert lines(whole / "spoken.txt") == ["Motor 3 is hot."]
    receipt_on_disk = points(whole).index("after speech") + 2  # what comes after depends on when the child is ended
    assert points(whole)[receipt_on_disk] == "after commit"
    for deadly, folder in folders(tmp_path, receipt_on_disk + 1):
        assert run_child(folder, deadly, "speak") == -signal.SIGKILL
        assert run_child(folder, _NEVER, "speak") == 0
        with closing(sqlite3.connect(folder / "ledger.db")) as ledger:
            ledger.row_factory = sqlite3.Row
            (row,) = (dict(row) for row in ledger.execute("SELECT * FROM delivery"))
        assert row["status"] == "delivered"
        first, *repeated = lines(folder / "spoken.txt")
        assert first.endswith("Motor 3 is hot.")
        assert repeated in ([], ["Again: Motor 3 is hot."]), "a repetition is said to be one"
        assert (row["attempts"], row["may_be_repeat"]) in ((1, 0), (2, 1))
        assert row["attempts"] == 2 or not repeated


if __name__ == "__main__":
    serve()
