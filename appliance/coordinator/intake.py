"""Takes operations in: one transaction a batch, each operation at most once, no gap, every hash checked."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from pydantic import ValidationError
from sqlalchemy import Connection, exc

from appliance.contracts.errors import Refused
from appliance.contracts.operation import Operation
from appliance.coordinator.errors import ChainConflict
from appliance.coordinator.projection import PROJECTIONS
from appliance.coordinator.store import devices, streams
from appliance.coordinator.store.database import CoordinatorStore
from appliance.foundation.hash_chain import is_intact

log = logging.getLogger(__name__)


def take_in(store: CoordinatorStore, operations: Sequence[Operation], now: str) -> int:
    """Store what is new of a batch, act on it, and return the stream's head once all of it is on disk.

    Operations that are held already are skipped, so a batch may be sent any number of times. One that cannot be acted on is
    quarantined and the head moves on: a bad operation never blocks those behind it.

    Raises:
        ChainConflict: the batch does not continue what is held; nothing was stored, facts name the head.
    """
    first, last = operations[0], operations[-1]
    broken = next((op.seq for op in operations if not is_intact(op)), None)
    with store.write() as tx:
        head = streams.lock_head(tx, first.origin, first.lane, now)

        def conflict(reason: str, message: str) -> ChainConflict:
            return ChainConflict(message, reason=reason, lane=str(first.lane), head_seq=head.seq, head_hash=head.hash)

        if broken is not None:
            raise conflict("broken", f"operation {broken} of {first.lane} does not carry the hash of its content")
        if first.seq > head.seq + 1:
            raise conflict("gap", f"{first.lane} is held up to {head.seq}, the batch begins at {first.seq}")
        if head.seq < last.seq:
            shared, ours = head.seq, operations[head.seq + 1 - first.seq].prev_hash
        else:
            shared, ours = last.seq, last.hash
        if streams.hash_at(tx, first.origin, first.lane, shared) != ours:
            raise conflict("fork", f"{first.lane} is held with another history at {shared}")
        new = operations[head.seq + 1 - first.seq :] if head.seq >= first.seq else operations
        if new:
            streams.append(tx, new, now)
            for op in new:
                _act_on(tx, op, now)
        devices.saw(tx, first.origin, now)
    return max(head.seq, last.seq)


def _act_on(tx: Connection, op: Operation, now: str) -> None:
    """Project one stored operation in a savepoint of its own; kinds nobody knows stay as they are."""
    project = PROJECTIONS.get(op.kind)
    if project is None:
        return
    try:
        with tx.begin_nested():
            project(tx, op, now)
    except (ValidationError, Refused, exc.IntegrityError, exc.DataError) as error:
        reason = error.message if isinstance(error, Refused) else f"{type(error).__name__}: {error}"
        streams.set_aside(tx, op, reason[:1_000], now)
        log.warning("operation.quarantined", extra={"device": op.origin, "lane": op.lane, "seq": op.seq, "kind": op.kind})
