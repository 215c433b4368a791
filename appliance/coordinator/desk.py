"""What every request of the coordinator may use, and who is asking."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from fastapi import Depends, Request

from appliance.contracts.clock import Clock, IdSource
from appliance.coordinator.errors import Forbidden, Unauthenticated
from appliance.coordinator.signer import Signer
from appliance.coordinator.store import devices
from appliance.coordinator.store.database import CoordinatorStore
from appliance.coordinator.tokens import same_digest, token_digest

_SEEN_EVERY_S = 10.0  # a poll notes that the device lives at most this often: each note is a write


@dataclass(frozen=True, slots=True)
class Desk:
    """The parts requests share. No request leaves anything here: replicas are alike."""

    store: CoordinatorStore
    clock: Clock
    ids: IdSource
    admin_digest: str
    signer: Signer

    def now(self) -> str:
        """Wall time as stored."""
        return self.clock.utc().isoformat(timespec="milliseconds")


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks; ``device`` is None for the administrator."""

    device: str | None

    def may_see(self, wanted: str | None) -> str | None:
        """Return whose things to show: an administrator's choice (None is all), a device only its own.

        Raises:
            Forbidden: a device asked for another's.
        """
        if self.device is not None and wanted not in (None, self.device):
            raise Forbidden("a device sees only what is its own")
        return wanted if self.device is None else self.device


def desk_of(request: Request) -> Desk:
    """Return the desk of the application that serves this request."""
    desk: Desk = request.app.state.desk
    return desk


def any_caller(request: Request) -> Caller:
    """Return who asks, administrator or device.

    Raises:
        Unauthenticated: no token or an unknown one.
        Forbidden: the device's token was revoked.
    """
    desk = desk_of(request)
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not token.strip():
        raise Unauthenticated("a bearer token is needed")
    digest = token_digest(token.strip())
    if same_digest(digest, desk.admin_digest):
        return Caller(None)
    with desk.store.read() as tx:
        known = devices.by_digest(tx, digest)
    if known is None or not same_digest(digest, known["token_digest"]):
        raise Unauthenticated("this token is not known")
    if known["revoked_utc"] is not None:
        raise Forbidden(f"the token of {known['name']} was revoked")
    _note_seen(desk, known["name"], known["last_seen_utc"])
    return Caller(known["name"])


def device_caller(caller: Annotated[Caller, Depends(any_caller)]) -> str:
    """Return the name of the device that asks.

    Raises:
        Forbidden: an administrator asks.
    """
    if caller.device is None:
        raise Forbidden("this is for devices; the administrator's token does not push or pull")
    return caller.device


def admin_caller(caller: Annotated[Caller, Depends(any_caller)]) -> Caller:
    """Return the administrator.

    Raises:
        Forbidden: a device asks.
    """
    if caller.device is not None:
        raise Forbidden("this needs the administrator's token")
    return caller


def _note_seen(desk: Desk, name: str, last_seen_utc: str | None) -> None:
    now = desk.clock.utc()
    if last_seen_utc is None or abs((now - datetime.fromisoformat(last_seen_utc)).total_seconds()) > _SEEN_EVERY_S:
        with desk.store.write() as tx:
            devices.saw(tx, name, desk.now())


OnDesk = Annotated[Desk, Depends(desk_of)]
AnyCaller = Annotated[Caller, Depends(any_caller)]
DeviceName = Annotated[str, Depends(device_caller)]
Admin = Annotated[Caller, Depends(admin_caller)]
