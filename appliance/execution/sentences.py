"""What execution itself has to say: that a step failed, and what became of an effect nobody is sure of."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from appliance.contracts.errors import FloorhandError, Malformed
from appliance.contracts.hold import HoldSource
from appliance.contracts.ports import Wording
from appliance.contracts.tool import ToolResult
from appliance.execution.results import NEEDS_YES
from appliance.foundation.sentence import capital, ended
from appliance.foundation.untrusted import clean

ON_HOLD = "on_hold"
"""Error code of a call that was not made because the appliance is on hold; the result's value says who holds and why."""

_FAILED = {
    "unavailable": "failed_unavailable",
    "storage_full": "failed_storage",
    "timeout": "failed_timeout",
    "malformed": "failed_malformed",
    "tool_validation": "failed_malformed",
    "uncertain": "failed_uncertain",
    "corrupt": "failed_corrupt",
    "broken_result": "failed_broken",
    "blocked": "failed_blocked",
    "halted": "failed_halted",
    "not_applied": "failed_not_applied",
    "interrupted": "failed_interrupted",
    NEEDS_YES: "failed_needs_yes",
}
"""Error code -> reply; every other code is a refusal."""
IN_PLAN = frozenset({"malformed", "tool_validation"})
"""Codes of mistakes in the plan itself: nobody can say it otherwise, but it can be looked at."""
_FIRST_CJK = "\u2e80"
_LONGEST_WHY = 400  # characters of a message nobody worded; more is not followed by a listener


class Sentences:
    """The sentences of one language."""

    def __init__(self, wording: Wording, language: str) -> None:
        self._wording = wording
        self._language = language

    def step_failed(self, result: ToolResult, tool: str) -> str:
        """Say that a step the turn needs was not done, and why. ``tool`` is the step's."""
        if result.error_code == ON_HOLD:
            return self.on_hold(result.value)
        why = self.reason(result.reply, result.words, result.error)
        if result.error_code in IN_PLAN and not result.reply:  # what it says is for who wrote the plan
            why = capital(self._wording.reply("plan_step_wrong", self._language, what=self._what(tool)))
        return self._wording.reply(_FAILED.get(result.error_code, "failed_refused"), self._language, why=why)

    def why(self, error: FloorhandError) -> str:
        """Return the reason that one of our errors gives, as a sentence."""
        return self.reason(error.reply, error.words, error.message)

    def reason(self, reply: str, words: Mapping[str, Any], message: str) -> str:
        """Return the sentence of a reply that a refusal named; its ``message`` when it named none, or this language has none.
        A word ``tool`` is the name of a tool: its reply may also say ``what`` that does."""
        said = clean(message, _LONGEST_WHY)
        if reply:
            what = {"what": self._what(str(words["tool"]))} if "tool" in words else {}
            with suppress(Malformed):  # a language without phrases: it is said as it was written
                said = self._wording.reply(reply, self._language, **{**words, **what})
        is_chinese = any(letter >= _FIRST_CJK for letter in said)  # in which a name at the beginning stays as it is
        return ended(said if is_chinese else capital(said))

    def see_turn(self, turn_id: str) -> str:
        """Say to who types where all of it can be read."""
        return self._wording.reply("see_turn", self._language, turn=turn_id)

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
        return self._wording.reply(reply, self._language, what=arguments.get("what") or self._what(tool))

    def _what(self, tool: str) -> str:
        try:
            return self._wording.reply(f"what_{tool}", self._language)
        except Malformed:  # a tool of another package; having no word for it must keep nothing from being recorded
            return tool.replace("_", " ")
