"""A tool that does not answer in time, again and again, is left alone for a short while; every other tool goes on (FC-A02).

Nothing is unregistered and nothing outlives the process: after the pause the next call is made, and decides.
"""

from __future__ import annotations

import logging
import math

from appliance.contracts.clock import Clock
from appliance.contracts.errors import Unavailable

log = logging.getLogger(__name__)

TIMEOUTS_IN_A_ROW = 3
COOL_DOWN_S = 15.0
"""A restarted server is back within seconds, and a person who asks again should not wait for longer."""


def left_alone(tool: str, why: str) -> Unavailable:
    """Return what a call of a tool ends with that is left alone for a while. ``why`` is for records."""
    return Unavailable(why, retry_after_s=COOL_DOWN_S).worded("tool_left_alone", tool=tool)


class ToolBreaker:
    """Counts time-outs in a row, tool by tool."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._timeouts: dict[str, int] = {}
        self._cold_until_ns: dict[str, int] = {}

    def timed_out(self, tool: str) -> None:
        """Count a call that did not answer in time."""
        count = self._timeouts[tool] = self._timeouts.get(tool, 0) + 1
        if count >= TIMEOUTS_IN_A_ROW:
            if tool not in self._cold_until_ns:
                log.warning("tool.cooling_down", extra={"tool": tool, "timeouts": count, "for_s": COOL_DOWN_S})
            self._cold_until_ns[tool] = self._clock.monotonic_ns() + int(COOL_DOWN_S * 1e9)

    def answered(self, tool: str) -> None:
        """Forget what was, since a call was answered, well or not."""
        if self._timeouts.pop(tool, 0) and self._cold_until_ns.pop(tool, None) is not None:
            log.info("tool.answers_again", extra={"tool": tool})

    def why_not(self, tool: str) -> str:
        """Return why a call is not made now, in words fit to be spoken; empty when it is made."""
        cold_until_ns = self._cold_until_ns.get(tool)
        if cold_until_ns is None or (left_ns := cold_until_ns - self._clock.monotonic_ns()) <= 0:
            return ""
        return f"{tool} took too long {TIMEOUTS_IN_A_ROW} times in a row; try again in {math.ceil(left_ns / 1e9)} seconds"
