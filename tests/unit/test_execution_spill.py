"""Results that are too long for the ledger: on disk before the row that tells of them, paged through by those who may."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from appliance.contracts.plan import Step
from appliance.contracts.principal import PRINCIPAL, AccessLevel, Identification, Principal
from appliance.contracts.store import Transaction
from appliance.contracts.tool import SecurityContract, ToolCall
from appliance.execution.results import LONGEST_RESULT, LONGEST_TURN, PREVIEW
from appliance.execution.spill import OLDEST_S, Spill
from appliance.execution.tools.read_result import ReadResult
from appliance.foundation.canonical import canonical_json
from appliance.foundation.supervisor import Degraded
from tests.support.effect_file import Look, LookArguments, lines
from tests.support.ledger import Bench, open_bench
from tests.support.plans import open_turn
from tests.support.stopping import FINISHED, MARK, Yard, open_yard

LONG = "é" * 1_000 + "x" * LONGEST_RESULT + "the end"
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
        "truncated": True, "length": len(whole), "preview": whole[:PREVIEW], "spilled": action, "effect_disposition": "none",
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
async def test_a_turn_has_a_budget_of_its_own(yard: Yard) -> None:
    says(yard, "x" * 90_000)
    steps = [Step(f"s{n}", "look", {"at": str(n)}, after=(f"s{n - 1}",) if n else ()) for n in range(4)]
    assert await yard.runner.run(await yard.turn(*steps)) == FINISHED
    cut = [(await yard.result(f"s{n}")).get("truncated", False) for n in range(4)]
    assert cut == [False, False, True, True]
    kept = (await yard.bench.one("SELECT sum(length(result)) AS chars FROM action"))["chars"]
    assert kept <= LONGEST_TURN
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
    assert (await yard.result("b"))["of"] > LONGEST_RESULT
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
    assert (result["truncated"], result["spilled"], len(result["preview"])) == (True, "", PREVIEW)
    assert result["why"].startswith("only its beginning could be kept: ")


CUT_SHORT = "I could keep only the beginning of a long result. Please have my disk looked at."


@pytest.mark.req("T9", "R8")
async def test_a_lost_rest_is_said_once_a_turn_and_the_part_is_degraded_until_it_works_again(yard: Yard) -> None:
    """Without that the turn is done, and looks as if all were there."""
    degraded, folder = Degraded(), yard.path.parent / "spill"
    yard.spill = Spill(folder, yard.bench.clock, degraded=degraded)
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
async def test_the_folder_is_bounded_and_swept(bench: Bench, tmp_path: Path) -> None:
    folder = tmp_path / "spill"
    spill = Spill(folder, bench.clock, most_bytes=450_000)
    now_s = bench.clock.utc().timestamp()

    def keep(name: str, age_s: float) -> None:
        call = ToolCall("look", {}, "tr_1", "se_1", name, "lane", "en", {})
        spill._keep(name, call, Look.contract, "x" * 100_000)
        os.utime(folder / f"{name}.json", (now_s - age_s, now_s - age_s))

    keep("old", OLDEST_S + 60)
    for number in range(6):
        keep(f"n{number}", 60.0 - number)
    assert sorted(path.stem for path in folder.iterdir()) == ["n2", "n3", "n4", "n5"]
    shutil.rmtree(folder)
