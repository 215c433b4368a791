"""The addresses about alarms: lists and the journal from the ledger, a person's word to the core."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI
from pydantic import Field

from appliance.console.bodies import Limit, Reasoned, Said
from appliance.contracts.alarm import Disposition, Inhibition
from appliance.contracts.alarm_acts import AlarmActs
from appliance.contracts.store import Ledger
from appliance.store import views


class SaidOfShown(Said):
    """A word on an activation; ``revision`` is the one that was shown, and the answer is no when it has changed since."""

    revision: int | None = None


class ReasonedOfShown(Reasoned, SaidOfShown):
    """A word on an activation that needs a reason."""


class Timed(Reasoned):
    """A word that needs a reason and a time."""

    minutes: float = Field(gt=0, le=100_000, allow_inf_nan=False)


def add_alarms(api: FastAPI, core: AlarmActs, ledger: Ledger) -> None:
    """Add the addresses to ``api``."""
    _add_lists(api, core, ledger)

    @api.post("/v1/alarms/activations/{identity:path}/acknowledge")
    async def acknowledge(identity: str, said: SaidOfShown) -> Mapping[str, Any]:
        return await core.acknowledge(identity, said.revision, said.by)

    @api.post("/v1/alarms/activations/{identity:path}/reset")
    async def reset(identity: str, said: SaidOfShown) -> Mapping[str, Any]:
        return await core.reset(identity, said.revision, said.by)

    @api.post("/v1/alarms/activations/{identity:path}/close")
    async def close(identity: str, said: ReasonedOfShown) -> Mapping[str, Any]:
        return await core.close(identity, said.revision, said.reason, said.by)

    @api.post("/v1/alarms/defined/{alarm:path}/shelve")
    async def shelve(alarm: str, said: Timed) -> Mapping[str, Any]:
        return await core.shelve(alarm, said.minutes, said.reason, said.by)

    @api.post("/v1/alarms/defined/{alarm:path}/unshelve")
    async def unshelve(alarm: str, said: Said) -> Mapping[str, Any]:
        return await core.release(alarm, Inhibition.SHELVED, said.by)

    @api.post("/v1/alarms/defined/{alarm:path}/out-of-service")
    async def out_of_service(alarm: str, said: Reasoned) -> Mapping[str, Any]:
        return await core.take_out_of_service(alarm, said.reason, said.by)

    @api.post("/v1/alarms/defined/{alarm:path}/in-service")
    async def in_service(alarm: str, said: Said) -> Mapping[str, Any]:
        return await core.release(alarm, Inhibition.OUT_OF_SERVICE, said.by)

    @api.post("/v1/alarms/sources/{source:path}/accept-missing")
    async def accept_missing(source: str, said: Said) -> Mapping[str, Any]:
        return await core.accept_missing(source, said.by)


def _add_lists(api: FastAPI, core: AlarmActs, ledger: Ledger) -> None:
    @api.get("/v1/alarms")
    async def alarms(live: bool = False, limit: Limit = 100) -> list[views.Shown]:
        return await views.alarms(ledger, live_only=live, limit=limit)

    @api.get("/v1/alarms/journal")
    async def journal(
        alarm: str | None = None, source: str | None = None, disposition: Disposition | None = None, limit: Limit = 100
    ) -> list[views.Shown]:
        return await views.alarm_journal(ledger, alarm_id=alarm, source=source, disposition=disposition, limit=limit)

    @api.get("/v1/alarms/defined")
    async def defined() -> list[Mapping[str, Any]]:
        return list(core.defined())

    @api.get("/v1/alarms/held")
    async def held() -> list[Mapping[str, Any]]:
        return list(await core.held())

    @api.get("/v1/alarms/account")
    async def account() -> Mapping[str, Any]:
        return await core.account()

    @api.get("/v1/alarms/activations/{identity:path}")
    async def alarm(identity: str) -> views.Shown:
        return await views.alarm(ledger, identity)
