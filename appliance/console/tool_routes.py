"""The addresses about tools: their contracts, and measurements as lines of JSON while they are taken."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from typing import Annotated, Any

from fastapi import FastAPI
from fastapi.responses import StreamingResponse
from pydantic import Field

from appliance.console.bodies import Body
from appliance.contracts.tool_acts import ToolActs


class Measurement(Body):
    """What a tool is called with, and how often."""

    arguments: dict[str, Any] = Field(default_factory=dict)
    runs: Annotated[int, Field(ge=1, le=1000)] = 50


def add_tools(api: FastAPI, acts: ToolActs) -> None:
    """Add the addresses to ``api``."""

    @api.get("/v1/tools")
    async def tools() -> list[Mapping[str, Any]]:
        return list(acts.tools())

    @api.get("/v1/tools/{name}")
    async def tool(name: str) -> Mapping[str, Any]:
        return acts.tool(name)

    @api.post("/v1/tools/{name}/stress")
    async def stress(name: str, wanted: Measurement) -> StreamingResponse:
        calls = acts.stress(name, wanted.arguments, wanted.runs)
        first = await anext(calls)  # what is refused is refused here, with its status

        async def lines() -> AsyncIterator[str]:
            try:
                yield _line(first)
                async for told in calls:
                    yield _line(told)
            finally:
                await calls.aclose()

        return StreamingResponse(lines(), media_type="application/x-ndjson")


def _line(told: Mapping[str, Any]) -> str:
    return json.dumps(told, ensure_ascii=False) + "\n"
