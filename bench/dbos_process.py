"""DBOS in this process, on an SQLite file: as it ships, or with the journal and the syncs of our ledger.

As it ships its journal mode is SQLite's own default, DELETE, which syncs too. For WAL every connection is set as it is opened.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from dbos import DBOS
from sqlalchemy import event
from sqlalchemy.engine import Engine


def use_wal() -> None:
    """Have every connection that is opened from here on use WAL and ``synchronous = FULL``."""

    def prepare(connection: Any, _: Any) -> None:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")

    event.listen(Engine, "connect", prepare)


@contextmanager
def configured(folder: Path) -> Iterator[Path]:
    """Configure DBOS on ``folder/dbos.sqlite``; yield that file. Workflows are declared inside, then ``DBOS.launch()``."""
    file = folder / "dbos.sqlite"
    config: Any = {
        "name": "bench",
        "system_database_url": f"sqlite:///{file.resolve()}",
        "run_admin_server": False,
        "log_level": "WARNING",
    }
    DBOS(config=config)
    try:
        yield file
    finally:
        DBOS.destroy()


def mode_of(file: Path) -> str:
    """Return the journal mode the file is in, and how a connection syncs that was not told otherwise."""
    with closing(sqlite3.connect(file)) as db:
        journal, synchronous = (db.execute(f"PRAGMA {name}").fetchone()[0] for name in ("journal_mode", "synchronous"))
        return f"journal {journal}, synchronous {synchronous}"
