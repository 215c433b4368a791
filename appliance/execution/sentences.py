"""What execution itself has to say: that a step failed, and what became of an effect nobody is sure of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from appliance.contracts.errors import Malformed
from appliance.contracts.hold import HoldSource
from appliance.contracts.ports import Wording
from appliance.contracts.tool import ToolResult
from appliance.execution.results import NEEDS_YES

ON_HOLD = "on_hold"
"""Error code of a call that was not made because the appliance is on hold; the result's value says who holds and why."""

_FAILED = {
    "unavailable": "failed_unavailable",
    "storage_full": "failed_unavailable",
    "timeout": "failed_timeout",
    "malformed": "failed_malformed",
    "tool_validation": "failed_malformed",
    "uncertain": "failed_uncertain",
    "corrupt": "failed_corrupt",
    "broken_result": "failed_broken",
    "blocked": "failed_blocked",
    "halted": "failed_halted",
    NEEDS_YES: "failed_needs_yes",
}
"""Error code -> reply; every other code is a refusal."""


class Sentences:
    """The sentences of one language."""

    def __init__(self, wording: Wording, language: str) -> None:
        self._wording = wording
        self._language = language

    def step_failed(self, result: ToolResult) -> str:
        """Say that a step the turn needs was not done, and why."""
        if result.error_code == ON_HOLD:
            return self.on_hold(result.value)
        name = _FAILED.get(result.error_code, "failed_refused")
        return self._wording.reply(name, self._language, why=result.error)

    def effect_unknown(self, tool: str, arguments: Mapping[str, Any]) -> str:
        """Say that it is not known whether something happened, and that it is being checked."""
        return self._about("effect_unknown", tool, arguments)

    def effect_applied(self, tool: str, arguments: Mapping[str, Any]) -> str:
        """Say that checking found it done."""
        return self._about("effect_applied", tool, arguments)

    def effect_not_applied(self, tool: str, arguments: Mapping[str, Any]) -> str:
        """Say that checking found it not done, and that it will not be repeated unasked."""
        return self._about("effect_not_applied", tool, arguments)

    def effect_still_unknown(self, tool: str, arguments: Mapping[str, Any]) -> str:
        """Say that checking did not help and a person has to settle it."""
        return self._about("effect_still_unknown", tool, arguments)

    def effect_stopped(self, tool: str, arguments: Mapping[str, Any]) -> str:
        """Say that something was stopped that may have happened already, and that a person has to look."""
        return self._about("effect_stopped", tool, arguments)

    def effect_done(self, tool: str, arguments: Mapping[str, Any]) -> str:
        """Say that something had been done when the work that would have told of it ended."""
        return self._about("effect_done", tool, arguments)

    def on_hold(self, hold: Mapping[str, Any]) -> str:
        """Say that the appliance is on hold, by whom, and why if that is known. ``hold``: ``source``, ``by``, ``reason``."""
        is_key = hold["source"] == HoldSource.KEY_SWITCH
        who = self._wording.reply("the_key_switch", self._language) if is_key else hold["by"]
        why = str(hold["reason"]).rstrip(" .。")
        return self._wording.reply("failed_held_why" if why else "failed_held", self._language, who=who, why=why)

    def _about(self, reply: str, tool: str, arguments: Mapping[str, Any]) -> str:
        """Name the effect by its ``what`` argument, else by the tool's own reply ``what_<tool>``, else by the tool's name."""
        what = arguments.get("what")
        if not what:
            try:
                what = self._wording.reply(f"what_{tool}", self._language)
            except Malformed:  # not having a word for it must not keep an unknown from being recorded
                what = tool.replace("_", " ")
        return self._wording.reply(reply, self._language, what=what)
