"""Another SQLite in the place of Python's own, for one process: it records all that is done to the disk.

apsw brings SQLite with it and lets a file system be written in Python. Here that file system passes everything on to the real
one and notes it in a :class:`Recording`. :func:`install` makes ``sqlite3.connect`` open connections of apsw, so that what is
recorded are the product's own writer, statements and migrations. Python's own SQLite opens no file in such a process: two
libraries in one process would release each other's locks.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import apsw

from crash.power_disk import Event

_VFS = "recording"
_SYNCS_FOLDER = apsw.SQLITE_OPEN_WAL | apsw.SQLITE_OPEN_MAIN_JOURNAL | apsw.SQLITE_OPEN_SUPER_JOURNAL


class Recording:
    """What was done to one folder, in order, with what was acknowledged in between."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.known: set[str] = set()
        self.acknowledged: list[tuple[int, str, Any]] = []

    def note(self, event: Event) -> None:
        """Note what has been done."""
        self.events.append(event)

    def acknowledge(self, what: str, value: Any) -> None:
        """Note that somebody was told: whatever is cut from here on, this must be found."""
        self.acknowledged.append((len(self.events), what, value))

    def start(self, folder: Path) -> dict[str, bytes]:
        """Begin with what is in a folder; return it."""
        self.events, self.acknowledged = [], []
        files = {path.name: path.read_bytes() for path in folder.iterdir() if not path.name.endswith("-shm")}
        self.known = set(files)
        return files


class _Files(apsw.VFS):
    """The file system: the operating system's, noted."""

    def __init__(self, recording: Recording) -> None:
        super().__init__(_VFS, "unix")
        self._recording = recording

    def xOpen(self, name: Any, flags: list[int]) -> _File:
        return _File(name, flags, self._recording)

    def xDelete(self, name: str, folder_too: bool) -> None:
        super().xDelete(name, folder_too)
        short = Path(name).name
        self._recording.known.discard(short)
        self._recording.note(Event("delete", short, folder_too=folder_too))


class _File(apsw.VFSFile):
    def __init__(self, name: Any, flags: list[int], recording: Recording) -> None:
        path = name.filename() if isinstance(name, apsw.URIFilename) else name
        self._name, self._recording = Path(path or "").name, recording
        self._deletes = bool(flags[0] & apsw.SQLITE_OPEN_DELETEONCLOSE) or not path  # temporary: not worth a note
        is_new = not self._deletes and self._name not in recording.known and bool(flags[0] & apsw.SQLITE_OPEN_CREATE)
        # SQLite's own unix file system syncs the folder with the first sync of a journal that it has made (os_unix.c, DIRSYNC).
        self._owes_folder = is_new and bool(flags[0] & _SYNCS_FOLDER)
        self._reads_only = bool(flags[0] & apsw.SQLITE_OPEN_READONLY)
        super().__init__("unix", name, flags)
        if is_new:
            recording.known.add(self._name)
            recording.note(Event("create", self._name))

    def xLock(self, level: int) -> None:
        # A reader that closes last tries to lock the file to fold the log in, which the operating system refuses. SQLite minds
        # nothing; apsw would raise it.
        if self._reads_only and level >= apsw.SQLITE_LOCK_RESERVED:
            raise apsw.BusyError
        super().xLock(level)

    def xWrite(self, data: bytes, offset: int) -> None:
        super().xWrite(data, offset)
        if not self._deletes:
            self._recording.note(Event("write", self._name, offset, bytes(data)))

    def xTruncate(self, size: int) -> None:
        super().xTruncate(size)
        if not self._deletes:
            self._recording.note(Event("truncate", self._name, size))

    def xSync(self, flags: int) -> None:
        # The model syncs; the medium below is only a scratch folder and need not be waited for.
        if not self._deletes:
            self._recording.note(Event("sync", self._name, folder_too=self._owes_folder))
            self._owes_folder = False


