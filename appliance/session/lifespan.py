"""How long a turn may run (requirements S2). Pure."""

from __future__ import annotations

from appliance.contracts.errors import Refused
from appliance.session.settings import SessionSettings


def allowance_s(settings: SessionSettings, *, tool_calls: int, pending_confirmations: int) -> float:
    """Return ``base * 0.8**tool_calls * 1.5**pending_confirmations`` in seconds, never below the floor.

    The base is 300 s for a conversation, 120 s once a tool has run and 600 s while an answer is awaited.
    """
    if pending_confirmations:
        base_s = settings.base_confirm_s
    elif tool_calls:
        base_s = settings.base_tool_s
    else:
        base_s = settings.base_conversation_s
    grown_s = base_s * settings.tool_factor**tool_calls * settings.confirm_factor**pending_confirmations
    return max(settings.floor_s, grown_s)


def longest_s(settings: SessionSettings) -> float:
    """Return the longest allowance a turn can have, in seconds: while it waits for one answer, unless a base is longer."""
    asking = allowance_s(settings, tool_calls=0, pending_confirmations=1)
    return max(asking, settings.base_conversation_s, settings.base_tool_s, settings.floor_s)


def shortfall(settings: SessionSettings, estimate_s: float, left_s: float) -> Refused | None:
    """Return why a plan of this estimate may not begin with ``left_s`` left (S8), with its numbers; None if it may."""
    needed_s = settings.plan_reserve * estimate_s
    if left_s > needed_s:
        return None
    return Refused(
        f"the plan needs {needed_s:.1f} s, {settings.plan_reserve:g} times its estimate of {estimate_s:.1f} s,"
        f" and the turn has {left_s:.1f} s left",
        needed_s=needed_s,
        left_s=left_s,
    ).worded("no_time_left", needed=_seconds(needed_s), left=_seconds(left_s))


def _seconds(value: float) -> dict[str, object]:
    """Return a time as a quantity, as it is said."""
    return {"value": round(value), "unit": "s"}


def remaining_s(settings: SessionSettings, *, tool_calls: int, pending_confirmations: int, spent_s: float) -> float:
    """Return what is left of the allowance after ``spent_s`` seconds of running, never below zero."""
    return max(0.0, allowance_s(settings, tool_calls=tool_calls, pending_confirmations=pending_confirmations) - spent_s)
