"""The addresses about what a language model is shown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI

from appliance.contracts.context_acts import ContextActs


def add_context(api: FastAPI, acts: ContextActs) -> None:
    """Add the addresses to ``api``."""

    @api.get("/v1/contexts/stale")
    async def stale() -> Mapping[str, Any]:
        return await acts.stale_contexts()

    @api.get("/v1/contexts/of/{session:path}")
    async def context(session: str) -> Mapping[str, Any]:
        return await acts.context_of(session)
