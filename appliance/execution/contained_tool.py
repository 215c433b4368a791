"""A tool of another package at its calls: whatever breaks in it becomes one of the errors a step may end with, and no more."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any

from appliance.contracts.errors import FloorhandError, Refused, Unavailable, Uncertain
from appliance.contracts.tool import AccessLevel, ToolContract
from appliance.execution.tool_probe import why_of

_IN_DOUBT: Mapping[str, Callable[[str], Any]] = {  # what a broken answer counts as: the safe side
    "not_ready": lambda why: why,
    "level_of": lambda _: AccessLevel.CRITICAL,
}


class ContainedTool:
    """Has every method that ``inner`` has, and no other."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.contract: ToolContract = inner.contract

    def __getattr__(self, name: str) -> Any:
        member = getattr(self._inner, name)
        if not callable(member):
            return member
        return self._awaited(name, member) if inspect.iscoroutinefunction(member) else self._called(name, member)

    def _awaited(self, name: str, member: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(member)
        async def contained(*arguments: Any) -> Any:
            try:
                value = await member(*arguments)
            except (FloorhandError, TimeoutError):
                raise
            except (Exception, SystemExit) as error:
                raise self._error(name, why_of(error)) from error
            if name == "run" and not isinstance(value, Mapping):
                raise self._error(name, f"it returned a {type(value).__name__} and no result")
            return value

        return contained

    def _called(self, name: str, member: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(member)
        def contained(*arguments: Any) -> Any:
            try:
                return member(*arguments)
            except (Exception, SystemExit) as error:
                if name not in _IN_DOUBT:
                    raise self._error(name, why_of(error)) from error
                return _IN_DOUBT[name](f"{self.contract.name} broke: {why_of(error)}")

        return contained

    def _error(self, name: str, why: str) -> FloorhandError:
        """Return what a fault of the tool's program means: the effect may have happened, or nothing did and nothing will."""
        told = f"{self.contract.name} broke: {why}"
        if name == "verify":
            return Unavailable(told, retry_after_s=5.0)
        if name == "restore" or (name == "run" and self.contract.has_effect):
            return Uncertain(told)
        return Refused(told)
