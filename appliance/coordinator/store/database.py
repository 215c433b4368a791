"""The coordinator's database: SQLite for one site, PostgreSQL for many. Everything particular to either is in this file."""

from __future__ import annotations

import fcntl
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from alembic import command
from alembic.config import Config
from alembic.util import CommandError
from sqlalchemy import Connection, Engine, Table, create_engine, event, exc, text
from sqlalchemy.dialects import postgresql, sqlite

from appliance.contracts.errors import Corrupt, Malformed, Refused, StorageFullError, Unavailable

_BUSY_S = 5.0  # longest wait for the other writer; shorter than the appliance's 10 s, so it hears "busy" instead of silence
_CONNECTIONS = 16
_MIGRATION_LOCK = 0x466C6F6F72  # any constant: "Floor"
# No connection, rolled back for another's sake, out of something, locked, shutting down: the same again may succeed.
_AWAY = ("", "08", "40", "53", "55", "57")


class CoordinatorStore:
    """Transactions on the coordinator's database. Safe to use from many threads and by many replicas."""

    def __init__(self, url: str) -> None:
        self._engine = _engine(url)

    def migrate(self) -> None:
        """Bring the schema up to date, one replica at a time.

        Raises:
            Refused: the database was written by a newer version; nothing was changed.
        """
        with _alone(self._engine), self.write() as tx:
            if tx.dialect.name == "postgresql":
                tx.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _MIGRATION_LOCK})
            config = Config()
            config.set_main_option("script_location", str(Path(__file__).parent / "migrations").replace("%", "%%"))
            config.attributes["connection"] = tx
            try:
                command.upgrade(config, "head")
            except CommandError as error:
                raise Refused(f"the coordinator's database was written by a newer version: {error}") from error

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """Open a transaction that may write; commit when the block ends, roll back when it raises.

        Raises:
            Unavailable: the database cannot be had now, or another writer held it too long.
            StorageFullError: no room left.
            Corrupt: the file does not verify.
        """
        with _mapped(), self._engine.begin() as tx:
            yield tx

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """Open a transaction that only reads: it never waits for a writer. Raises as :meth:`write`."""
        with _mapped(), self._engine.connect().execution_options(floorhand_reads=True) as tx, tx.begin():
            yield tx

    def close(self) -> None:
        """Close all connections."""
        self._engine.dispose()


def insert(tx: Connection, table: Table) -> Any:
    """Return the dialect's INSERT, which knows ON CONFLICT."""
    return postgresql.insert(table) if tx.dialect.name == "postgresql" else sqlite.insert(table)


def _engine(url: str) -> Engine:
    if not url.startswith("sqlite:"):
        return create_engine(url, pool_size=_CONNECTIONS, pool_timeout=_BUSY_S, pool_pre_ping=True)
    engine = create_engine(url, pool_size=_CONNECTIONS, pool_timeout=_BUSY_S, connect_args={"timeout": _BUSY_S})
    if engine.url.database:
        path = Path(engine.url.database)
        path.parent.mkdir(parents=True, exist_ok=True)
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))

    @event.listens_for(engine, "connect")
    def _prepare(connection: sqlite3.Connection, _: object) -> None:
        connection.isolation_level = None  # sqlite3 would begin transactions of its own, and late
        for pragma in ("journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON"):
            connection.execute(f"PRAGMA {pragma}")

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        reads = connection.get_execution_options().get("floorhand_reads", False)
        connection.exec_driver_sql("BEGIN" if reads else "BEGIN IMMEDIATE")

    return engine


@contextmanager
def _alone(engine: Engine) -> Iterator[None]:
    """Hold a file lock beside an SQLite database: going over to WAL does not wait for others by itself."""
    if engine.dialect.name != "sqlite" or not engine.url.database:
        yield
        return
    with Path(f"{engine.url.database}.lock").open("w", encoding="ascii") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextmanager
def _mapped() -> Iterator[None]:
    """The one map from the database's errors to ours; mistakes in a statement stay what they are."""
    try:
        yield
    except exc.TimeoutError as error:
        raise Unavailable("all database connections are in use") from error
    except exc.DataError as error:
        raise Malformed(f"the database cannot hold this: {error.orig}") from error
    except exc.DBAPIError as error:
        raise _translated(error) or error from error


def _translated(error: exc.DBAPIError) -> Exception | None:
    """Tell by SQLite's primary result code (sqlite.org/rescode.html) or PostgreSQL's SQLSTATE (its manual, appendix A)."""
    cause = error.orig
    result = getattr(cause, "sqlite_errorcode", 0) & 0xFF
    state = str(getattr(cause, "sqlstate", None) or "")
    if result == sqlite3.SQLITE_FULL or state == "53100":
        return StorageFullError(f"no room left for the coordinator's database: {cause}", retry_after_s=30.0)
    if result in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB) or state in ("XX001", "XX002"):
        return Corrupt(f"the coordinator's database is damaged: {cause}")
    is_away = result > sqlite3.SQLITE_ERROR if isinstance(cause, sqlite3.Error) else state[:2] in _AWAY
    if isinstance(error, exc.OperationalError) and is_away:
        return Unavailable(f"the coordinator's database cannot be had: {cause}")
    return None
