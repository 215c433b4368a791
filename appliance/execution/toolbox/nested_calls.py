"""Calls a tool makes of the tools it declared as its dependencies (T4).

Such a call is part of the one under way: it ends when that one is stopped or its time is over, and has a bound of its own
besides. It may only read, and passes the gate of all calls: what a rule denies, or would have asked about, it does not get. The
path of calls goes with the task, so calls that run beside each other have a path each.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any, TypeGuard

from appliance.contracts.approval import Decision
from appliance.contracts.approving import Approver
from appliance.contracts.clock import Clock
from appliance.contracts.errors import FloorhandError, Malformed, RecursiveCallPrevented, Refused
from appliance.contracts.tool import ComposedTool, EffectDisposition, Tool, ToolCall, ToolResult
from appliance.execution.results import TIMEOUT, failure, failure_of, success
from appliance.execution.telemetry import CallLog
from appliance.execution.toolbox.toolbox import Toolbox, bound_s, is_outside_tool, unknown_tool

log = logging.getLogger(__name__)

_NONE = EffectDisposition.NONE


@dataclass(frozen=True, slots=True)
class _UnderWay:
    """The call that is made, and the tools on the way to it, the outermost first."""

    call: ToolCall
    path: tuple[str, ...]


_under_way: ContextVar[_UnderWay | None] = ContextVar("call under way", default=None)


def is_composed(tool: object) -> TypeGuard[ComposedTool]:
    """Whether the tool calls others."""
    return callable(getattr(tool, "uses", None))


async def run_composed(tool: Tool, call: ToolCall, arguments: Any) -> Mapping[str, Any]:
    """Run a tool that calls others, at the beginning of a path."""
    return await _within(_UnderWay(call, (call.tool,)), tool, arguments)


class NestedCalls:
    """Calls the dependencies of one tool, for it."""

    def __init__(self, owner: str, toolbox: Toolbox, clock: Clock, approvals: Approver) -> None:
        self._owner = owner
        self._toolbox = toolbox
        self._clock = clock
        self._approvals = approvals

    async def call(self, tool: str, arguments: Mapping[str, Any]) -> ToolResult:
        """Return the result of a tool without effect, within the call under way.

        Raises:
            RecursiveCallPrevented: the tool is in the call path already; the message spells the path.
            Refused: it is no dependency of the calling tool, it has an effect, or no call of that tool is under way.
        """
        outer = _under_way.get()
        if outer is None or outer.path[-1] != self._owner:
            raise self._fault(Refused(f"{self._owner} can call {tool} only while it is called itself", tool=tool))
        if tool in outer.path:
            path = "->".join([*outer.path, tool])
            raise self._fault(RecursiveCallPrevented(f"a tool would call itself: {path}", path=path))
        if tool not in self._toolbox.find(self._owner).contract.dependencies:
            raise await self._noted(outer, tool, Refused(f"{self._owner} does not declare {tool} as a dependency", tool=tool))
        inner = self._toolbox.find(tool)
        if inner.contract.has_effect or not is_outside_tool(inner):
            raise await self._noted(outer, tool, Refused(f"{tool} does more than read, so no other tool may call it", tool=tool))
        return await self._made(inner, outer, arguments)

    async def _noted(self, outer: _UnderWay, tool: str, refused: Refused) -> Refused:
        await self._approvals.note_nested(outer.call, tool, refused.message)
        return self._fault(refused)

    def _fault(self, error: Refused) -> Refused:
        """Return the refusal as it is said: how tools are put together is nothing a person at the machine can change."""
        return error.worded("tool_at_fault", tool=self._owner)

    async def _made(self, tool: Tool, outer: _UnderWay, arguments: Mapping[str, Any]) -> ToolResult:
        name = tool.contract.name
        try:
            checked = self._toolbox.check_arguments(name, arguments)
        except Malformed as error:  # whoever may not know of the tool learns no more of it than that there is none
            if tool.contract.security.access_level <= outer.call.principal.level:
                return failure_of(error, _NONE)
            unknown = unknown_tool(name)
            await self._approvals.note_nested(outer.call, name, unknown.message, is_hidden=True)
            return failure_of(unknown, _NONE)
        call = replace(outer.call, tool=name, arguments=checked.model_dump(mode="json"))
        verdict = await self._approvals.decide_nested(call, tool, checked)
        if verdict.is_hidden:
            return failure_of(unknown_tool(name), _NONE)
        if verdict.decision is not Decision.ALLOW:
            return failure(Refused.code, verdict.why, _NONE)
        call_log = CallLog(tool.contract, call, self._clock)
        call_log.started()
        result = await self._result(tool, _UnderWay(call, (*outer.path, name)), checked)
        call_log.ended(result)
        return result

    async def _result(self, tool: Tool, under_way: _UnderWay, arguments: Any) -> ToolResult:
        name = tool.contract.name
        try:
            async with asyncio.timeout(bound_s(tool)):
                value = await _within(under_way, tool, arguments)
            return success(self._toolbox.check_result(name, value), _NONE)
        except TimeoutError:
            return failure(TIMEOUT, f"{name} took too long", _NONE)
        except RecursiveCallPrevented:  # a mistake in how the tools are put together: the outermost call says so
            raise
        except FloorhandError as error:
            return failure_of(error, _NONE)


async def _within(under_way: _UnderWay, tool: Tool, arguments: Any) -> Mapping[str, Any]:
    token = _under_way.set(under_way)
    try:
        return await tool.run(under_way.call, arguments)
    finally:
        _under_way.reset(token)


def give_callers(toolbox: Toolbox, clock: Clock, approvals: Approver) -> None:
    """Hand every tool that calls others its caller. To be done once, before any of them is called. One of another package that
    breaks over it has no caller, and fails when it is called."""
    for name in toolbox.names:
        tool = toolbox.find(name)
        if is_composed(tool):
            try:
                tool.uses(NestedCalls(name, toolbox, clock, approvals))
            except FloorhandError as error:
                log.warning("tool.has_no_caller", extra={"tool": name, "why": error.message})
