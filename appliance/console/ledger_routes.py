"""The addresses about the ledger itself: its state, a machine's adoption of it, and losses taken note of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI

from appliance.console.bodies import Noted
from appliance.contracts.ledger_acts import LedgerActs


def add_ledger_acts(api: FastAPI, acts: LedgerActs) -> None:
    """Add the addresses to ``api``."""

    @api.get("/v1/ledger")
    async def look() -> Mapping[str, Any]:
        return await acts.look()

    @api.post("/v1/identity/adopt")
    async def adopt(said: Noted) -> Mapping[str, Any]:
        return await acts.adopt(said.by, said.note)

    @api.post("/v1/ledger/salvages/{number}/settle")
    async def settle(number: int, said: Noted) -> Mapping[str, Any]:
        return await acts.settle_salvage(number, said.by, said.note)
