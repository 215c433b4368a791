"""The log events round one call: names from the tool's contract, duration, digest of the redacted input, error code."""

from __future__ import annotations

import logging
from typing import Any

from appliance.contracts.clock import Clock
from appliance.contracts.tool import ToolCall, ToolContract, ToolResult
from appliance.foundation.canonical import digest

log = logging.getLogger(__name__)


class CallLog:
    """Logs one call from start to end. Arguments themselves are never logged."""

    def __init__(self, contract: ToolContract, call: ToolCall, clock: Clock) -> None:
        self._contract = contract
        self._call = call
        self._clock = clock
        self._started_ns: int | None = None

    def started(self) -> None:
        """Log the beginning."""
        self._started_ns = self._clock.monotonic_ns()
        if log.isEnabledFor(logging.INFO):
            log.info(self._contract.telemetry.on_start, extra=self._facts())

    def ended(self, result: ToolResult) -> None:
        """Log the end, well or not; a call that was refused before it began took no time."""
        level = logging.INFO if result.ok else logging.WARNING
        if not log.isEnabledFor(level):
            return
        now_ns = self._clock.monotonic_ns()
        duration_ms = round((now_ns - (self._started_ns or now_ns)) / 1e6, 1)
        facts = {**self._facts(), "duration_ms": duration_ms, "effect_disposition": str(result.disposition)}
        if result.ok:
            log.info(self._contract.telemetry.on_success, extra=facts)
        else:
            log.warning(self._contract.telemetry.on_failure, extra={**facts, "error_code": result.error_code})

    def _facts(self) -> dict[str, Any]:
        redact = self._contract.telemetry.redact
        redacted = {k: "redacted" if k in redact else v for k, v in self._call.arguments.items()}
        return {"tool": self._contract.name, "action": self._call.action_id, "input_digest": digest(redacted)}
