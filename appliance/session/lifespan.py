"""How long a turn may run (requirements S2). Pure."""

from __future__ import annotations

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


def remaining_s(settings: SessionSettings, *, tool_calls: int, pending_confirmations: int, spent_s: float) -> float:
    """Return what is left of the allowance after ``spent_s`` seconds of running, never below zero."""
    return max(0.0, allowance_s(settings, tool_calls=tool_calls, pending_confirmations=pending_confirmations) - spent_s)
