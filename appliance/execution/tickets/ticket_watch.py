"""Closes tickets: by a person's word, because the same call works again, or because nobody cared in time (T5).

Nothing is polled: it sleeps until the next limit of an open ticket, and looks when told that something may have been opened. Time
is the monotonic clock's within a boot; across boots wall time counts only if it was disciplined at both ends, else the time since
this start.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Mapping
from typing import Any

from appliance.contracts.clock import Clock
from appliance.contracts.errors import Refused, Unavailable
from appliance.contracts.store import Ledger, Transaction
from appliance.contracts.ticket import Ticket, TicketStatus
from appliance.execution.tickets.escalation import Escalation
from appliance.execution.tickets.settings import TicketSettings
from appliance.foundation.lookout import Lookout
from appliance.store import tickets

log = logging.getLogger(__name__)

_ITSELF = "floorhand"
_WORKS_AGAIN = "the same call has worked since"
_ASK_LEDGER_AGAIN_S = 10.0  # while the card is full: a ticket a little late harms nobody


class TicketWatch:
    """Service; implements ``contracts.ticket_acts.TicketActs``. ``queued`` is called after messages to webhooks were queued,
    ``said`` after words were."""

    def __init__(
        self,
        ledger: Ledger,
        clock: Clock,
        escalation: Escalation,
        settings: TicketSettings,
        *,
        queued: Callable[[], None] = lambda: None,
        said: Callable[[], None] = lambda: None,
    ) -> None:
        self._ledger = ledger
        self._clock = clock
        self._escalation = escalation
        self._settings = settings
        self._queued = queued
        self._said = said
        self._lookout = Lookout()
        self._started_mono_ns = clock.monotonic_ns()
        self._next_ask_s: dict[str, float] = {}  # ticket -> its age when it is asked next whether the call works again

    def notify(self) -> None:
        """Tell that a ticket may have been opened, or a message of one may have ended. Cheap; call it from the event loop after
        the commit."""
        self._lookout.notify()

    async def run(self) -> None:
        """Watch for ever."""

        def away(error: Unavailable) -> float:
            log.warning("tickets.ledger_away", extra={"why": error.message})
            return _ASK_LEDGER_AGAIN_S

        await self._lookout.run(self.look, away=away)

    async def look(self) -> float | None:
        """Say that nobody took a ticket, close what is to be closed; return in how many s the next limit is reached, None
        without open tickets."""
        await self._say_untold()
        waits_s: list[float] = []
        next_ask_s: dict[str, float] = {}
        every_s, ttl_s = self._settings.auto_resolve_after_s, self._settings.ticket_ttl_s
        for row in await self._ledger.fetch(tickets.OPEN):
            ticket = tickets.to_ticket(row)
            age_s = self._age_s(ticket)
            if age_s >= ttl_s:
                await self._close_itself(ticket, TicketStatus.EXPIRED, f"nobody resolved it in {age_s:.0f} s")
                continue
            waits_s.append(ttl_s - age_s)
            if every_s is None:
                continue
            ask_at_s = self._next_ask_s.get(ticket.id, every_s)
            if age_s >= ask_at_s:
                if await tickets.works_again(self._ledger, ticket):
                    await self._close_itself(ticket, TicketStatus.AUTO_RESOLVED, _WORKS_AGAIN)
                    continue
                ask_at_s = age_s + every_s
            next_ask_s[ticket.id] = ask_at_s
            waits_s.append(ask_at_s - age_s)
        self._next_ask_s = next_ask_s
        return min(waits_s, default=None)

    async def resolve(self, ticket_id: str, note: str, by: str) -> Mapping[str, Any]:
        """Close a ticket in a person's name.

        Raises:
            Refused: there is no such ticket, or it is closed already.
        """
        ticket = await self._close(ticket_id, TicketStatus.RESOLVED, by=by, note=note)
        return {"id": ticket.id, "status": str(ticket.status), "closed_by": ticket.closed_by, "note": ticket.note}

    async def _say_untold(self) -> None:
        if not await self._ledger.fetch(tickets.UNTOLD):
            return
        untold = await self._ledger.transaction(self._escalation.say_untold)
        log.error("tickets.untold", extra={"tickets": untold})
        self._said()

    async def _close_itself(self, ticket: Ticket, status: TicketStatus, note: str) -> None:
        with contextlib.suppress(Refused):  # a person was quicker
            await self._close(ticket.id, status, by=_ITSELF, note=note)

    async def _close(self, ticket_id: str, status: TicketStatus, *, by: str, note: str) -> Ticket:
        def work(tx: Transaction) -> Ticket:
            closed = tickets.close(tx, self._clock, ticket_id, status, by=by, note=note)
            self._escalation.tell(tx, closed, str(status), f"{by}: {note}")
            return closed

        closed = await self._ledger.transaction(work)
        log.info("ticket.closed", extra={"ticket": ticket_id, "status": str(status), "by": by})
        self._queued()
        return closed

    def _age_s(self, ticket: Ticket) -> float:
        if ticket.boot_id == self._clock.boot_id:
            return (self._clock.monotonic_ns() - ticket.opened_mono_ns) / 1e9
        since_start_s = (self._clock.monotonic_ns() - self._started_mono_ns) / 1e9
        if not (ticket.clock_synced and self._clock.is_synced):
            return since_start_s
        return max((self._clock.utc() - ticket.opened_utc).total_seconds(), since_start_s)
