"""The addresses about approvals: what was decided, the rules in force, letting a session go on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import FastAPI, Query

from appliance.console.bodies import Limit, Said
from appliance.contracts.approval_acts import ApprovalActs

_LONGEST_NAME = 200


def add_approvals(api: FastAPI, acts: ApprovalActs) -> None:
    """Add the addresses to ``api``."""

    @api.get("/v1/approvals")
    async def decisions(
        session: Annotated[str, Query(max_length=_LONGEST_NAME)] = "", limit: Limit = 100
    ) -> list[Mapping[str, Any]]:
        return list(await acts.decisions(session, limit))

    @api.get("/v1/approvals/rules")
    async def rules(
        about: Annotated[str, Query(max_length=_LONGEST_NAME)] = "", role: Annotated[str, Query(max_length=_LONGEST_NAME)] = ""
    ) -> Mapping[str, Any]:
        return await acts.rules(about, role)

    @api.post("/v1/approvals/{session_id:path}/reset")
    async def reset(session_id: str, said: Said) -> Mapping[str, Any]:
        return await acts.reset(session_id, said.by)
