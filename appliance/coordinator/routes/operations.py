"""The operation log: push, what is held, and what was set aside."""

from __future__ import annotations

import json
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.concurrency import run_in_threadpool

from appliance.contracts.errors import Malformed
from appliance.coordinator.batch import MAX_OPERATION_BYTES, parse_batch
from appliance.coordinator.desk import AnyCaller, Desk, DeviceName, OnDesk
from appliance.coordinator.errors import Forbidden, TooLarge
from appliance.coordinator.intake import take_in
from appliance.coordinator.store import feed, streams

router = APIRouter(prefix="/v1")


@router.post("/operations")
async def push(request: Request, desk: OnDesk, device: DeviceName) -> dict[str, int]:
    """Take in one lane's next operations; answer ``{lane: highest sequence held}`` once that is on disk."""
    return await run_in_threadpool(_push, desk, device, await _body(request))


def _push(desk: Desk, device: str, body: bytes) -> dict[str, int]:
    operations = parse_batch(body)
    first = operations[0]
    if first.origin != device:
        raise Forbidden(f"this token is {device}'s; it cannot push operations of {first.origin}")
    return {str(first.lane): take_in(desk.store, operations, desk.now())}


async def _body(request: Request) -> bytes:
    """Read the body as far as the limit goes, whatever its header says of its length."""
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > MAX_OPERATION_BYTES:
            raise TooLarge(f"more than {MAX_OPERATION_BYTES} bytes in one push")
    return bytes(body)


@router.get("/heads")
def heads(desk: OnDesk, device: DeviceName) -> dict[str, Any]:
    """Tell a device what is held of it, ``{lane: {seq, hash}}``, and the newest position of its feed."""
    with desk.store.read() as tx:
        return {"lanes": streams.heads(tx, device), "cursor": feed.newest(tx, device)}


@router.get("/operations/count")
def count(desk: OnDesk, caller: AnyCaller, device: str | None = None) -> dict[str, Any]:
    """Count the operations stored of a device, lane by lane."""
    wanted = caller.may_see(device)
    if wanted is None:
        raise Malformed("name the device: ?device=NAME")
    with desk.store.read() as tx:
        lanes = streams.count(tx, wanted)
    return {"device": wanted, "lanes": lanes, "total": sum(lanes.values())}


@router.get("/quarantine")
def quarantine(desk: OnDesk, caller: AnyCaller, device: str | None = None) -> dict[str, Any]:
    """List operations that are stored but could not be acted on, and why."""
    with desk.store.read() as tx:
        return {"quarantine": streams.list_quarantine(tx, caller.may_see(device))}


@router.get("/reports")
def reports(
    desk: OnDesk, caller: AnyCaller, device: str | None = None, limit: Annotated[int, Query(ge=1, le=1_000)] = 200
) -> dict[str, Any]:
    """List committed incident reports, newest first."""
    with desk.store.read() as tx:
        rows = streams.list_reports(tx, caller.may_see(device), limit)
    keys = ("device", "lane", "seq", "entity", "at_utc", "received_utc")
    return {"reports": [{key: row[key] for key in keys} | {"payload": json.loads(row["payload"])} for row in rows]}
