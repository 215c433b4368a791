"""What becomes of an effect nobody is sure of: said to be unknown, checked, and settled by evidence or left to a person.

The call is never made again here. The same way is gone after a restart and in the process that made the call.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from pydantic import BaseModel

from appliance.contracts.effect import EffectStatus
from appliance.contracts.errors import FloorhandError, ToolValidationError, Unavailable
from appliance.contracts.plan import Action
from appliance.contracts.ports import Wording
from appliance.contracts.tool import EffectDisposition, ToolCall, ToolResult, VerifiableTool
from appliance.contracts.turn import Turn
from appliance.execution.journal import Journal, Saying
from appliance.execution.results import TIMEOUT, failure, failure_of, plain, success
from appliance.execution.sentences import Sentences
from appliance.execution.toolbox import AnyTool, Toolbox, is_verifiable, record_of
from appliance.foundation.backoff import delays_s

PATIENCE_S = 60.0  # a restarted core finds its field bus within seconds; a person should not wait longer than this
_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.25, 8.0

CHECKING, GIVEN_UP = "checking", "given up"


def verify_waits() -> Iterator[float]:
    """Yield the pauses between checks: a quarter of a second doubling to 8 s, about a minute in all."""
    waited_s = 0.0
    for pause_s in delays_s(_FIRST_WAIT_S, _LONGEST_WAIT_S):
        waited_s += pause_s
        if waited_s > PATIENCE_S:
            return
        yield pause_s


class Settling:
    """Finds out what happened. ``waits`` yields the pauses while the evidence cannot be had, then ends."""

    def __init__(
        self, journal: Journal, toolbox: Toolbox, wording: Wording, waits: Callable[[], Iterable[float]] = verify_waits
    ) -> None:
        self._journal = journal
        self._toolbox = toolbox
        self._wording = wording
        self._waits = waits

    async def declare_unknown(self, turn: Turn, action: Action, arguments: Mapping[str, Any], error: str) -> Action:
        """Record and say that it is not known whether the effect happened."""
        result = failure("uncertain", error, EffectDisposition.UNKNOWN)
        saying = Saying(turn, Sentences(self._wording, turn.language).effect_unknown(action.tool, arguments))
        announced = (action.result or {}).get("announced")
        return await self._journal.unknown(action, result, GIVEN_UP if announced == GIVEN_UP else CHECKING, saying)

    async def settle(self, turn: Turn, action: Action, call: ToolCall) -> Action:
        """Check an effect that was declared unknown and record what was found."""
        found = await self._check(action.tool, call)
        sentences = Sentences(self._wording, turn.language)
        match found.disposition:
            case EffectDisposition.APPLIED:
                saying = Saying(turn, sentences.effect_applied(action.tool, call.arguments))
                record = record_of(self._toolbox.find(action.tool), call, found.value)
                return await self._journal.conclude(
                    action, EffectStatus.APPLIED, found, by="verify", saying=saying, record=record
                )
            case EffectDisposition.NONE:
                saying = Saying(turn, sentences.effect_not_applied(action.tool, call.arguments))
                return await self._journal.conclude(action, EffectStatus.NONE, found, by="verify", saying=saying)
            case EffectDisposition.UNKNOWN:
                saying = Saying(turn, sentences.effect_still_unknown(action.tool, call.arguments))
                return await self._journal.unknown(action, found, GIVEN_UP, saying)

    async def _check(self, name: str, call: ToolCall) -> ToolResult:
        try:
            tool: AnyTool = self._toolbox.find(name)
            arguments = self._toolbox.check_arguments(name, call.arguments)
        except ToolValidationError as error:  # the tool is gone, or takes other arguments than when it was called
            return failure_of(error, EffectDisposition.UNKNOWN)
        if not is_verifiable(tool):
            return failure("uncertain", f"{name} cannot find out what happened", EffectDisposition.UNKNOWN)
        return await self._verify(tool, call, arguments)

    async def _verify(self, tool: VerifiableTool, call: ToolCall, arguments: BaseModel) -> ToolResult:
        waits = iter(self._waits())
        while True:
            try:
                async with asyncio.timeout(tool.contract.sla.max_execution_time_ms / 1000):
                    disposition, evidence = await tool.verify(call, arguments)
                return self._found(tool.contract.name, disposition, evidence)
            except TimeoutError:
                result = failure(TIMEOUT, "checking took too long", EffectDisposition.UNKNOWN)
            except Unavailable as error:
                result = failure_of(error, EffectDisposition.UNKNOWN)
            except FloorhandError as error:
                return failure_of(error, EffectDisposition.UNKNOWN)
            pause_s = next(waits, None)
            if pause_s is None:
                return result
            await asyncio.sleep(pause_s)

    def _found(self, name: str, disposition: EffectDisposition, evidence: Mapping[str, Any]) -> ToolResult:
        match disposition:
            case EffectDisposition.APPLIED:
                return success(self._toolbox.check_result(name, evidence), disposition)
            case EffectDisposition.NONE:
                shown = plain(evidence)
                return ToolResult(False, shown, disposition, "not_applied", "checking found that it did not happen")
            case EffectDisposition.UNKNOWN:
                return failure("uncertain", "checking did not tell whether it happened", disposition)
