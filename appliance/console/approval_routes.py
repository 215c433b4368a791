"""The addresses about approvals: what was decided, the rules in force, letting a session go on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import FastAPI, Query
from pydantic import BaseModel, ConfigDict, Field

from appliance.contracts.approval_acts import ApprovalActs

_LONGEST_NAME = 200


class Reset(BaseModel):
    """Whose word it is."""

    model_config = ConfigDict(extra="forbid")

    by: str = Field(min_length=1, max_length=100)


def add_approvals(api: FastAPI, acts: ApprovalActs) -> None:
    """Add the addresses to ``api``."""

    @api.get("/v1/approvals")
    async def decisions(
        session: Annotated[str, Query(max_length=_LONGEST_NAME)] = "", limit: Annotated[int, Query(ge=1, le=1000)] = 100
    ) -> list[Mapping[str, Any]]:
        return list(await acts.decisions(session, limit))

    @api.get("/v1/approvals/rules")
    async def rules(
        about: Annotated[str, Query(max_length=_LONGEST_NAME)] = "", role: Annotated[str, Query(max_length=_LONGEST_NAME)] = ""
    ) -> Mapping[str, Any]:
        return await acts.rules(about, role)

    @api.post("/v1/approvals/{session_id:path}/reset")
    async def reset(session_id: str, said: Reset) -> Mapping[str, Any]:
        return await acts.reset(session_id, said.by)
