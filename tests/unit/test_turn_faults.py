"""A mistake in the program costs the turn that met it, with words and a record, and nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from appliance.conductor import Rooms
from appliance.contracts.admission import Outcome
from appliance.contracts.errors import Corrupt, Fault, OwnedElsewhere, Refused
from appliance.contracts.plan import Plan
from appliance.contracts.planning import Asked, PlanMaker
from appliance.contracts.tool import ToolCall
from appliance.foundation.supervisor import contained
from tests.support.hall import Hall, hot, open_hall
from tests.support.waiting import until

ASK_TEMPERATURE = "what is the temperature of motor three"
REPORT = "Something in my own program is broken. The log has it; please report it."
ZH_REPORT = "我自己的程序出了错，日志里有记录，请上报。"
PART = "program"


def assertion() -> None:
    assert 1 > 2, "a plan has steps"


def recursion() -> None:
    recursion()


def key() -> None:
    {}["\ud800 no such step"]


def unreadable() -> None:
    class Unsaid(ValueError):
        def __str__(self) -> str:
            raise TypeError

    raise Unsaid


def several() -> None:
    raise ExceptionGroup("both", [KeyError("a"), ValueError("b")])


BREAKS = [key, assertion, recursion, unreadable, several]


class BreakingPlanner:
    """Breaks once, when it is let, and plans from then on."""

    def __init__(self, planners: PlanMaker, broken: Callable[[], None], release: asyncio.Event) -> None:
        self.planners, self.broken, self.release, self.asked = planners, broken, release, 0

    async def plan(self, asked: Asked) -> Plan | None:
        self.asked += 1
        if self.asked > 1:
            return await self.planners.plan(asked)
        await self.release.wait()
        self.broken()
        return None


async def with_an_alarm_behind(hall: Hall, release: asyncio.Event, under_way: Callable[[], object], **said: str) -> Any:
    """Ask something that breaks while an alarm waits behind it; return its admission once both have ended."""
    asked = await hall.console_door.admit(said.get("text", ASK_TEMPERATURE), said.get("language", "en"), "console")
    await until(under_way, "the turn is under way")
    alarm = await hall.alarm_door.admit(hot(hall.bench))
    assert alarm.admission is not None
    release.set()
    broken = await hall.ended(asked.admission)
    assert (await hall.ended(alarm.admission)).outcome is Outcome.DONE, "the alarm behind it was led"
    assert not hall._leading.done(), "and the core goes on"
    return broken


async def nothing_of_it_is_resumed(hall: Hall) -> None:
    await hall.close()
    recovered = await hall.restart()
    assert (list(recovered.resumed), list(recovered.suspended)) == ([], [])
    hall.open()
    assert (await hall.say("help")).outcome is Outcome.DONE


@pytest.mark.req("R1", "S3")
@pytest.mark.field("FC-R13")
@pytest.mark.parametrize("broken", BREAKS)
async def test_a_planner_that_breaks_costs_its_turn_and_no_alarm(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, broken: Callable[[], None]
) -> None:
    release = asyncio.Event()
    planners: list[BreakingPlanner] = []

    def change(rooms: Rooms) -> Rooms:
        planners.append(BreakingPlanner(rooms.planners, broken, release))
        return replace(rooms, planners=planners[-1])

    async with open_hall(tmp_path, change=change, sessions=1) as hall:
        admission = await with_an_alarm_behind(hall, release, lambda: planners[0].asked)
        turn = await hall.turn(admission.turn_id)
        assert (admission.outcome, turn["state"]) == (Outcome.FAILED, "failed")
        assert turn["failure"].startswith("a fault of mine, the log has it: ")
        assert await hall.said(turn["id"]) == [f"That did not work. {REPORT}"]
        assert [bool(r.exc_info) for r in caplog.records if r.getMessage() == "fault"] == [True], "told once, with its traceback"
        assert hall.rooms.faults.count == 1 and PART in hall.degraded.reasons
        planners.clear()
        release.clear()
        hall.change = lambda rooms: rooms
        await nothing_of_it_is_resumed(hall)


@pytest.mark.req("R1", "S3", "T7")
@pytest.mark.field("FC-R13")
@pytest.mark.parametrize("broken", BREAKS)
async def test_a_shipped_tool_that_breaks_fails_its_step_and_costs_no_alarm(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, broken: Callable[[], None]
) -> None:
    release = asyncio.Event()
    async with open_hall(tmp_path, sessions=1) as hall:
        tool: Any = hall.rooms.toolbox.find("read_tags")
        real, called = tool.run, []

        async def run(call: ToolCall, arguments: Any) -> Mapping[str, Any]:
            called.append(call)
            if len(called) > 1:
                return dict(await real(call, arguments))
            await release.wait()
            broken()
            return {}

        tool.run = run
        admission = await with_an_alarm_behind(hall, release, lambda: called)
        turn = await hall.turn(admission.turn_id)
        assert (admission.outcome, turn["state"]) == (Outcome.FAILED, "failed")
        assert await hall.said(turn["id"]) == [f"I cannot do that. {REPORT}"]
        assert [r.getMessage() for r in caplog.records].count("fault") == 1
        assert hall.rooms.faults.count == 1 and PART in hall.degraded.reasons
        await nothing_of_it_is_resumed(hall)


@pytest.mark.req("R1", "T7")
async def test_a_ledger_tool_that_breaks_costs_its_turn_and_leaves_no_row(tmp_path: Path) -> None:
    async with open_hall(tmp_path) as hall:
        tool: Any = hall.rooms.toolbox.find("create_work_order")
        real = tool.apply

        def apply(*told: Any) -> Mapping[str, Any]:
            real(*told)
            return {}["gone"]  # type: ignore[no-any-return]

        tool.apply = apply
        admission = await hall.say("create a work order for motor three")
        if await hall.questions():
            admission = await hall.say("yes confirm")
        assert admission.outcome is Outcome.FAILED
        assert (await hall.said(admission.turn_id))[-1].endswith(REPORT)
        assert await hall.bench.rows("SELECT id FROM work_order") == []
        assert (await hall.say("help")).outcome is Outcome.DONE


@pytest.mark.req("R1", "S3")
async def test_it_is_said_in_the_language_of_the_turn(tmp_path: Path) -> None:
    release = asyncio.Event()
    release.set()
    async with open_hall(tmp_path, change=lambda r: replace(r, planners=BreakingPlanner(r.planners, key, release))) as hall:
        admission = await hall.say("三号电机的温度是多少", language="zh")
        assert await hall.said(admission.turn_id) == [f"操作没有成功。{ZH_REPORT}"]


@pytest.mark.req("R1")
async def test_words_that_break_as_well_do_not_keep_the_turn_from_ending(tmp_path: Path) -> None:
    release = asyncio.Event()
    release.set()
    async with open_hall(tmp_path, change=lambda r: replace(r, planners=BreakingPlanner(r.planners, key, release))) as hall:
        words = hall.conductor._failed.words

        class Mute:
            def reply(self, *_: object, **__: object) -> str:
                raise KeyError("tool_failed")

        hall.conductor._failed = replace(hall.conductor._failed, words=replace(words, wording=Mute()))  # type: ignore[arg-type]
        admission = await hall.say(ASK_TEMPERATURE)
        assert admission.outcome is Outcome.FAILED and await hall.said(admission.turn_id) == []
        assert (await hall.say("help")).outcome is Outcome.DONE


@pytest.mark.req("R1", "R8")
async def test_faults_are_counted_and_stay_named_until_the_next_start(tmp_path: Path) -> None:
    release = asyncio.Event()
    release.set()
    changes: list[tuple[str, str]] = []
    async with open_hall(tmp_path, is_open=False) as hall:
        hall.degraded.listeners.append(lambda part, why: changes.append((part, why)))
        planner = BreakingPlanner(hall.rooms.planners, key, release)
        hall.change = lambda rooms: replace(rooms, planners=planner)
        hall.build(hall.bench.epoch)
        hall.open()
        for count in (1, 2):
            planner.asked = 0
            await hall.say(ASK_TEMPERATURE)
            assert hall.rooms.faults.count == count
        await hall.say(ASK_TEMPERATURE)
        ((part, why),) = changes
        assert part == PART and "the log has it: KeyError: " in why


@pytest.mark.req("R1", "R2")
async def test_a_ledger_that_can_record_no_failure_ends_the_core(tmp_path: Path) -> None:
    with pytest.raises(ExceptionGroup) as ended:
        async with open_hall(tmp_path, is_open=False) as hall:
            await hall.bench.database._reader.close()  # no turn's fault: nothing can be read any more
            await hall.console_door.admit(ASK_TEMPERATURE, "en", "console")
            hall.open()
            await hall._leading
    assert ended.group_contains(Exception)


@pytest.mark.parametrize("error", [OwnedElsewhere("another core"), Corrupt("damaged"), Refused("no")])
async def test_errors_of_the_contracts_keep_their_meaning(error: Exception) -> None:
    async def alone() -> None:
        raise error

    async def among() -> None:
        raise ExceptionGroup("several", [KeyError("x"), ExceptionGroup("more", [error])])

    for work in (alone, among):
        with pytest.raises(type(error)) as caught:
            await contained(work())
        assert caught.value is error


async def test_what_ends_a_task_or_the_process_passes_but_from_another_packages_program() -> None:
    class Odd(BaseException):
        pass

    async def raising(error: BaseException) -> None:
        raise error

    for error in (Odd(), asyncio.CancelledError(), BaseExceptionGroup("x", [Odd(), KeyError()])):
        with pytest.raises(type(error)):
            await contained(raising(error))
    for error in (Odd(), KeyboardInterrupt(), SystemExit(3), GeneratorExit()):
        with pytest.raises(Fault):
            await contained(raising(error), is_foreign=True)
    with pytest.raises(asyncio.CancelledError):
        await contained(raising(asyncio.CancelledError()), is_foreign=True)
    with pytest.raises(TimeoutError):
        await contained(raising(TimeoutError()), passing=(TimeoutError,))


@pytest.mark.req("R1", "T7")
async def test_what_was_done_before_it_broke_is_told(tmp_path: Path) -> None:
    async with open_hall(tmp_path) as hall:
        await hall.say("set the fan speed of motor three to eighty percent")
        tool: Any = hall.rooms.toolbox.find("say")

        def apply(*_: object) -> Mapping[str, Any]:
            raise AssertionError("no words")

        tool.apply = apply
        answered = await hall.say("yes confirm")
        assert answered.outcome is Outcome.FAILED and len(hall.bus.writes) == 1
        assert (await hall.bench.one("SELECT status FROM effect"))["status"] == "applied"
        *_, done, failed = await hall.said(answered.turn_id)
        assert "fan speed" in done and "80 percent" in done, done
        assert failed == f"That did not work. {REPORT}"
        del tool.apply
        await nothing_of_it_is_resumed(hall)
        assert len(hall.bus.writes) == 1
