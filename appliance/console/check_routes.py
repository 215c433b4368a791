"""The addresses about checks that were asked for earlier."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import FastAPI, Query
from pydantic import BaseModel, ConfigDict, Field

from appliance.contracts.check_acts import CheckActs

Limit = Annotated[int, Query(ge=1, le=1000)]


class Said(BaseModel):
    """Who says so."""

    model_config = ConfigDict(extra="forbid")

    by: str = Field(min_length=1, max_length=100)


def add_checks(api: FastAPI, acts: CheckActs) -> None:
    """Add the addresses to ``api``."""

    @api.get("/v1/checks")
    async def checks(waiting: bool = False, limit: Limit = 100) -> list[Mapping[str, Any]]:
        return list(await acts.checks(waiting_only=waiting, limit=limit))

    @api.post("/v1/checks/{identity:path}/cancel")
    async def cancel(identity: str, said: Said) -> Mapping[str, Any]:
        return await acts.cancel(identity, said.by)