class _Row:
    """What :class:`sqlite3.Row` is: by number, by name, in order."""

    __slots__ = ("_names", "_values")

    def __init__(self, names: Sequence[str], values: Sequence[Any]) -> None:
        self._names, self._values = names, values

    def __getitem__(self, key: int | str | slice) -> Any:
        return self._values[self._names.index(key) if isinstance(key, str) else key]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def keys(self) -> Sequence[str]:
        return self._names


class _Cursor:
    def __init__(self, connection: apsw.Connection, sql: str, parameters: Any, *, rows: bool) -> None:
        before = connection.total_changes()
        cursor = _translated(connection.cursor)
        _translated(cursor.execute, sql, parameters or None)
        try:
            names = [column[0] for column in cursor.get_description()]
        except apsw.ExecutionCompleteError:  # it gave no row
            names = []
        self._found: list[Any] = [_Row(names, row) if rows else row for row in _translated(list, cursor)]
        self._next = 0
        self.lastrowid = connection.last_insert_rowid()
        self.rowcount = connection.changes() if connection.total_changes() != before else 0

    def fetchone(self) -> Any:
        row = self._found[self._next] if self._next < len(self._found) else None
        self._next += 1
        return row

    def fetchall(self) -> list[Any]:
        rest, self._next = self._found[self._next :], len(self._found)
        return rest

    def __iter__(self) -> Iterator[Any]:
        return iter(self.fetchall())

    def close(self) -> None:
        """Nothing is open."""


class ShimConnection:
    """As much of :class:`sqlite3.Connection` as the product uses, over apsw."""

    instead: dict[str, str] = {}  # noqa: RUF012 - the one setting of the process: statement -> what is run in its place
    checkpoint_pages = 1000

    def __init__(self, database: str | Path, *, timeout: float = 5.0, **_: Any) -> None:
        flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE | apsw.SQLITE_OPEN_URI
        self._db = _translated(apsw.Connection, str(database), flags, _VFS)
        self._db.set_busy_timeout(int(timeout * 1000))
        self._db.wal_autocheckpoint(self.checkpoint_pages)
        self.row_factory: Any = None

    def execute(self, sql: str, parameters: Any = ()) -> _Cursor:
        """Run a statement; its rows are read at once."""
        return _Cursor(self._db, self.instead.get(sql, sql), parameters, rows=self.row_factory is not None)

    def executemany(self, sql: str, many: Any) -> None:
        """Run a statement with each set of parameters."""
        for parameters in many:
            self.execute(sql, parameters)

    def executescript(self, script: str) -> _Cursor:
        """Run statements."""
        return self.execute(script)

    @property
    def in_transaction(self) -> bool:
        """Whether BEGIN was and COMMIT was not."""
        return bool(self._db.in_transaction)

    @property
    def total_changes(self) -> int:
        """Rows changed so far."""
        return int(self._db.total_changes())

    def commit(self) -> None:
        """COMMIT, if there is something to."""
        if self.in_transaction:
            self.execute("COMMIT")

    def rollback(self) -> None:
        """ROLLBACK, if there is something to."""
        if self.in_transaction:
            self.execute("ROLLBACK")

    def set_progress_handler(self, handler: Any, steps: int) -> None:
        """Ask ``handler`` every so many steps whether to break off."""
        self._db.set_progress_handler(handler, steps)

    def close(self) -> None:
        """Close."""
        _translated(self._db.close)


def _translated(call: Any, *arguments: Any) -> Any:
    """Call; raise what sqlite3 would have raised."""
    try:
        return call(*arguments)
    except apsw.Error as error:
        kind = sqlite3.IntegrityError if isinstance(error, apsw.ConstraintError) else sqlite3.OperationalError
        raised = kind(str(error))
        raised.sqlite_errorcode = getattr(error, "extendedresult", 0)
        raise raised from error


def install() -> Recording:
    """Make this process' ``sqlite3.connect`` open recorded connections; return where it is recorded. Once a process."""
    recording = Recording()
    install.kept = _Files(recording)  # type: ignore[attr-defined]  # SQLite holds no reference to it
    sqlite3.connect = ShimConnection  # type: ignore[assignment]
    return recording


def version() -> str:
    """Return the version of the SQLite that apsw brought."""
    return str(apsw.sqlite_lib_version())
