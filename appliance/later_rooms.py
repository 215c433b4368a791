"""Builds what outlives its turn: tickets for people, and checks that were asked for in advance. Read with ``app``."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from appliance.contracts.clock import Clock, IdSource
from appliance.contracts.ports import Admitter, Wording
from appliance.contracts.store import Ledger
from appliance.execution.tickets.escalation import Escalation
from appliance.execution.tickets.ticket_watch import TicketWatch
from appliance.intake.schedule_door import ScheduleDoor
from appliance.settings import Settings


class LaterRooms:
    """``takers`` are the webhooks that take tickets; ``said`` is called after words were queued, ``posted`` after messages to
    webhooks were."""

    def __init__(
        self,
        settings: Settings,
        ledger: Ledger,
        clock: Clock,
        ids: IdSource,
        gate: Admitter,
        wording: Wording,
        *,
        origin: str,
        takers: Sequence[str],
        said: Callable[[], None],
        posted: Callable[[], None],
    ) -> None:
        self.escalation = Escalation(
            clock, ids, wording,
            takers=takers, origin=origin, language=settings.language, public_url=settings.console.public_url,
        )  # fmt: skip
        self.tickets = TicketWatch(ledger, clock, self.escalation, settings.tickets, queued=posted, said=said)
        self.schedule = ScheduleDoor(ledger, gate, clock, ids, wording, said=said)

    def notify(self) -> None:
        """Tell that a turn may have opened a ticket or asked for a check, or that the clock was set. Cheap; after the commit."""
        self.tickets.notify()
        self.schedule.notify()
