"""The pull side: what a device has to hear."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query

from appliance.coordinator.desk import DeviceName, OnDesk
from appliance.coordinator.errors import Conflict
from appliance.coordinator.store import feed

router = APIRouter(prefix="/v1")

CHANGES_AT_ONCE = 500


@router.get("/changes")
def changes(desk: OnDesk, device: DeviceName, after: Annotated[int, Query(ge=0, le=2**62)] = 0) -> dict[str, Any]:
    """Return the changes after a cursor, in order, and the cursor that covers them.

    A cursor ahead of the feed is refused with 409 ``cursor_ahead``: this database is older than what the device has seen, and
    the device has to read the feed again from its start.
    """
    with desk.store.read() as tx:
        newest = feed.newest(tx, device)
        if after > newest:
            raise Conflict(f"the feed ends at {newest}", reason="cursor_ahead", cursor=newest)
        found = feed.after(tx, device, after, CHANGES_AT_ONCE)
    return {"cursor": found[-1]["position"] if found else after, "changes": found}
