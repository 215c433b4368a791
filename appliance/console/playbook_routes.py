"""The addresses about playbooks: those in use, one of them, and that edits are taken up."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI

from appliance.console.bodies import Said
from appliance.contracts.playbook_acts import PlaybookActs


def add_playbooks(api: FastAPI, acts: PlaybookActs) -> None:
    """Add the addresses to ``api``."""

    @api.get("/v1/playbooks")
    async def playbooks() -> list[Mapping[str, Any]]:
        return list(await acts.playbooks())

    @api.get("/v1/playbooks/{name}")
    async def playbook(name: str) -> Mapping[str, Any]:
        return await acts.playbook(name)

    @api.post("/v1/playbooks")
    async def take_up(said: Said) -> Mapping[str, Any]:
        return await acts.take_up(said.by)
