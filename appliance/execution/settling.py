"""Finding out what became of an effect nobody is sure of, by the tool's own ``verify``. The call is never made again here.

In: a call that was made, or may have been. Out: a result whose disposition says what was found.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any

from pydantic import BaseModel

from appliance.contracts.errors import FloorhandError, ToolValidationError, Unavailable
from appliance.contracts.store import Transaction
from appliance.contracts.tool import EffectDisposition, ToolCall, ToolResult, VerifiableTool
from appliance.execution.calling import Bell, Calls
from appliance.execution.results import TIMEOUT, failure, failure_of, plain, success
from appliance.execution.toolbox.toolbox import AnyTool, Toolbox, bound_s, is_verifiable
from appliance.foundation.backoff import delays_s
from appliance.foundation.supervisor import Faults
from appliance.store import effects

PATIENCE_S = 60.0  # a restarted core finds its field bus within seconds; a person should not wait longer than this
_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.25, 8.0


def verify_waits() -> Iterator[float]:
    """Yield the pauses between checks: a quarter of a second doubling to 8 s, about a minute in all."""
    waited_s = 0.0
    for pause_s in delays_s(_FIRST_WAIT_S, _LONGEST_WAIT_S):
        waited_s += pause_s
        if waited_s > PATIENCE_S:
            return
        yield pause_s


def believed(tx: Transaction, tool: AnyTool, action_id: str, found: ToolResult) -> ToolResult:
    """Return what checking found, or that it is unknown because something else may have been written over it since."""
    argument = tool.contract.overwrites
    if argument and found.disposition is not EffectDisposition.UNKNOWN and effects.is_overwritten(tx, action_id, argument):
        return failure("uncertain", f"another call of {tool.contract.name} came in between", EffectDisposition.UNKNOWN)
    return found


class Settling:
    """Finds out what happened."""

    def __init__(self, toolbox: Toolbox, calls: Calls, faults: Faults) -> None:
        self._toolbox = toolbox
        self._calls = calls
        self._faults = faults

    async def check(self, call: ToolCall, bell: Bell, waits: Callable[[], Iterable[float]]) -> ToolResult:
        """Ask the tool; ``waits`` yields the pauses while the evidence cannot be had, then ends.

        Raises:
            Stopped: somebody wants the turn, or this step of it, to stop.
        """
        try:
            tool: AnyTool = self._toolbox.find(call.tool)
            arguments = self._toolbox.check_arguments(call.tool, call.arguments)
        except ToolValidationError as error:  # the tool is gone, or takes other arguments than when it was called
            return failure_of(error, EffectDisposition.UNKNOWN)
        if not is_verifiable(tool):
            return failure("uncertain", f"{call.tool} cannot find out what happened", EffectDisposition.UNKNOWN)
        return await self._verify(tool, call, arguments, bell, iter(waits()))

    async def _verify(
        self, tool: VerifiableTool, call: ToolCall, arguments: BaseModel, bell: Bell, waits: Iterator[float]
    ) -> ToolResult:
        while True:
            try:
                checking = partial(tool.verify, call, arguments)
                contained = self._faults.contained_in_call(checking)
                disposition, evidence = await self._calls.within(call.tool, contained, bound_s(tool), bell)
                return self._found(call.tool, disposition, evidence)
            except TimeoutError:
                result = failure(TIMEOUT, "checking took too long", EffectDisposition.UNKNOWN)
            except Unavailable as error:
                result = failure_of(error, EffectDisposition.UNKNOWN)
            except FloorhandError as error:
                return failure_of(error, EffectDisposition.UNKNOWN)
            pause_s = next(waits, None)
            if pause_s is None:
                return result
            await self._calls.within("pause", asyncio.sleep(pause_s), None, bell)

    def _found(self, name: str, disposition: EffectDisposition, evidence: Mapping[str, Any]) -> ToolResult:
        match disposition:
            case EffectDisposition.APPLIED:
                return success(self._toolbox.check_result(name, evidence), disposition)
            case EffectDisposition.NONE:
                shown = plain(evidence)
                return ToolResult(False, shown, disposition, "not_applied", "checking found that it did not happen")
            case EffectDisposition.UNKNOWN:
                return failure("uncertain", "checking did not tell whether it happened", disposition)
