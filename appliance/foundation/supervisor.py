"""Keeps optional services running: restarts with backoff, names what is degraded."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from appliance.contracts.clock import Clock
from appliance.foundation.backoff import delays_s

log = logging.getLogger(__name__)

_RECOVERED_AFTER_S = 10.0  # a service that was started again and still runs after this is no longer called degraded
_STEADY_S = 60.0  # a service that ran this long has recovered: its backoff starts anew


@dataclass(slots=True)
class Degraded:
    """Named reasons why the appliance is less than whole; shown by status and health.

    ``listeners`` are told of each change on the event loop: the part, and why (empty when it is whole again).
    """

    reasons: dict[str, str] = field(default_factory=dict)
    listeners: list[Callable[[str, str], None]] = field(default_factory=list)

    def mark(self, part: str, why: str) -> None:
        """Say that ``part`` is degraded, and why. Logged once per change."""
        if self.reasons.get(part) != why:
            self.reasons[part] = why
            log.warning("degraded", extra={"part": part, "why": why})
            self._tell(part, why)

    def clear(self, part: str) -> None:
        """Say that ``part`` is whole again."""
        if self.reasons.pop(part, None) is not None:
            log.info("recovered", extra={"part": part})
            self._tell(part, "")

    def _tell(self, part: str, why: str) -> None:
        for listener in self.listeners:
            listener(part, why)


async def supervise(name: str, run: Callable[[], Awaitable[None]], clock: Clock, degraded: Degraded) -> None:
    """Run an optional service for ever. When it fails or returns, mark it, wait (0.5 s doubling to 30 s), start it again.

    Cancellation passes through. This is the one place that catches every exception of a service.
    """
    waits = delays_s(0.5, 30.0)
    while True:
        started_ns = clock.monotonic_ns()
        recovering = asyncio.get_running_loop().call_later(_RECOVERED_AFTER_S, degraded.clear, name)
        try:
            await run()
            why = "ended"
        except Exception as error:  # a supervisor catches what it supervises, and says so
            log.exception("service.failed", extra={"service": name})
            why = f"{type(error).__name__}: {error}"
        finally:
            recovering.cancel()
        if clock.monotonic_ns() - started_ns > _STEADY_S * 1e9:
            waits = delays_s(0.5, 30.0)
        degraded.mark(name, why)
        await asyncio.sleep(next(waits))
