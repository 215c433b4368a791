"""The address of what a tag was some time ago."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Annotated, Any

from fastapi import FastAPI, Query

from appliance.contracts.history import MOST_MINUTES, TagHistory


def add_history(api: FastAPI, history: TagHistory) -> None:
    """Add the address to ``api``."""

    @api.get("/v1/tags/{key:path}/history")
    async def track(key: str, minutes: Annotated[float, Query(gt=0, le=MOST_MINUTES)] = 60.0) -> Mapping[str, Any]:
        return asdict(await history.track(key, minutes))
