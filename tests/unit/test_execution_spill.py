"""Results that are too long for the ledger: on disk before the row that tells of them, paged through by those who may."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from appliance.contracts.plan import Step
from appliance.contracts.principal import PRINCIPAL, AccessLevel, Identification, Principal
from appliance.contracts.store import Transaction
from appliance.contracts.tool import SecurityContract, ToolCall
from appliance.execution.spill import Spill
from appliance.execution.tools.read_result import ReadResult
from appliance.foundation.canonical import canonical_json
from appliance.foundation.supervisor import Degraded
from tests.support.effect_file import Look, LookArguments, lines
from tests.support.ledger import Bench, open_bench
from tests.support.plans import open_turn
from tests.support.stopping import FINISHED, MARK, Yard, open_yard

LONG = "é" * 1_000 + "x" * 100_000 + "the end"
GONE = "refused: that result is not kept any more; ask for it again"


@pytest.fixture
async def yard(tmp_path: Path) -> AsyncIterator[Yard]:
    async with open_yard(tmp_path) as opened:
        opened.more.append(ReadResult(opened.spill))
        yield opened


def files(yard: Yard) -> list[str]:
    folder = yard.path.parent / "spill"
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


def says(yard: Yard, text: str) -> None:
    async def look() -> Mapping[str, Any]:
        return {"seen": text}

    yard.looking(look)


@pytest.mark.req("T9")
async def test_what_is_beyond_the_budget_is_in_a_file_and_can_be_read_to_its_end(yard: Yard) -> None:
    says(yard, LONG)
    whole = canonical_json({"seen": LONG})
    assert await yard.runner.run(await yard.turn(Step("a", "look", {}))) == FINISHED
    result = await yard.result("a")
    action = (await yard.bench.one("SELECT id FROM action"))["id"]
    assert result == {
        "truncated": True, "length": len(whole), "preview": whole[:1_500], "spilled": action, "effect_disposition": "none",
    }  # fmt: skip
    read, offset = "", 0
    reader = ReadResult(yard.spill)
    call = await asked(yard)
    while offset is not None:
        page = await reader.run(call, reader.contract.schema.arguments(result=action, offset=offset, length=20_000))
        assert page["of"] == len(whole)
        read, offset = read + str(page["text"]), page["next_offset"]  # type: ignore[assignment]
    assert read == whole


async def asked(yard: Yard) -> ToolCall:
    return yard.look.calls[0]


@pytest.mark.req("T9")
async def test_a_plan_pages_through_it_by_the_name_the_result_has(yard: Yard) -> None:
    says(yard, LONG)
    steps = [Step("a", "look", {}), Step("b", "read_result", {"result": "{steps.a.spilled}", "offset": 101_000, "length": 100})]
    assert await yard.runner.run(await yard.turn(*steps)) == FINISHED
    page = await yard.result("b")
    assert page["text"].endswith('the end"}') and page["next_offset"] is None


@pytest.mark.req("T9")
async def test_the_file_is_on_disk_before_the_row_that_tells_of_it(yard: Yard) -> None:
    says(yard, LONG)
    found: list[list[str]] = []
    kept = yard.spill.bounded

    def bounded(tx: Transaction, *call: Any) -> Any:
        value = kept(tx, *call)
        if value.value.get("spilled"):
            found.append(files(yard))
            assert tx.execute("SELECT state FROM action").fetchone()["state"] == "started"
        return value

    yard.spill.bounded = bounded  # type: ignore[method-assign]
    await yard.runner.run(await yard.turn(Step("a", "look", {})))
    assert found == [["ac_0003.json"]], "one file, named after the action, and no draft beside it"


@pytest.mark.req("T9")
async def test_a_result_is_kept_whole_up_to_100_000_characters(yard: Yard) -> None:
    frame = len(canonical_json({"seen": ""}))
    for n, over in enumerate((0, 1)):
        says(yard, "x" * (100_000 - frame + over))
        turn = await open_turn(
            yard.bench.database, yard.bench.clock, yard.bench.ids, [Step(f"s{n}", "look", {})], turn_id=f"tr_{n + 7}"
        )
        assert await yard.runner.run(turn) == FINISHED
    rows = await yard.bench.rows("SELECT result FROM action ORDER BY id")
    assert ["truncated" in json.loads(row["result"]) for row in rows] == [False, True]


@pytest.mark.req("T9")
async def test_a_turn_keeps_results_of_200_000_characters(yard: Yard) -> None:
    said = iter([99_900, 99_900, 150, 99_900])

    async def look() -> Mapping[str, Any]:
        return {"seen": "x" * next(said)}

    yard.looking(look)
    steps = [Step(f"s{n}", "look", {"at": str(n)}, after=(f"s{n - 1}",) if n else ()) for n in range(4)]
    assert await yard.runner.run(await yard.turn(*steps)) == FINISHED
    assert [(await yard.result(f"s{n}")).get("truncated", False) for n in range(4)] == [False, False, False, True]


@pytest.mark.req("T9")
async def test_a_turn_has_a_budget_of_its_own(yard: Yard) -> None:
    says(yard, "x" * 90_000)
    steps = [Step(f"s{n}", "look", {"at": str(n)}, after=(f"s{n - 1}",) if n else ()) for n in range(4)]
    assert await yard.runner.run(await yard.turn(*steps)) == FINISHED
    cut = [(await yard.result(f"s{n}")).get("truncated", False) for n in range(4)]
    assert cut == [False, False, True, True]
    kept = (await yard.bench.one("SELECT sum(length(result)) AS chars FROM action"))["chars"]
    assert kept <= 200_000
    assert len(files(yard)) == 2


@pytest.mark.req("T9")
async def test_a_short_result_is_kept_whole_however_much_there_is(yard: Yard) -> None:
    says(yard, "x" * 99_000)
    steps = [Step(f"s{n}", "look", {"at": str(n)}) for n in range(3)]
    await yard.runner.run(await yard.turn(*steps, Step("b", "say", {"text": "Short."})))
    assert "truncated" not in await yard.result("b")


@pytest.mark.req("T9", "T7")
async def test_an_effect_whose_answer_is_too_long_is_applied(yard: Yard) -> None:
    real = yard.mark.run

    async def run(call: ToolCall, arguments: Any) -> Mapping[str, Any]:
        await real(call, arguments)
        return {"line": LONG}

    yard.mark.run = run  # type: ignore[method-assign]
    assert await yard.runner.run(await yard.turn(MARK)) == FINISHED
    effect = await yard.effect()
    assert effect["status"] == "applied" and json.loads(effect["result"])["truncated"] and lines(yard.path) == ["one"]


class Listing:
    """A ledger tool that lists much."""

    contract = replace(Look.contract, name="listing", security=SecurityContract(AccessLevel.OPERATOR, "ledger"))

    def apply(self, tx: Transaction, call: ToolCall, arguments: LookArguments) -> Mapping[str, Any]:
        return {"seen": LONG}


@pytest.mark.req("T9")
async def test_a_ledger_tool_spills_too_and_its_level_guards_what_it_said(yard: Yard) -> None:
    yard.more.append(Listing())
    guest = Principal("guest", Identification.VOICE, "guest", AccessLevel.INTERNAL)
    read = Step("b", "read_result", {"result": "{steps.a.spilled}"}, optional=True)
    assert await yard.runner.run(await yard.turn(Step("a", "listing", {}), read)) == FINISHED
    assert (await yard.result("b"))["of"] > 100_000
    action = (await yard.result("a"))["spilled"]
    turn = await open_turn(
        yard.bench.database, yard.bench.clock, yard.bench.ids, [Step("b", "read_result", {"result": action})],
        turn_id="tr_2", context={PRINCIPAL: guest.to_json()},
    )  # fmt: skip
    await yard.bench.database.transaction(
        lambda tx: tx.execute("UPDATE turn SET session_id = (SELECT min(session_id) FROM turn)")
    )
    same_session = replace(turn, session_id=(await yard.bench.one("SELECT min(session_id) AS id FROM turn"))["id"])
    assert GONE in (await yard.runner.run(same_session)).failure


@pytest.mark.req("T9")
@pytest.mark.parametrize("name", ["{steps.a.spilled}", "../ledger", "nothing"])
async def test_another_session_finds_nothing_and_a_name_is_no_way_out_of_the_folder(yard: Yard, name: str) -> None:
    says(yard, LONG)
    await yard.runner.run(await yard.turn(Step("a", "look", {})))
    wanted = name.replace("{steps.a.spilled}", (await yard.result("a"))["spilled"])
    bench = yard.bench
    steps = [Step("b", "read_result", {"result": wanted})]
    other = await open_turn(bench.database, bench.clock, bench.ids, steps, turn_id="tr_2")
    assert (await yard.runner.run(other)).failure == f"b: {GONE}"


@pytest.mark.req("T9")
async def test_without_room_for_the_file_the_beginning_is_kept_all_the_same(yard: Yard) -> None:
    says(yard, LONG)
    (yard.path.parent / "spill").write_text("a file where the folder should be")
    assert await yard.runner.run(await yard.turn(Step("a", "look", {}))) == FINISHED
    result = await yard.result("a")
    assert (result["truncated"], result["spilled"], len(result["preview"])) == (True, "", 1_500)
    assert result["why"].startswith("only its beginning could be kept: ")


CUT_SHORT = "I could keep only the beginning of a long result. Please have my disk looked at."


@pytest.mark.req("T9", "R8")
async def test_a_lost_rest_is_said_once_a_turn_and_the_part_is_degraded_until_it_works_again(yard: Yard) -> None:
    """Without that the turn is done, and looks as if all were there."""
    degraded, folder = Degraded(), yard.path.parent / "spill"
    yard.spill = Spill(folder, degraded=degraded)
    says(yard, "x" * 320_000)
    folder.write_text("a file where the folder should be")
    steps = [Step("a", "look", {"at": "a"}), Step("b", "look", {"at": "b"}, after=("a",))]
    assert await yard.runner.run(await yard.turn(*steps)) == FINISHED
    assert (await yard.result("a"))["length"] == 320_011 and (await yard.result("b"))["spilled"] == ""
    assert await yard.said() == [CUT_SHORT]
    assert degraded.reasons["spill"].startswith("long results cannot be kept whole: only its beginning")
    folder.unlink()
    bench = yard.bench
    again = await open_turn(bench.database, bench.clock, bench.ids, [Step("a", "look", {"at": "c"})], turn_id="tr_2")
    assert await yard.runner.run(again) == FINISHED
    assert (degraded.reasons, await yard.said()) == ({}, [CUT_SHORT])


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    async with open_bench(tmp_path) as opened:
        yield opened


@pytest.mark.req("T9")
async def test_the_folder_is_bounded_and_the_oldest_steps_go_first_whatever_the_clock_was(bench: Bench, tmp_path: Path) -> None:
    """No clock is asked: files that were written before it was set may carry a time of weeks ago, or of tomorrow."""
    folder = tmp_path / "spill"
    sizes = Spill(folder, most_bytes=450_000), Spill(tmp_path / "many", most_files=3)
    steps = [Step(f"s{number}", "look", {}) for number in range(6)]
    await open_turn(bench.database, bench.clock, bench.ids, steps)
    names = [row["id"] for row in await bench.rows("SELECT id FROM action ORDER BY position")]
    now_s = bench.clock.utc().timestamp()

    def keep(spill: Spill, name: str, kept_in: Path, wrong_by_s: float) -> Callable[[Transaction], None]:
        def work(tx: Transaction) -> None:
            call = ToolCall("look", {}, "tr_1", "se_1", name, "lane", "en", {})
            spill._keep(tx, name, call, Look.contract, "x" * 100_000)
            os.utime(kept_in / f"{name}.json", (now_s + wrong_by_s, now_s + wrong_by_s))

        return work

    await bench.database.transaction(keep(sizes[0], "of_no_step", folder, 0.0))
    for number, name in enumerate(names):
        await bench.database.transaction(keep(sizes[0], name, folder, -30 * 86_400.0 * number))
        await bench.database.transaction(keep(sizes[1], name, tmp_path / "many", -30 * 86_400.0 * number))
    assert sorted(path.stem for path in folder.iterdir()) == names[2:]
    assert sorted(path.stem for path in (tmp_path / "many").iterdir()) == names[3:]


SUM = "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"  # SHA-256 of "{}"


@pytest.mark.req("T9", "R8")
@pytest.mark.parametrize(
    "damaged",
    [
        b"",
        b"\0" * 4096,
        b"\xff\xfe",
        b"[]\n{}",
        b"null\n{}",
        b'{"session":"se_1"}\n{}',
        f'{{"level":"zzz","session":"se_1","sha256":"{SUM}"}}\n{{}}'.encode(),
        f'{{"level":7,"session":"se_1","sha256":"{SUM}"}}\n{{}}'.encode(),
        b"[" * 100_000,
        None,
    ],
    ids=["empty", "zeroed", "not_utf8", "list", "null", "no_sum", "no_such_level", "level_of_another_kind", "deep", "one_byte"],
)
async def test_a_damaged_file_is_a_result_that_is_gone_and_no_fault_of_the_program(yard: Yard, damaged: bytes | None) -> None:
    degraded, bench = Degraded(), yard.bench
    yard.spill = Spill(yard.path.parent / "spill", degraded=degraded)
    yard.more[:] = [ReadResult(yard.spill)]
    says(yard, LONG)
    first = await yard.turn(Step("a", "look", {}))
    assert await yard.runner.run(first) == FINISHED
    action = (await yard.result("a"))["spilled"]
    file = yard.path.parent / "spill" / f"{action}.json"
    whole = file.read_bytes()
    file.write_bytes(whole[:-9] + b"#" + whole[-8:] if damaged is None else damaged)
    read = Step("b", "read_result", {"result": action})
    later = await open_turn(bench.database, bench.clock, bench.ids, [read], turn_id="tr_2")
    outcome = await yard.runner.run(replace(later, session_id=first.session_id))
    assert outcome.failure == f"b: {GONE}"
    assert degraded.reasons["spill"].startswith("a long result that was kept cannot be read any more: ac_")
    file.write_bytes(whole)
    once_more = await open_turn(bench.database, bench.clock, bench.ids, [read], turn_id="tr_3")
    assert await yard.runner.run(replace(once_more, session_id=first.session_id)) == FINISHED, "whole it is read"
