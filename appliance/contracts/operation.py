"""Operations: the log that is replayed to the coordinator, one hash chain a lane (Y1)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class OperationLane(StrEnum):
    """P0 alarms, P1 admissions, delivery and audit, P2 records, P3 telemetry, P4 blobs."""

    P0 = "P0"
    P1 = "P1"
    P2 = "P2"
    P3 = "P3"
    P4 = "P4"


GENESIS_HASH = ""


@dataclass(frozen=True, slots=True)
class Operation:
    """One entry. ``seq`` is contiguous from 1 within (origin, lane); ``hash`` chains over the one before.

    hash = SHA-256(prev_hash + canonical JSON of [origin, lane, seq, kind, entity, at_utc, clock_synced, payload digest]),
    where the payload digest is SHA-256 of the payload's canonical JSON. ``foundation.hash_chain`` computes it.
    The first entry's ``prev_hash`` is ``GENESIS_HASH``.
    """

    origin: str
    lane: OperationLane
    seq: int
    kind: str
    entity: str
    payload: Mapping[str, Any]
    at_utc: str
    clock_synced: bool
    prev_hash: str
    hash: str
