"""A tool of another package, behind the one wall through which everything of it goes: its methods, what they return, what they
raise. Whatever it does becomes one of the errors a step may end with, and no more.

What it raises reaches nobody as it is: it is told again in words that are text, as one of the errors a tool may raise. What it
returns is plain before anybody looks at it. In doubt a broken answer counts as what is safe: not ready, critical, uncertain.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from pydantic_core import to_jsonable_python

from appliance.contracts.errors import (
    Corrupt,
    Fault,
    FloorhandError,
    Malformed,
    RecursiveCallPrevented,
    Refused,
    Unavailable,
    Uncertain,
)
from appliance.contracts.tool import AccessLevel, EffectDisposition, ToolContract
from appliance.foundation.supervisor import contained, contained_call, why_of

METHODS = ("run", "apply", "verify", "snapshot", "restore", "not_ready", "level_of", "resources_of", "record_of", "uses")
"""All that the contracts know of a tool; it has no other here."""

_KINDS = (RecursiveCallPrevented, Refused, Malformed, Unavailable, Uncertain, Corrupt)
_LONGEST_RETRY_S = 3600.0


class ContainedTool:
    """Has the methods of ``inner`` that the contracts know, and no other. ``kind`` is its class, as its faults name it."""

    def __init__(self, inner: Any) -> None:
        """Looks at each member once: what a property raises, it raises here."""
        self._inner = inner
        self.contract: ToolContract = inner.contract
        found = {name: getattr(inner, name, None) for name in METHODS}
        self._broke: set[str] = set()  # methods that are asked again and again: the log has it once
        self._members = {name: member for name, member in found.items() if member is not None}

    def __getattr__(self, name: str) -> Any:
        member = self.__dict__.get("_members", {}).get(name)
        if member is None:
            raise AttributeError(name)
        if not callable(member):  # the check of contracts says so
            return member
        if inspect.iscoroutinefunction(member):
            return _awaiting(partial(self._awaited, name, member))
        return partial(self._called, name, member)

    async def _awaited(self, name: str, member: Callable[..., Any], *arguments: Any) -> Any:
        async def made() -> Any:
            return _plain(name, await member(*arguments))

        try:
            return await contained(made(), passing=(TimeoutError,), is_foreign=True)
        except TimeoutError:
            raise TimeoutError from None
        except FloorhandError as error:
            raise self._told(name, error) from error

    def _called(self, name: str, member: Callable[..., Any], *arguments: Any) -> Any:
        try:
            value = contained_call(lambda: _fit(name, member(*arguments)), is_foreign=True, is_known=name in self._broke)
            self._broke.discard(name)
            return value
        except FloorhandError as error:
            self._broke.add(name)
            told = self._told(name, error)
            match name:
                case "not_ready":
                    return told.message
                case "level_of":
                    return AccessLevel.CRITICAL
                case "resources_of":
                    return [self.contract.resource] if self.contract.resource else []
            raise told from error

    def _told(self, name: str, error: FloorhandError) -> FloorhandError:
        """Return an error of the tool as one of ours. A fault in its program means that an effect may have happened, else that
        nothing did and nothing will."""
        tool = self.contract.name
        if not isinstance(error, Fault):
            kind = next((each for each in _KINDS if isinstance(error, each)), Refused)
            message = error.message if type(error.message) is str else why_of(error)
            if issubclass(kind, Unavailable):
                return kind(message, retry_after_s=_seconds(error))
            return kind(message).worded("tool_at_fault", tool=tool) if kind is RecursiveCallPrevented else kind(message)
        broke = f"{tool} broke: {error.why}"
        if name == "verify":
            return Unavailable(broke, retry_after_s=5.0)
        if name == "restore" or (name == "run" and self.contract.has_effect):
            return Uncertain(broke)
        return Refused(broke).worded("tool_at_fault", tool=tool)


def _awaiting(call: Callable[..., Any]) -> Callable[..., Any]:
    async def method(*arguments: Any) -> Any:
        return await call(*arguments)

    return method


def _plain(name: str, value: Any) -> Any:
    """Return what an async method brought, as JSON has it; a snapshot is the tool's own, and goes back to it as it is."""
    match name:
        case "run":
            if not isinstance(value, Mapping):
                raise TypeError(f"it returned a {type(value).__name__} and no result")
            return dict(value)
        case "verify":
            disposition, evidence = value
            return EffectDisposition(disposition), dict(to_jsonable_python(dict(evidence)))
    return value


def _fit(name: str, value: Any) -> Any:
    """Return what a plain method brought, if it is of its kind."""
    wanted = {"not_ready": str, "level_of": AccessLevel}.get(name)
    if wanted is not None and not isinstance(value, wanted):
        raise TypeError(f"{name} returned a {type(value).__name__}")
    if name == "resources_of":
        if isinstance(value, str) or not all(isinstance(each, str) for each in value):
            raise TypeError(f"{name} returned no names")
        return list(value)
    return value


def _seconds(error: FloorhandError) -> float:
    told = getattr(error, "retry_after_s", 1.0)
    return min(float(told), _LONGEST_RETRY_S) if isinstance(told, int | float) and told > 0 else 1.0
