"""The addresses about the appliance as a whole: hold, drain, stop, what is unknown, and the audit log."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import FastAPI, Query
from pydantic import Field

from appliance.console.bodies import Limit, Reasoned, Said
from appliance.contracts.operating_acts import OperatingActs
from appliance.contracts.operation import OperationLane
from appliance.contracts.store import Ledger
from appliance.store import views

LONGEST_DRAIN_WAIT_S = 60.0
"""A client that wants to wait longer asks again."""


class Held(Said):
    """Hold with a reason, or release: what ``by`` holds, or somebody else's (``of``), or ``everyone``'s."""

    on: bool
    reason: str = Field(default="", max_length=2000)
    of: str = Field(default="", max_length=100)
    everyone: bool = False


class Drained(Said):
    """Take nothing new and wait for what runs, or take work again."""

    on: bool = True
    wait_s: float = Field(default=0.0, ge=0, le=LONGEST_DRAIN_WAIT_S, allow_inf_nan=False)


def add_operating(api: FastAPI, acts: OperatingActs, ledger: Ledger) -> None:
    """Add the addresses to ``api``."""

    @api.get("/v1/hold")
    async def holds() -> Mapping[str, Any]:
        return acts.holds()

    @api.post("/v1/hold")
    async def hold(said: Held) -> Mapping[str, Any]:
        if said.on:
            return await acts.hold(said.reason, said.by)
        return await acts.release(said.by, of=said.of, everyone=said.everyone)

    @api.post("/v1/drain")
    async def drain(said: Drained) -> Mapping[str, Any]:
        return await acts.drain(said.by, said.wait_s) if said.on else await acts.undrain(said.by)

    @api.post("/v1/turns/{turn_id:path}/stop")
    async def stop(turn_id: str, said: Reasoned) -> Mapping[str, Any]:
        return await acts.stop(turn_id, said.reason, said.by)

    @api.post("/v1/unknowns/{identity:path}/verify")
    async def verify(identity: str, said: Said) -> Mapping[str, Any]:
        return await acts.verify_unknown(identity, said.by)

    @api.get("/v1/audit")
    async def audit(limit: Limit = 100) -> list[views.Shown]:
        return await views.audit(ledger, limit=limit)

    @api.get("/v1/audit/verify")
    async def verify_audit(lane: OperationLane, after: Annotated[int, Query(ge=0)] = 0) -> Mapping[str, Any]:
        return await acts.verify_audit(lane, after)
