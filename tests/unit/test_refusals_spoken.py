"""Why something is not done is said in the language of the turn, in words a person can act on; the message is for records."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from appliance.contracts.errors import FloorhandError, Malformed, Refused, Unavailable
from appliance.contracts.lane import of_person
from appliance.contracts.plan import Step
from appliance.contracts.refusals import no_tag
from appliance.contracts.tool import EffectDisposition
from appliance.execution.results import failure_of
from appliance.execution.runner import Runner
from appliance.execution.sentences import Sentences
from appliance.execution.tool_breaker import left_alone
from appliance.execution.toolbox.toolbox import Toolbox, unknown_tool
from appliance.planning.replies import REPLIES, placeholders
from appliance.words import Words
from drivers.alarms import states
from tests.support.clock import ManualClock
from tests.support.effect_file import Look
from tests.support.ledger import Bench, open_bench
from tests.support.plans import PHRASES, open_turn, phrasing
from tests.support.runner_ports import runner_ports

NONE = EffectDisposition.NONE
GIVEN = {
    "asset": "motor_3", "quantity": "motor_3.fan_speed", "link": "line 3", "longest": {"value": 28_800, "unit": "s"},
    "needed": {"value": 40, "unit": "s"}, "left": {"value": 5, "unit": "s"}, "count": 20, "id": "wo 9", "alarm": "pump 9 hot",
    "sentence": "x", "webhook": "boss", "known": ["shift"], "what": "x", "why": "the file is gone", "key": "motor 3 mood",
    "turn": "tr_1", "tool": "look",
}  # fmt: skip
"""A value for every place of a reason."""
_FOREIGN = re.compile(r"[A-Za-z]+(?:[^A-Za-z\u3000-\u9fff]+[A-Za-z]+){2,}")
_MANY_STOPS = re.compile(r"[.。！？!?]\s*[.。]")


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    async with open_bench(tmp_path) as opened:
        yield opened


def sentences(language: str) -> Sentences:
    return Sentences(phrasing(), language)


def named_in_the_program() -> set[str]:
    """Return the replies that errors name anywhere in the product."""
    root = PHRASES.parents[1]
    files = [path for room in ("appliance", "drivers") for path in (root / room).rglob("*.py")]
    told = "\n".join(path.read_text("utf-8") for path in files)
    return set(re.findall(r'\.worded\(\s*"(\w+)"', told)) | set(states._REPLIES.values())


@pytest.mark.req("T9", "V6")
@pytest.mark.parametrize("language", ["en", "zh"])
def test_every_reason_an_error_names_is_a_sentence_of_its_language(language: str) -> None:
    names = named_in_the_program()
    assert len(names) > 40 and names <= REPLIES.keys()
    for name in sorted(names):
        result = failure_of(Refused("said in English for the records").worded(name, **GIVEN), NONE)
        said = sentences(language).step_failed(result, "look")
        assert "records" not in said and said[-1] in ".。" and not _MANY_STOPS.search(said), said
        if language == "zh":
            assert not _FOREIGN.search(said.replace(GIVEN["alarm"], "").replace(GIVEN["key"], "")), said  # type: ignore[arg-type]


@pytest.mark.req("T9")
def test_no_chinese_sentence_says_what_the_program_says_in_english() -> None:
    zh = phrasing()._replies["zh"]
    needs_why = {name for name in named_in_the_program() if "why" in placeholders(zh[name])}
    assert needs_why == set()


@pytest.mark.req("T9", "V6")
@pytest.mark.parametrize(
    ("error", "en", "zh"),
    [
        (
            Unavailable("line_3: cannot connect").worded("controller_away", asset="motor_3"),
            "That cannot be done now. I cannot reach the controller of motor 3.",
            "现在做不到。无法连接3号电机的控制器。",
        ),
        (
            no_tag("motor_3.mood"),
            "I cannot do that. There is no such value here.",
            "我不能这样做。这里没有这个数值。",
        ),
        (
            left_alone("read_tags", "read_tags took too long 3 times in a row"),
            "That cannot be done now. Reading from the machine took too long several times. Please try again in a little while.",
            "现在做不到。从机器读取数值多次超时，请稍后再试。",
        ),
        (
            unknown_tool("secret_tool"),
            "Something in my plan was wrong, so I stopped. It has a step I cannot do.",
            "我的计划有误，已停止。其中有我不会的步骤。",
        ),
        (
            Malformed("read_tags: keys: Field required"),
            "Something in my plan was wrong, so I stopped. The step that did not fit: reading from the machine.",
            "我的计划有误，已停止。有问题的步骤：从机器读取数值。",
        ),
        (Refused("the guard is open"), "I cannot do that. The guard is open.", "我不能这样做。The guard is open."),
        (Refused("阀门开着。"), "I cannot do that. 阀门开着。", "我不能这样做。阀门开着。"),
    ],
    ids=["controller", "tag", "left alone", "unknown tool", "arguments", "without a reply", "worded already"],
)
def test_a_reason_is_said_in_the_language_of_the_turn(error: FloorhandError, en: str, zh: str) -> None:
    result = failure_of(error, NONE)
    assert [sentences(language).step_failed(result, "read_tags") for language in ("en", "zh")] == [en, zh]


@pytest.mark.req("T9")
async def test_who_types_is_told_where_to_look_and_who_speaks_is_not(bench: Bench) -> None:
    told = {}
    for lane in (of_person("ann"), "line_3"):
        turn_id = f"tr_{lane[-1]}"
        step = Step("a", "look", {"att": "x"})
        turn = await open_turn(bench.database, bench.clock, bench.ids, [step], lane=lane, turn_id=turn_id)
        outcome = await run(bench, turn)
        assert outcome.kind == "failed"
        rows = await bench.rows("SELECT text FROM delivery WHERE turn_id = ?", turn_id)
        told[lane] = [row["text"] for row in rows]
    said = "Something in my plan was wrong, so I stopped. The step that did not fit: look."
    assert told == {of_person("ann"): [f"{said} To see more: floorhand turns show tr_n"], "line_3": [said]}


@pytest.mark.req("T9")
async def test_a_reason_outlives_the_tool_that_stands_in(bench: Bench) -> None:
    """What is said after both failed is why the one that was asked for did, in the language of the turn."""
    away = Look(Unavailable("the link is down").worded("controller_away", asset="motor_3"))
    away.contract = replace(Look.contract, fallback_tool="other")  # type: ignore[misc]
    other = Look(Unavailable("no other way"))
    other.contract = replace(Look.contract, name="other")  # type: ignore[misc]
    turn = await open_turn(bench.database, bench.clock, bench.ids, [Step("a", "look", {})], language="zh")
    outcome = await run(bench, turn, away, other)
    assert "nor could another tool: no other way" in outcome.failure
    (row,) = await bench.rows("SELECT text FROM delivery")
    assert row["text"].startswith("现在做不到。无法连接3号电机的控制器。")


@pytest.mark.req("T9")
def test_what_is_wrong_with_a_plan_or_broke_is_bounded_and_not_english_in_chinese_words(bench_words: Words) -> None:
    long = Malformed("steps: " + "x" * 5_000 + "\u202e.")
    en, zh = bench_words.why_unplanned(long, "en"), bench_words.why_unplanned(Malformed(long.message), "zh")
    assert en == "I could not make a sound plan for that. Please put it another way."
    assert zh == "我没能为此制定出可行的计划，请换个说法。"
    assert bench_words.why(Unavailable("the storage does not answer"), "zh") == "程序内部出错，请派人查看日志。"
    assert bench_words.why(Unavailable("the storage does not answer"), "en") == "The storage does not answer."


@pytest.fixture
def bench_words() -> Words:
    clock = ManualClock()
    return Words(phrasing(), clock, None, "en")  # type: ignore[arg-type]  # it makes no ids here


async def run(bench: Bench, turn: Any, *tools: Any) -> Any:
    box = Toolbox(list(tools) or [Look()])
    return await Runner(
        bench.database, box, bench.clock, bench.ids, bench.epoch, phrasing(),
        settle_waits=lambda: [0.0], retry_waits=lambda: iter([0.0] * 9),
        **runner_ports(bench.database.path.parent, bench.clock),
    ).run(turn)  # fmt: skip
