"""A tool that runs in a process of its own, as the core sees it (S6): for what may block, crash, or ignore that it is stopped."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, ClassVar

from appliance.contracts.errors import Corrupt, FloorhandError, Unavailable, Uncertain
from appliance.contracts.tool import EffectDisposition, Tool, ToolCall, ToolContract
from appliance.execution.workers.tool_worker import KINDS
from appliance.execution.workers.warden import Warden, Word
from appliance.execution.workers.warden_words import Ended


def in_own_process(kind: type[Tool], init: Mapping[str, Any], warden: Warden) -> ProcessTool:
    """Return the tool of a class whose contract says ``Isolation.PROCESS``. ``init`` are its keyword arguments, as JSON has them.

    The worker imports the class by its name. Its ``run`` and ``verify`` are called there, each time on a new instance.
    """
    return (VerifiableProcessTool if hasattr(kind, "verify") else ProcessTool)(kind, init, warden)


class ProcessTool:
    """Has each call made by a worker, which the warden kills at the contract's bound."""

    contract: ClassVar[ToolContract]

    def __init__(self, kind: type[Tool], init: Mapping[str, Any], warden: Warden) -> None:
        """See :func:`in_own_process`."""
        self.contract = kind.contract  # type: ignore[misc]  # each instance stands for a class of its own
        self._where = f"{kind.__module__}:{kind.__qualname__}"
        self._init = dict(init)
        self._warden = warden
        warden.expect(kind.__module__)

    async def run(self, call: ToolCall, arguments: Any) -> Mapping[str, Any]:
        """Do it once.

        Raises:
            TimeoutError: it was killed at its bound.
            Uncertain: the worker or the warden died, or said nothing that makes sense, and the call may have had its effect.
            Unavailable: the same of a tool without effect.
            FloorhandError: what the tool itself raised.
        """
        said = await self._said("run", call, self.contract.has_effect)
        value: Mapping[str, Any] = said["value"]
        return value

    async def _said(self, what: str, call: ToolCall, may_have_happened: bool) -> Mapping[str, Any]:
        try:
            told = {
                **asdict(call),
                "arguments": dict(call.arguments),
                "context": dict(call.context),
                "principal": call.principal.to_json(),
            }
            word = await self._warden.call(what, self._where, self._init, told, self.contract.sla.max_execution_time_ms)
        except Unavailable as error:
            if may_have_happened and error.facts.get("may_have_begun"):
                raise Uncertain(error.message) from error
            error.worded("tool_at_fault", tool=self.contract.name)
            raise
        said = _understood(word)
        if isinstance(said, str):
            kind = Uncertain if may_have_happened else Unavailable
            raise kind(f"{self.contract.name} {said}").worded("tool_at_fault", tool=self.contract.name)
        return said


class VerifiableProcessTool(ProcessTool):
    """The same of a tool that can find out later what happened."""

    async def verify(self, call: ToolCall, arguments: Any) -> tuple[EffectDisposition, Mapping[str, Any]]:
        """Find out what happened.

        Raises:
            TimeoutError: it was killed at its bound.
            Unavailable: the evidence cannot be had now.
        """
        said = await self._said("verify", call, may_have_happened=False)
        try:
            return EffectDisposition(said["disposition"]), said["value"]
        except (KeyError, ValueError, TypeError) as error:
            raise Corrupt(f"{self.contract.name} did not say what it found") from error


def _understood(word: Word) -> Mapping[str, Any] | str:
    """Return what a worker said, or why that is nothing.

    Raises:
        FloorhandError: it said that.
        TimeoutError: it was killed at its bound, or says that something took too long.
        CancelledError: it was stopped, and said no more than that.
    """
    match word.ended:
        case Ended.TIMEOUT:
            raise TimeoutError
        case Ended.FLOOD:
            return "said more than can be kept"
        case Ended.STOPPED | Ended.ITSELF:
            pass
    try:
        said = json.loads(word.said)
    except (ValueError, RecursionError):  # whoever runs there can write anything
        said = None
    match said:
        case {"value": {}}:
            return dict(said)
        case {"error": str(code), "message": str(message)} if code in KINDS:
            raise _error(KINDS[code], message, said)
        case {"timeout": True}:
            raise TimeoutError
        case {"cancelled": True}:
            raise asyncio.CancelledError
        case {"fault": str(fault)}:
            return f"broke: {fault}"
        case None if word.ended is Ended.STOPPED:
            raise asyncio.CancelledError
        case None if word.why:
            return f"died: {word.why}"
        case _:
            return "said nothing that makes sense"


def _error(kind: type[FloorhandError], message: str, said: Mapping[str, Any]) -> FloorhandError:
    if issubclass(kind, Unavailable):
        after_s = said.get("retry_after_s")
        return kind(message, retry_after_s=after_s if isinstance(after_s, int | float) and after_s > 0 else 1.0)
    return kind(message)
