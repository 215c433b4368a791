"""A word outside the ledger of how each lane of the operation log ended: whoever cuts off its newest entries is found by that.

Beside the database, ``<database>.heads`` holds the newest ``(seq, hash)`` of every lane as of the last round of housekeeping or
the last stop. The log has to contain each of them ever after. (Who may write the whole folder can make this file fit; then only
the coordinator can tell, by what it holds.)
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from collections.abc import Mapping
from pathlib import Path

from appliance.contracts.operation import OperationLane
from appliance.contracts.store import Ledger

Heads = Mapping[OperationLane, tuple[int, str]]

_HEADS = "SELECT lane, seq, hash FROM operation_head ORDER BY lane"
# What a salvage lost or chained anew, it has stated.
_CONTAINS = """SELECT 1 FROM operation WHERE lane = ?1 AND seq = ?2 AND hash = ?3 UNION ALL SELECT 1 FROM operation_lost
    WHERE lane = ?1 AND seq = ?2 AND (what = 'lost' OR what = 'rechained' AND hash = ?3) LIMIT 1"""


def read(database: Path) -> Heads:
    """Return the heads the witness knows; empty when there is none or it cannot be read."""
    try:
        content = json.loads(_file(database).read_text(encoding="utf-8"))
        return {OperationLane(lane): (int(head["seq"]), str(head["hash"])) for lane, head in content.items()}
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return {}


async def keep(ledger: Ledger, database: Path) -> bool:
    """Have the witness know the heads as they are now, durably; return False if the log does not contain what it knows: that is
    evidence and stays. A disk that does not take it costs a later recognition, nothing else."""
    known = await asyncio.to_thread(read, database)
    heads = {OperationLane(row["lane"]): (int(row["seq"]), str(row["hash"])) for row in await ledger.fetch(_HEADS)}
    for lane, (seq, hashed) in known.items():
        if lane not in heads or heads[lane][0] < seq or not await ledger.fetch(_CONTAINS, (lane, seq, hashed)):
            return False
    if heads != known:
        await asyncio.to_thread(_write, database, heads)
    return True


def forget(database: Path) -> None:
    """Begin anew: a person has said that the log goes on although it does not contain what was witnessed."""
    with contextlib.suppress(OSError):
        _file(database).unlink(missing_ok=True)


def _write(database: Path, heads: Heads) -> None:
    file = _file(database)
    draft = file.with_name(f"{file.name}.new")
    with contextlib.suppress(OSError):
        with draft.open("w", encoding="utf-8") as written:
            json.dump({str(lane): {"seq": seq, "hash": hashed} for lane, (seq, hashed) in heads.items()}, written)
            written.flush()
            os.fsync(written.fileno())
        draft.replace(file)


def _file(database: Path) -> Path:
    return database.with_name(f"{database.name}.heads")
