"""Enrolment and revocation of devices."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field

from appliance.coordinator.desk import Admin, OnDesk
from appliance.coordinator.errors import Conflict, NotFound
from appliance.coordinator.store import devices, streams
from appliance.coordinator.tokens import new_token, token_digest

router = APIRouter(prefix="/v1/devices")


class NewDevice(BaseModel):
    """A device to enrol. Its name is the ``origin`` of its operations, for good."""

    model_config = ConfigDict(extra="forbid")

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$")]


@router.post("", status_code=201)
def enrol(desk: OnDesk, _: Admin, wanted: NewDevice) -> dict[str, str]:
    """Enrol a device and show its token, this once. A revoked device gets a new token and keeps its streams."""
    token = new_token()
    with desk.store.write() as tx:
        if not devices.enrol(tx, wanted.name, token_digest(token), desk.now()):
            raise Conflict(f"{wanted.name} is enrolled already; revoke it to give it a new token")
    return {"device": wanted.name, "token": token}


@router.get("")
def show(desk: OnDesk, _: Admin) -> dict[str, list[dict[str, Any]]]:
    """List devices: when each was last seen, and how far each of its lanes is held."""
    with desk.store.read() as tx:
        return {"devices": [known | {"heads": streams.heads(tx, known["name"])} for known in devices.list_all(tx)]}


@router.delete("/{name}", status_code=204)
def revoke(desk: OnDesk, _: Admin, name: str) -> None:
    """End a device's token at once; what it sent stays."""
    with desk.store.write() as tx:
        if not devices.revoke(tx, name, desk.now()):
            raise NotFound(f"there is no device {name}")
