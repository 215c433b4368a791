"""Builds what watches the appliance as a whole: hold, clock, audit log, leases, housekeeping. Read with ``app``.

Each is a service that looks by itself; none of them leads a turn.
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable
from typing import Any

from appliance.admission.session_keeper import SessionKeeper
from appliance.delivery.announcer import LOST_SENTENCES
from appliance.delivery.phrasing import Phrasing
from appliance.foundation.clock_steps import ClockSteps
from appliance.foundation.system_clock import kernel_clock_state
from appliance.health.attention import Attention
from appliance.health.audit_watch import AuditWatch
from appliance.health.clock_watch import ClockWatch
from appliance.holding import Holding
from appliance.opening import Opened
from appliance.session.lease_keeper import LeaseKeeper
from appliance.store import head_witness
from appliance.store.housekeeping import Housekeeping


class WatchRooms:
    """The watches of one core. ``queued`` is called after one of them queued words or a message; ``may_be_over`` says, once they
    run, whether what degrades a part may be over by now."""

    def __init__(
        self,
        opened: Opened,
        wording: Phrasing,
        stack: contextlib.AsyncExitStack,
        epoch: int,
        *,
        queued: Callable[[], None],
        may_be_over: Callable[[str], bool],
    ) -> None:
        settings, ledger, clock, ids = opened.settings, opened.ledger, opened.clock, opened.ids
        language, client_id = settings.language, settings.mqtt.client_id
        self.holding = Holding(
            ledger, clock, ids, wording,
            language=language, client_id=client_id, has_key=settings.gpio.key_switch is not None, queued=queued,
        )  # fmt: skip
        self.attention = Attention(
            ledger, clock, ids, wording, opened.degraded,
            sentences=LOST_SENTENCES, language=language, client_id=client_id, queued=queued, may_be_over=may_be_over,
        )  # fmt: skip
        steps = ClockSteps()
        stack.callback(steps.close)
        self.clock = ClockWatch(ledger, clock, opened.degraded, steps, can_ask=lambda: kernel_clock_state() is not None)
        self.audit = AuditWatch(ledger, opened.degraded, witnessed=lambda: head_witness.read(ledger.path))
        self.housekeeping = Housekeeping(ledger, clock)
        self._leases = LeaseKeeper(ledger, clock, ids, epoch)
        self._sessions = SessionKeeper(ledger, clock, idle_s=settings.session.idle_close_s)

    @property
    def services(self) -> dict[str, Callable[[], Awaitable[None]]]:
        """Name -> what runs for ever. The names are not those of degraded parts: a service that recovers clears its own."""
        return {
            "attention": self.attention.run,
            "clock watch": self.clock.run,
            "audit watch": self.audit.run,
            "housekeeping": self.housekeeping.run,
            "leases": self._leases.run,
            "sessions": self._sessions.run,
        }

    @property
    def facts(self) -> dict[str, Callable[[], Any]]:
        """What status shows of them."""
        return {
            "hold": self.holding.facts,
            "clock": self.clock.facts,
            "audit": self.audit.facts,
            "housekeeping": self.housekeeping.facts,
            "degraded_s": self.attention.degraded_s,
            "needs_attention": self.attention.needs_attention,
        }
