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
        self._clock = clock
        self._started_ns = clock.monotonic_ns()
        redacted = {k: "redacted" if k in contract.telemetry.redact else v for k, v in call.arguments.items()}
        self._facts: dict[str, Any] = {"tool": contract.name, "action": call.action_id, "input_digest": digest(redacted)}

    def started(self) -> None:
        """Log the beginning."""
        log.info(self._contract.telemetry.on_start, extra=self._facts)

    def ended(self, result: ToolResult) -> None:
        """Log the end, well or not."""
        duration_ms = round((self._clock.monotonic_ns() - self._started_ns) / 1e6, 1)
        facts = {**self._facts, "duration_ms": duration_ms, "effect_disposition": str(result.disposition)}
        if result.ok:
            log.info(self._contract.telemetry.on_success, extra=facts)
        else:
            log.warning(self._contract.telemetry.on_failure, extra={**facts, "error_code": result.error_code})
