"""When the ledger of deliveries itself fails: counted, named while it lasts, logged once when it begins and once when it is over.

What was said or sent has no receipt on disk until then, and nothing new is begun. One is shared by all channels.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping
from typing import Any

from appliance.foundation.supervisor import Degraded

log = logging.getLogger(__name__)

PART = "deliveries"


class LedgerFailures:
    """The failures of all channels since this process started."""

    def __init__(self, degraded: Degraded) -> None:
        self._degraded = degraded
        self._failures: Counter[str] = Counter()
        self._lasting: dict[str, str] = {}

    def failed(self, channel: str, why: str) -> None:
        """Count that something of a channel could not be written."""
        self._failures[channel] += 1
        if channel not in self._lasting:
            log.error("delivery.waits_for_ledger", extra={"channel": channel, "why": why})
        self._lasting[channel] = why
        self._name()

    def written(self, channel: str) -> None:
        """Say that the channel can write again."""
        if self._lasting.pop(channel, None) is not None:
            log.info("delivery.ledger_back", extra={"channel": channel, "failures": self._failures[channel]})
            self._name()

    def as_facts(self) -> Mapping[str, Any]:
        """Return how often writing failed by channel, and which channels wait for it now."""
        return {"failures": dict(self._failures), "waiting": sorted(self._lasting)}

    def _name(self) -> None:
        if self._lasting:
            channels = ", ".join(sorted(self._lasting))
            self._degraded.mark(
                PART, f"what is said and sent cannot be recorded ({channels}): {next(iter(self._lasting.values()))}"
            )
        else:
            self._degraded.clear(PART)
