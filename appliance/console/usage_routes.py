"""The addresses about what calls of language models took."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from typing import Any, Literal

from fastapi import FastAPI

from appliance.console.bodies import Limit
from appliance.contracts.errors import Malformed
from appliance.contracts.store import Ledger
from appliance.store import model_calls


def add_usage(api: FastAPI, ledger: Ledger) -> None:
    """Add the addresses to ``api``."""

    @api.get("/v1/usage")
    async def usage(
        by: Literal["session", "day"] = "day", since: datetime | None = None, limit: Limit = 100
    ) -> list[dict[str, Any]]:
        read = model_calls.by_session if by == "session" else model_calls.by_day
        return [asdict(each) for each in await read(ledger, since=_utc(since), limit=limit)]

    @api.get("/v1/usage/calls")
    async def calls(since: datetime | None = None, limit: Limit = 100) -> list[dict[str, Any]]:
        return await model_calls.newest(ledger, since=_utc(since), limit=limit)


def _utc(since: datetime | None) -> datetime | None:
    if since is not None and since.tzinfo is None:
        raise Malformed("since needs its zone, as 2026-03-02T08:00:00+00:00", field="since")
    return since
