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
_LONGEST_DETAIL = 20_000  # characters; as of a work order that is made


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


class _WorkOrderUpdated(BaseModel):
    """Payload of ``work_order.updated``: a note to append (may be empty), and whether its device says that it is done."""

    model_config = ConfigDict(strict=True, extra="ignore")

    note: Annotated[_Text, Field(max_length=4_000)] = ""
    done: bool = False


def _work_order_updated(tx: Connection, op: Operation, now: str) -> None:
    """Append the note and close the order if its device says so; tell the device how it stands when it asked for that.

    One that people closed here stays as they left it, and its device hears that. What is too long for the order is cut off at its
    end: the operation itself is kept whole.
    """
    wanted = _WorkOrderUpdated.model_validate(dict(op.payload))
    held = work_orders.load(tx, op.entity, for_update=True)
    if held is None or held["device"] != op.origin:
        raise Conflict(f"there is no work order {op.entity} of {op.origin}")
    fields: dict[str, str] = {}
    if wanted.note:
        fields["detail"] = f"{held['detail']}\n{wanted.note}".strip()[:_LONGEST_DETAIL]
    if wanted.done and held["status"] in ("open", "in_progress"):
        fields["status"] = "done"
    if fields:
        work_orders.change(tx, op.entity, fields, held["version"] + 1, now)
    if wanted.done:
        told = {"id": op.entity, "number": held["number"], "status": fields.get("status", held["status"])}
        feed.publish(tx, op.origin, "work_order.status", told, now)


PROJECTIONS: Mapping[str, Callable[[Connection, Operation, str], None]] = {
    "work_order.created": _work_order_created,
    "work_order.updated": _work_order_updated,
}
"""Kind -> what is done about it. ``report.committed`` needs nothing: it is listed from the stream itself."""
