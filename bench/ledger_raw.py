"""Bare SQLite in the mode of the ledger (WAL, ``synchronous = FULL``), one connection: a contestant of ``bench.ledger``.

``commits`` writes one small row a transaction. ``groups`` writes one row for each of the sessions in one transaction, as a group
commit that waits for nobody and answers nobody.
"""

from __future__ import annotations

import sqlite3
import sys
import time
from pathlib import Path

from bench.contestant import Taken, serve
from bench.step_payload import PAYLOAD


def main() -> None:
    """Open a file in the folder that is named and take rounds."""
    db = sqlite3.connect(Path(sys.argv[1]) / "raw.sqlite", isolation_level=None)
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = FULL")
    db.execute("CREATE TABLE step (seq INTEGER PRIMARY KEY AUTOINCREMENT, session INTEGER, number INTEGER, payload TEXT) STRICT")

    def take(kind: str, sessions: int, steps: int) -> Taken:
        rows_a_commit = sessions if kind == "groups" else 1
        commits_ms: list[float] = []
        began_s, began_cpu_s = time.perf_counter(), time.process_time()
        for number in range(sessions * steps // rows_a_commit):
            started_s = time.perf_counter()
            db.execute("BEGIN IMMEDIATE")
            for session in range(rows_a_commit):
                db.execute("INSERT INTO step (session, number, payload) VALUES (?, ?, ?)", (session, number, PAYLOAD))
            db.execute("COMMIT")
            commits_ms.append((time.perf_counter() - started_s) * 1000)
        took_s, cpu_s = time.perf_counter() - began_s, time.process_time() - began_cpu_s
        return Taken(sessions * steps, took_s, commits_ms, 0.0, cpu_s)

    serve(take, {})
    db.close()


if __name__ == "__main__":
    main()
