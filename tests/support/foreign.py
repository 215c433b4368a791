"""Another program on the ledger's file: a technician's shell that writes, or reads, until it is told to let go."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

_HOLD = """
import sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute(sys.argv[2])
db.execute("SELECT count(*) FROM sqlite_schema").fetchone()
print("held", flush=True)
sys.stdin.readline()
db.execute("COMMIT")
db.close()
"""


@contextmanager
def holding(path: Path, how: str) -> Iterator[Callable[[], None]]:
    """Hold a transaction that begins with ``how`` (``BEGIN IMMEDIATE`` writes, ``BEGIN`` reads); yields what lets go of it."""
    other = subprocess.Popen([sys.executable, "-c", _HOLD, str(path), how], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert other.stdin is not None and other.stdout is not None
    try:
        assert other.stdout.readline() == b"held\n"

        def let_go() -> None:
            assert other.stdin is not None
            if other.poll() is None:
                other.stdin.write(b"\n")
                other.stdin.flush()
                other.wait()

        yield let_go
        let_go()
    finally:
        other.kill()
        other.wait()
        other.stdin.close()
        other.stdout.close()
