"""Work orders for people: list, make, change."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Header, Query, Response
from pydantic import BaseModel, ConfigDict, Field

from appliance.coordinator.desk import Admin, AnyCaller, OnDesk
from appliance.coordinator.errors import NotFound, VersionMismatch, VersionRequired
from appliance.coordinator.store import feed, work_orders

router = APIRouter(prefix="/v1/work-orders")

_Asset = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[^\x00]*$")]
_Title = Annotated[str, Field(min_length=1, max_length=500, pattern=r"^[^\x00]*$")]
_Detail = Annotated[str, Field(max_length=20_000, pattern=r"^[^\x00]*$")]


class NewWorkOrder(BaseModel):
    """A work order made at the coordinator."""

    model_config = ConfigDict(extra="forbid")

    asset: _Asset
    title: _Title
    detail: _Detail = ""


class WorkOrderChange(BaseModel):
    """Fields to set; ``version`` is the version they were read at, unless ``If-Match`` says it."""

    model_config = ConfigDict(extra="forbid")

    version: int | None = None
    status: Literal["open", "in_progress", "done", "cancelled"] | None = None
    title: _Title | None = None
    detail: _Detail | None = None


@router.get("")
def show(
    desk: OnDesk,
    caller: AnyCaller,
    device: str | None = None,
    after: Annotated[int, Query(ge=0, le=2**62)] = 0,
    limit: Annotated[int, Query(ge=1, le=1_000)] = 200,
) -> dict[str, Any]:
    """List work orders by number; ``after`` is the count part of the last number seen."""
    with desk.store.read() as tx:
        return {"work_orders": work_orders.list_some(tx, caller.may_see(device), after, limit)}


@router.post("", status_code=201)
def make(desk: OnDesk, _: Admin, wanted: NewWorkOrder, response: Response) -> dict[str, Any]:
    """Make a work order under the next number."""
    now = desk.now()
    identity = desk.ids.mint("wo")
    with desk.store.write() as tx:
        made = work_orders.create(tx, identity, device=None, **wanted.model_dump(), created_utc=now, now=now)
    response.headers["ETag"] = f'"{made["version"]}"'
    return made


@router.patch("/{identity}")
def change(
    desk: OnDesk,
    _: Admin,
    identity: str,
    wanted: WorkOrderChange,
    response: Response,
    if_match: Annotated[str | None, Header(pattern=r'^"?[0-9]{1,9}"?$')] = None,
) -> dict[str, Any]:
    """Change a work order if it is still at the version named; its device hears of the new status."""
    version = int(if_match.strip('"')) if if_match is not None else wanted.version
    if version is None:
        raise VersionRequired("say which version the change was made from: If-Match or version")
    fields = wanted.model_dump(exclude={"version"}, exclude_none=True)
    now = desk.now()
    with desk.store.write() as tx:
        held = work_orders.load(tx, identity, for_update=True)
        if held is None:
            raise NotFound(f"there is no work order {identity}")
        if held["version"] != version:
            raise VersionMismatch(f"{held['number']} is at version {held['version']}, not {version}", version=held["version"])
        work_orders.change(tx, identity, fields, version + 1, now)
        if "status" in fields and held["device"] is not None:
            said = {"id": identity, "number": held["number"], "status": fields["status"]}
            feed.publish(tx, held["device"], "work_order.status", said, now)
    response.headers["ETag"] = f'"{version + 1}"'
    return held | fields | {"version": version + 1, "updated_utc": now}
