"""The addresses about checks that were asked for earlier."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI

from appliance.console.bodies import Limit, Said
from appliance.contracts.check_acts import CheckActs


def add_checks(api: FastAPI, acts: CheckActs) -> None:
    """Add the addresses to ``api``."""

    @api.get("/v1/checks")
    async def checks(waiting: bool = False, limit: Limit = 100) -> list[Mapping[str, Any]]:
        return list(await acts.checks(waiting_only=waiting, limit=limit))

    @api.post("/v1/checks/{identity:path}/cancel")
    async def cancel(identity: str, said: Said) -> Mapping[str, Any]:
        return await acts.cancel(identity, said.by)
