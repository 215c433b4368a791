"""A pushed batch: bytes in, operations out."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from appliance.contracts.errors import Malformed
from appliance.contracts.operation import Operation, OperationLane
from appliance.coordinator.errors import TooLarge
from appliance.foundation.canonical import canonical_json
from appliance.foundation.invalid_input import sentence_of

MAX_OPERATIONS = 500
MAX_BATCH_BYTES = 256 * 1024
MAX_OPERATION_BYTES = 4 * 1024 * 1024  # one operation alone may be larger than a batch: it must not block its stream for ever

_Hash = Annotated[str, Field(max_length=64)]
_Text = Annotated[str, Field(max_length=1_000, pattern=r"^[^\x00]*$")]  # PostgreSQL text holds no NUL


class _Entry(BaseModel):
    """One operation on the wire. Its sequence is its place, its previous hash that of its neighbour."""

    model_config = ConfigDict(strict=True, extra="ignore")

    kind: _Text
    entity: _Text
    payload: dict[str, Any]
    at_utc: _Text
    clock_synced: bool
    hash: _Hash


class _Batch(BaseModel):
    model_config = ConfigDict(strict=True, extra="ignore")

    origin: _Text
    lane: Literal["P0", "P1", "P2", "P3", "P4"]
    first_seq: Annotated[int, Field(ge=1, le=2**62)]
    prev_hash: _Hash
    operations: Annotated[list[_Entry], Field(min_length=1)]


def parse_batch(body: bytes) -> list[Operation]:
    """Return the operations of a push, contiguous and of one lane; hashes are not checked yet.

    Raises:
        Malformed: not a batch.
        TooLarge: more than 500 operations, or more than 256 KiB in several operations.
    """
    try:
        content = json.loads(body)
        canonical_json(content).encode()  # NaN, infinities and lone surrogates have no canonical bytes
        batch = _Batch.model_validate(content)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise Malformed(sentence_of(first)) from error
    except (ValueError, RecursionError) as error:
        raise Malformed(f"not a batch of operations: {type(error).__name__}") from error
    if len(batch.operations) > MAX_OPERATIONS:
        raise TooLarge(f"{len(batch.operations)} operations in one batch; {MAX_OPERATIONS} are the most")
    if len(batch.operations) > 1 and len(body) > MAX_BATCH_BYTES:
        raise TooLarge(f"{len(body)} bytes in one batch; {MAX_BATCH_BYTES} are the most")
    hashes = [batch.prev_hash, *(entry.hash for entry in batch.operations)]
    return [
        Operation(
            origin=batch.origin,
            lane=OperationLane(batch.lane),
            seq=batch.first_seq + place,
            kind=entry.kind,
            entity=entry.entity,
            payload=entry.payload,
            at_utc=entry.at_utc,
            clock_synced=entry.clock_synced,
            prev_hash=prev_hash,
            hash=own_hash,
        )
        for place, (entry, (prev_hash, own_hash)) in enumerate(zip(batch.operations, pairwise(hashes), strict=True))
    ]
