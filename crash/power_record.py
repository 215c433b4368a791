"""Lives of the product on a recorded disk: a process of its own, since its ``sqlite3`` is apsw underneath.

Reads one order a line and answers each with ``{"sqlite": …}`` once the recording is in the order's ``out``: a pickle of the files
at the start, the events, and what was acknowledged before which of them.
"""

from __future__ import annotations

import asyncio
import json
import logging
import pickle
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

from crash import power_shim
from crash.power_work import live


@dataclass(frozen=True, slots=True)
class LifeOrder:
    """One life to record. ``folder`` holds the ledger it starts from and is used up.

    ``synchronous`` other than FULL is what the product never sets: to see that its losses are found. ``checkpoint_pages``: the
    log is folded into the file when it is this long, the sooner the more often.
    """

    folder: str
    out: str
    name: str
    seed: int
    steps: int
    synchronous: str = "FULL"
    checkpoint_pages: int = 1000

    def line(self) -> str:
        """The order as the process reads it."""
        return json.dumps(asdict(self))


def record(recording: power_shim.Recording, order: LifeOrder) -> None:
    """Live once; write what was recorded."""
    statement = "PRAGMA synchronous = "
    power_shim.ShimConnection.instead = {f"{statement}FULL": f"{statement}{order.synchronous}"}
    power_shim.ShimConnection.checkpoint_pages = order.checkpoint_pages
    files = recording.start(Path(order.folder))
    asyncio.run(live(Path(order.folder), order.name, order.seed, order.steps, recording.acknowledge))
    Path(order.out).write_bytes(pickle.dumps((files, recording.events, recording.acknowledged)))


def main() -> None:
    """Answer orders until the input ends."""
    logging.disable()  # a disk that goes away is what is wanted here, thousands of times
    recording = power_shim.install()
    for line in sys.stdin:
        record(recording, LifeOrder(**json.loads(line)))
        sys.stdout.write(json.dumps({"sqlite": power_shim.version()}) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
