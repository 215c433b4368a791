"""The addresses about tickets: what could not be brought to an end and was handed to people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI

from appliance.console.bodies import Limit, Noted
from appliance.contracts.store import Ledger
from appliance.contracts.ticket_acts import TicketActs
from appliance.store import ticket_views


def add_tickets(api: FastAPI, acts: TicketActs, ledger: Ledger) -> None:
    """Add the addresses to ``api``."""

    @api.get("/v1/tickets")
    async def tickets(open: bool = False, limit: Limit = 100) -> list[ticket_views.Shown]:
        return await ticket_views.tickets(ledger, open_only=open, limit=limit)

    @api.get("/v1/tickets/{identity:path}")
    async def ticket(identity: str) -> ticket_views.Shown:
        return await ticket_views.ticket(ledger, identity)

    @api.post("/v1/tickets/{identity:path}/resolve")
    async def resolve(identity: str, said: Noted) -> Mapping[str, Any]:
        return await acts.resolve(identity, said.note, said.by)
