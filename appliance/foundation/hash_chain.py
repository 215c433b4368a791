"""The hash chain of operations, computed alike by the appliance and the coordinator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from appliance.contracts.operation import Operation, OperationLane
from appliance.foundation.canonical import canonical_json, digest, digest_of_text


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
    return link_hash(prev_hash, [origin, lane, seq, kind, entity, at_utc, clock_synced, digest(payload)])


def link_hash(prev_hash: str, header: list[Any]) -> str:
    """Return the hash of an entry whose ``header`` is ready, the digest of its payload included."""
    return digest_of_text(prev_hash + canonical_json(header))


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
