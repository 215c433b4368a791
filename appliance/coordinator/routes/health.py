"""Whether this replica can serve."""

from __future__ import annotations

from fastapi import APIRouter
from sqlalchemy import select

from appliance.coordinator.desk import OnDesk
from appliance.coordinator.store.tables import counter
from appliance.version import VERSION

router = APIRouter(prefix="/v1")


@router.get("/health")
def health(desk: OnDesk) -> dict[str, str]:
    """Answer ok when the database answers; 503 otherwise. Needs no token and tells nothing else."""
    with desk.store.read() as tx:
        tx.execute(select(counter.c.value).limit(1)).all()
    return {"status": "ok", "version": VERSION}
