"""The hash chain of operations, computed alike by the appliance and the coordinator."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from appliance.contracts.operation import Operation, OperationLane
from appliance.foundation.canonical import canonical_json, digest


def chain_hash(
    *,
    origin: str,
    lane: OperationLane,
    seq: int,
    kind: str,
    entity: str,
    payload: Mapping[str, Any],
    at_utc: str,
    clock_synced: bool,
    prev_hash: str,
) -> str:
    """Return the hash of one entry, by the rule in :class:`appliance.contracts.operation.Operation`."""
    header = canonical_json([origin, str(lane), seq, kind, entity, at_utc, clock_synced, digest(payload)])
    return hashlib.sha256((prev_hash + header).encode()).hexdigest()


def is_intact(operation: Operation) -> bool:
    """Tell whether an entry's hash fits its content and its ``prev_hash``."""
    return operation.hash == chain_hash(
        origin=operation.origin,
        lane=operation.lane,
        seq=operation.seq,
        kind=operation.kind,
        entity=operation.entity,
        payload=operation.payload,
        at_utc=operation.at_utc,
        clock_synced=operation.clock_synced,
        prev_hash=operation.prev_hash,
    )
