"""What one durable write costs on this disk: the floor under everything that is acknowledged only after it is on disk."""

from __future__ import annotations

import os
import time
from pathlib import Path

from bench.quantiles import quantiles

_PAGE_BYTES = 4096  # the ledger's page, and about what one small transaction appends to the write-ahead log
_WRITES = 200


class Disk:
    """The disk that holds ``folder``, probed now and then during a run: others write to it as well, and it has its moods."""

    def __init__(self, folder: Path) -> None:
        self.times_ms: list[float] = []
        self._file = folder / "fsync.probe"

    def probe(self, writes: int = _WRITES) -> None:
        """Append ``writes`` pages to a file, each followed by fsync; note what each took together with its write."""
        page = b"\xa5" * _PAGE_BYTES
        with self._file.open("wb", buffering=0) as file:
            for _ in range(writes):
                started_ns = time.monotonic_ns()
                file.write(page)
                os.fsync(file.fileno())
                self.times_ms.append((time.monotonic_ns() - started_ns) / 1e6)
        self._file.unlink()

    def quantiles(self, *percents: int) -> dict[str, float]:
        """Return ``{"p50": …}`` of all probes so far, in ms."""
        return quantiles(self.times_ms, *percents)
