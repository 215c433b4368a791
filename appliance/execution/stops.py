"""What is kept of a step that somebody stopped: as the result of its action, so that a plan and a restart can tell."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from appliance.contracts.interrupt import Cause, Interrupt
from appliance.contracts.plan import Action
from appliance.contracts.tool import EffectDisposition, ToolResult

STOPPED = "stopped"
"""Error code of a step that was not done, or not finished, because its turn was stopped."""
CANCELLED = "cancelled"
"""Error code of a step that was cancelled by itself, and of those that need its result. The plan goes on without them."""


def result_of(wish: Interrupt, disposition: EffectDisposition) -> ToolResult:
    """Return the result of a step that ``wish`` ended; its value tells whose wish it was."""
    code = STOPPED if wish.action_id is None else CANCELLED
    by = "" if not wish.by else f" by {wish.by}"
    reason = "" if not wish.reason else f": {wish.reason}"
    told = {"cause": str(wish.cause), "by": wish.by, "reason": wish.reason}
    return ToolResult(False, told, disposition, code, f"{code}{by}{reason}")


def code_of(action: Action) -> str:
    """Return the error code kept with an action, empty if there is none."""
    return str((action.result or {}).get("error_code") or "")


def whose(kept: Mapping[str, Any]) -> tuple[Cause, str, str]:
    """Return cause, person and reason from what :func:`result_of` left in an action's result."""
    return Cause(kept["cause"]), str(kept["by"]), str(kept["reason"])
