"""What operations mean: a function a kind, run in the transaction that stores the operation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import Connection

from appliance.contracts.operation import Operation
from appliance.coordinator.errors import Conflict
from appliance.coordinator.store import feed, work_orders

_Text = Annotated[str, Field(pattern=r"^[^\x00]*$")]


class _WorkOrderCreated(BaseModel):
    """Payload of ``work_order.created``; the operation's entity is the work order's id."""

    model_config = ConfigDict(strict=True, extra="ignore")

    asset: Annotated[_Text, Field(max_length=200)]
    title: Annotated[_Text, Field(min_length=1, max_length=500)]
    detail: Annotated[_Text, Field(max_length=20_000)] = ""


def _work_order_created(tx: Connection, op: Operation, now: str) -> None:
    """Make the work order, give it a number and tell its device; once an id, however often it is said."""
    wanted = _WorkOrderCreated.model_validate(dict(op.payload))
    held = work_orders.load(tx, op.entity)
    if held is not None:
        if held["device"] != op.origin:
            raise Conflict(f"work order {op.entity} belongs to {held['device'] or 'the coordinator'}")
        return
    made = work_orders.create(
        tx,
        op.entity,
        device=op.origin,
        asset=wanted.asset,
        title=wanted.title,
        detail=wanted.detail,
        created_utc=op.at_utc,
        now=now,
    )
    feed.publish(tx, op.origin, "work_order.numbered", {"id": op.entity, "number": made["number"]}, now)


PROJECTIONS: Mapping[str, Callable[[Connection, Operation, str], None]] = {"work_order.created": _work_order_created}
"""Kind -> what is done about it. ``report.committed`` needs nothing: it is listed from the stream itself."""
