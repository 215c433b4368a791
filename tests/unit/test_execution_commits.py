"""What shares a commit and what must not: few commits, and nothing is called before all that came before it is on disk."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from appliance.contracts.errors import Refused, StorageFullError, Unavailable
from appliance.contracts.operation import OperationLane
from appliance.contracts.plan import Step
from appliance.contracts.store import Transaction
from appliance.contracts.tool import ToolCall
from appliance.contracts.turn import Turn
from appliance.execution.runner import Runner, RunOutcome
from appliance.execution.toolbox.toolbox import Toolbox
from appliance.execution.tools.create_work_order import CreateWorkOrder
from appliance.execution.tools.say import Say
from appliance.store import effects
from tests.support.effect_file import Look, MarkFile, lines
from tests.support.ledger import Bench, open_bench
from tests.support.plans import open_turn, phrasing
from tests.support.runner_ports import runner_ports

FINISHED = RunOutcome("finished")


class Yard:
    """A bench, a file to mark, a runner, and a count of what was committed."""

    def __init__(self, bench: Bench, path: Path) -> None:
        self.bench = bench
        self.path = path
        self.mark = MarkFile(path)
        self.commits = 0
        bench.database.on_commit(self._count)

    def _count(self) -> None:
        self.commits += 1

    def runner(self, ledger: Any = None) -> Runner:
        bench = self.bench
        box = Toolbox([Say(bench.clock, bench.ids), CreateWorkOrder(bench.clock), Look(), self.mark])
        return Runner(
            ledger or bench.database, box, bench.clock, bench.ids, bench.epoch, phrasing(), settle_waits=lambda: [0.0],
            **runner_ports(self.path.parent, bench.clock),
        )  # fmt: skip

    async def turn(self, *steps: Step) -> Turn:
        turn = await open_turn(self.bench.database, self.bench.clock, self.bench.ids, steps)
        self.commits = 0
        return turn

    def on_disk(self) -> tuple[dict[str, str], list[str], int]:
        """What a process that is started now would find: states of the steps, of the effects, and how many work orders."""
        with closing(sqlite3.connect(f"{self.bench.database.path.as_uri()}?mode=ro", uri=True)) as ledger:
            states = dict(ledger.execute("SELECT step_id, state FROM action ORDER BY position").fetchall())
            statuses = [row[0] for row in ledger.execute("SELECT status FROM effect ORDER BY seq")]
            return states, statuses, ledger.execute("SELECT count(*) FROM work_order").fetchone()[0]

    async def bound(self, *, free_pages: int) -> None:
        """Leave the file this many pages and no more."""

        def work(tx: Transaction) -> None:
            tx.execute("CREATE TABLE filler (content BLOB)")
            tx.execute("INSERT INTO filler VALUES (zeroblob(?))", (free_pages * 4_096,))
            tx.execute("DROP TABLE filler")
            tx.execute(f"PRAGMA max_page_count = {tx.execute('PRAGMA page_count').fetchone()[0]}").fetchall()

        await self.bench.database.transaction(work)

    async def make_room(self) -> None:
        await self.bench.database.transaction(lambda tx: tx.execute("PRAGMA max_page_count = 1000000").fetchall())

    async def said(self) -> list[str]:
        return [row["text"] for row in await self.bench.rows("SELECT text FROM delivery ORDER BY seq")]


@pytest.fixture
async def yard(tmp_path: Path) -> AsyncIterator[Yard]:
    async with open_bench(tmp_path) as bench:
        yield Yard(bench, tmp_path / "effects.txt")


def marks(count: int) -> list[Step]:
    return [Step(f"m{n}", "mark", {"line": str(n)}) for n in range(count)]


@pytest.mark.parametrize(
    ("steps", "commits"),
    [
        (marks(5), 6),
        ([*marks(2), Step("a", "say", {"text": "One."}), Step("b", "say", {"text": "Two."})], 3),
        ([Step("look", "look", {}), *marks(1), Step("a", "say", {"text": "{steps.look.seen}"})], 3),
        ([Step("a", "say", {"text": "One."}), Step("b", "say", {"text": "Two."})], 1),
    ],
)
async def test_a_turn_of_n_calls_costs_n_commits_and_one(yard: Yard, steps: list[Step], commits: int) -> None:
    turn = await yard.turn(*steps)
    assert await yard.runner().run(turn) == FINISHED
    assert yard.commits == commits


@pytest.mark.req("T6")
@pytest.mark.field("FC-R12")
async def test_what_came_before_is_on_disk_before_anything_with_an_effect_begins(yard: Yard) -> None:
    found: list[tuple[dict[str, str], list[str], int]] = []

    async def look(call: ToolCall) -> None:
        found.append(yard.on_disk())

    yard.mark.before = look
    turn = await yard.turn(
        Step("look", "look", {}),
        Step("m0", "mark", {"line": "0"}),
        Step("order", "create_work_order", {"asset": "motor_3", "title": "Check"}),
        Step("m1", "mark", {"line": "1"}),
    )
    assert await yard.runner().run(turn) == FINISHED
    first, second = found
    assert first == ({"look": "done", "m0": "started", "order": "pending", "m1": "pending"}, ["intended"], 0)
    assert second == ({"look": "done", "m0": "done", "order": "done", "m1": "started"}, ["applied", "intended"], 1)
    assert yard.on_disk() == (dict.fromkeys(("look", "m0", "order", "m1"), "done"), ["applied", "applied"], 1)


@pytest.mark.req("T6")
async def test_an_intent_that_finds_no_room_fails_the_step_and_nothing_is_called(yard: Yard) -> None:
    huge = "x" * 19_000  # twice: in the effect's row and in the operation's
    turn = await yard.turn(Step("m0", "mark", {"line": "0"}), Step("m1", "mark", {"line": huge}), Step("b", "say", {"text": "B"}))

    async def fill(call: ToolCall) -> None:
        await yard.bound(free_pages=7)

    yard.mark.after = fill
    outcome = await yard.runner().run(turn)
    assert outcome.kind == "failed"
    assert outcome.failure.startswith("m1: storage_full: ")
    assert lines(yard.path) == ["0"], "what was not written down is not done"
    assert yard.on_disk() == ({"m0": "done", "m1": "failed", "b": "pending"}, ["applied"], 0)
    refused, done = await yard.said()
    assert refused == "My disk is full, so that was not done. Please free space." and done == "This was done already: the mark."
    await yard.make_room()
    assert (await yard.runner().run(turn)).kind == "failed", "nor is it done later, when nobody expects it any more"
    assert lines(yard.path) == ["0"]


@pytest.mark.req("T6")
async def test_with_no_room_at_all_the_turn_is_refused_and_nothing_is_called(yard: Yard) -> None:
    turn = await yard.turn(Step("m0", "mark", {"line": "x" * 8_000}))
    await yard.bound(free_pages=0)
    with pytest.raises(Refused, match="could not be recorded and was not done"):
        await yard.runner().run(turn)
    assert lines(yard.path) == []
    await yard.make_room()
    assert yard.on_disk() == ({"m0": "pending"}, [], 0)


@pytest.mark.req("T6")
async def test_without_room_for_what_follows_the_end_of_an_effect_is_recorded_alone(yard: Yard) -> None:
    huge = "x" * 3_900
    turn = await yard.turn(
        Step("m0", "mark", {"line": "0"}), Step("order", "create_work_order", {"asset": "a", "title": "t", "detail": huge})
    )

    class Filling:
        """Has room for small works only, once the effect has happened."""

        async def transaction(self, work: Any) -> Any:
            def bounded(tx: Transaction) -> Any:
                value = work(tx)
                if lines(yard.path) and tx.execute("SELECT 1 FROM work_order").fetchone():
                    raise StorageFullError("no room left")
                return value

            return await yard.bench.database.transaction(bounded)

    with pytest.raises(StorageFullError):
        await yard.runner(Filling()).run(turn)
    assert yard.on_disk() == ({"m0": "done", "order": "pending"}, ["applied"], 0)
    assert await yard.runner().run(turn) == FINISHED, "with room again it goes on from there"
    assert lines(yard.path) == ["0"]
    assert yard.on_disk() == ({"m0": "done", "order": "done"}, ["applied"], 1)


async def test_a_fault_in_what_follows_does_not_take_the_end_of_an_effect_with_it(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    def break_down(*_: object) -> None:
        raise KeyError("a mistake in the tool")

    monkeypatch.setattr(CreateWorkOrder, "apply", break_down)
    order = Step("order", "create_work_order", {"asset": "a", "title": "t"})
    with pytest.raises(KeyError):
        await yard.runner().run(await yard.turn(*marks(1), order))
    assert yard.on_disk() == ({"m0": "done", "order": "pending"}, ["applied"], 0)


@pytest.mark.req("T7")
async def test_cancelled_while_its_intent_is_written_it_is_known_not_to_have_happened(yard: Yard) -> None:
    turn = await yard.turn(*marks(1))
    running: list[asyncio.Task[RunOutcome]] = []

    class Cancelling:
        """Cancels the run while its first commit is on its way."""

        async def transaction(self, work: Any) -> Any:
            running[0].cancel()
            return await yard.bench.database.transaction(work)

    running.append(asyncio.create_task(yard.runner(Cancelling()).run(turn)))
    with pytest.raises(asyncio.CancelledError):
        await running[0]
    assert lines(yard.path) == []
    assert yard.on_disk() == ({"m0": "failed"}, ["none"], 0)
    assert (await yard.runner().run(turn)).failure == "m0: interrupted: the appliance stopped before it began"
    assert len(await yard.said()) == 1


# settling afterwards --------------------------------------------------------------------------------------------------
async def leave_unknown(yard: Yard) -> str:
    """Leave an effect that stayed unknown, and return its action."""
    turn = await yard.turn(*marks(1))

    async def lose(call: ToolCall) -> None:
        raise TimeoutError

    yard.mark.after = lose
    yard.mark.unreadable_times = 2
    assert (await yard.runner().run(turn)).kind == "failed"
    action_id: str = (await yard.bench.one("SELECT action_id FROM effect WHERE status = 'unknown'"))["action_id"]
    return action_id


@pytest.mark.req("T7", "R2")
@pytest.mark.parametrize("happened", [True, False])
async def test_the_tool_can_be_asked_once_more_what_became_of_it(yard: Yard, happened: bool) -> None:
    action_id = await leave_unknown(yard)
    if not happened:
        yard.path.unlink()
    said = await yard.said()
    settled = await yard.runner().verify_unknown(action_id, "anna")
    assert (settled.status, settled.settled_by) == ("applied" if happened else "none", "verify")
    assert (await yard.bench.one("SELECT state FROM action"))["state"] == ("done" if happened else "failed")
    assert await yard.said() == said, "whoever asked hears it there"
    row = await yard.bench.one("SELECT * FROM operation WHERE kind = 'audit.unknown_settled'")
    assert row["entity"] == action_id
    assert '"by":"anna"' in row["payload"].replace(" ", "")
    await yard.bench.kinds(OperationLane.P1)
    with pytest.raises(Refused, match=r"is settled already, as (not )?done by the tool's own check"):
        await yard.runner().verify_unknown(action_id, "anna")


@pytest.mark.req("T7")
async def test_asked_in_vain_it_stays_unknown(yard: Yard) -> None:
    action_id = await leave_unknown(yard)
    yard.mark.unreadable_times = 1
    with pytest.raises(Unavailable, match="cannot be read now"):
        await yard.runner().verify_unknown(action_id, "anna")
    found = await yard.bench.database.transaction(lambda tx: effects.of_action(tx, action_id))
    assert found is not None and found.status == "unknown"
    with pytest.raises(Refused, match="no effect at all"):
        await yard.runner().verify_unknown("ac_none", "anna")


@pytest.mark.req("T7", "X7")
async def test_a_persons_word_on_an_unknown_is_audited(yard: Yard) -> None:
    action_id = await leave_unknown(yard)
    await yard.runner().settle_effect(action_id, "done", "looked at the gauge", "anna")
    kinds = await yard.bench.kinds(OperationLane.P1)
    assert kinds.count("audit.unknown_settled") == 1
