"""A technician's shell on the ledger of the running core: it reads, or holds the right to write. A process of its own."""

from __future__ import annotations

import contextlib
import sqlite3
import sys
import time
from pathlib import Path

_PATIENCE_S = 5.0


def main() -> None:
    """``python -m crash.soak_shell DATABASE read|write SECONDS``."""
    database, what, seconds = Path(sys.argv[1]), sys.argv[2], float(sys.argv[3])
    uri = f"{database.resolve().as_uri()}?mode=rw"
    with contextlib.closing(sqlite3.connect(uri, uri=True, isolation_level=None, timeout=_PATIENCE_S)) as db:
        db.execute("BEGIN IMMEDIATE" if what == "write" else "BEGIN")
        db.execute("SELECT count(*) FROM operation").fetchone()
        time.sleep(seconds)  # what a person's thinking is to a database
        db.execute("ROLLBACK")


if __name__ == "__main__":
    main()
