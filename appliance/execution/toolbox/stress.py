"""Measures how long a tool takes and proposes its bound (T2). One measurement at a time; whoever stops listening stops it.

A call is made as a step makes it, but belongs to no turn: so only tools are measured that change and keep nothing.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any

from appliance.contracts.clock import Clock
from appliance.contracts.errors import FloorhandError, Malformed, Refused
from appliance.contracts.tool import Tool, ToolCall
from appliance.execution.toolbox.contract_check import LONGEST_CALL_MS
from appliance.execution.toolbox.toolbox import Toolbox, is_outside_tool

DEFAULT_RUNS, MOST_RUNS = 50, 1000
_MARGIN = 1.3  # of the 95th percentile; requirements T2
_STEP_MS = 10
_ENOUGH_RUNS = 20  # with fewer, the 95th percentile is the slowest call


class Stress:
    """Calls tools to see how long they take."""

    def __init__(self, toolbox: Toolbox, clock: Clock, language: str) -> None:
        """``language`` is that of the words the calls make."""
        self._toolbox = toolbox
        self._clock = clock
        self._language = language
        self._measuring = ""

    async def measure(self, name: str, arguments: Mapping[str, Any], runs: int) -> AsyncGenerator[Mapping[str, Any]]:
        """Measure; see ``ToolActs.stress``."""
        tool = self._measurable(name)
        checked = self._toolbox.check_arguments(name, arguments)
        if not 1 <= runs <= MOST_RUNS:
            raise Malformed(f"a tool is called 1 to {MOST_RUNS} times, not {runs}", cure=f"Give --runs from 1 to {MOST_RUNS}.")
        if self._measuring:
            raise Refused(f"{self._measuring} is being measured", cure="Wait until that has ended, or stop it.")
        call = ToolCall(name, arguments, "stress", "stress", "stress", "stress", self._language, self._surroundings())
        took_ms: list[float] = []
        self._measuring = name
        try:
            for run in range(1, runs + 1):
                began_ns = self._clock.monotonic_ns()
                why = await self._once(tool, call, checked)
                ms = (self._clock.monotonic_ns() - began_ns) / 1e6
                if not why:
                    took_ms.append(ms)
                yield {"run": run, "took_ms": round(ms, 3), "why": why}
        finally:
            self._measuring = ""
        yield summary(name, took_ms, runs, tool.contract.sla.max_execution_time_ms)

    def _measurable(self, name: str) -> Tool:
        tool = self._toolbox.find(name)
        contract = tool.contract
        if contract.has_effect:
            raise Refused(f"{name} has an effect with every call, so it is not called to be measured", tool=name)
        if not is_outside_tool(tool):
            raise Refused(f"{name} is done within one commit of the ledger; there is no call to be measured", tool=name)
        if contract.keeps_something:
            raise Refused(f"{name} keeps something of every call, so it is not called to be measured", tool=name)
        if why := self._toolbox.not_ready([name]).get(name, ""):
            raise Refused(f"{name} cannot be called now: {why}", tool=name)
        return tool

    async def _once(self, tool: Tool, call: ToolCall, arguments: Any) -> str:
        """Make one call; return why it failed, empty if it went well. It may take longer than it declares: that is to be seen."""
        try:
            async with asyncio.timeout(LONGEST_CALL_MS / 1000):
                self._toolbox.check_result(call.tool, await tool.run(call, arguments))
        except TimeoutError:
            return f"it took longer than the {LONGEST_CALL_MS // 1000} s that any tool may"
        except FloorhandError as error:
            return error.message
        return ""

    def _surroundings(self) -> Mapping[str, Any]:
        now = self._clock.utc().isoformat()
        return {"turn": {"id": "stress", "language": self._language, "opened_utc": now}, "slots": {}}


def summary(name: str, took_ms: Sequence[float], runs: int, declared_ms: int) -> dict[str, Any]:
    """Return what calls that went well took, and the bound that follows: the 95th percentile (nearest rank) times 1.3, rounded
    up to 10 ms, within the ceiling of every tool. Without any such call nothing is proposed."""
    failed = runs - len(took_ms)
    if not took_ms:
        told = {"p50_ms": None, "p95_ms": None, "max_ms": None, "proposed_ms": None}
        note = "every call failed, so nothing is proposed"
        return {
            "name": name,
            "runs": runs,
            "failed": failed,
            **told,
            "declared_ms": declared_ms,
            "is_too_low": False,
            "note": note,
        }
    p95_ms = _nearest_rank(took_ms, 95)
    wanted_ms = max(_STEP_MS, math.ceil(round(p95_ms * _MARGIN / _STEP_MS, 9)) * _STEP_MS)
    proposed_ms = min(wanted_ms, LONGEST_CALL_MS)
    notes = []
    if declared_ms < proposed_ms:
        notes.append(f"the declared max_execution_time_ms of {declared_ms} is lower than the proposal")
    if wanted_ms > LONGEST_CALL_MS:
        notes.append(f"it would need {wanted_ms} ms, and no tool may take longer than {LONGEST_CALL_MS}")
    if failed:
        notes.append(f"{failed} calls failed and do not count")
    if len(took_ms) < _ENOUGH_RUNS:
        notes.append(f"with fewer than {_ENOUGH_RUNS} calls the slowest one decides")
    return {
        "name": name,
        "runs": runs,
        "failed": failed,
        "p50_ms": round(_nearest_rank(took_ms, 50), 3),
        "p95_ms": round(p95_ms, 3),
        "max_ms": round(max(took_ms), 3),
        "proposed_ms": proposed_ms,
        "declared_ms": declared_ms,
        "is_too_low": declared_ms < proposed_ms,
        "note": "; ".join(notes),
    }


def _nearest_rank(values: Sequence[float], percent: int) -> float:
    return sorted(values)[-(-len(values) * percent // 100) - 1]
