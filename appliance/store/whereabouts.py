"""Whether the ledger's files are still those that were opened: what is written to a removed file is gone with its last user."""

from __future__ import annotations

import os
from pathlib import Path

_stat = os.stat  # half the time of Path.stat, and each commit pays it


class Whereabouts:
    """The database and its write-ahead log, as they were when this was made. A look costs two ``stat``, some 4 us together."""

    def __init__(self, database: Path) -> None:
        """Call with the database open in WAL mode: both files are there from then on until it is closed."""
        self._file, self._log = str(database), str(database.with_name(f"{database.name}-wal"))
        self._known = {name: _identity(name) for name in (self._file, self._log)}
        self._inodes = tuple(known and known[1] for known in self._known.values())

    def lost(self) -> str:
        """Return what happened to a file, empty when both are where they were. A look that fails says nothing."""
        try:
            if (_stat(self._file).st_ino, _stat(self._log).st_ino) == self._inodes:
                return ""
        except OSError:
            pass
        return self._found()

    def _found(self) -> str:
        for name, known in self._known.items():
            try:
                found = _identity(name)
            except OSError:
                continue
            if found != known:
                how = "removed" if found is None else "replaced"
                return f"{Path(name).name} was {how} while it was in use: what was written to it since is lost"
        return ""


def _identity(name: str) -> tuple[int, int] | None:
    try:
        told = _stat(name)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return told.st_dev, told.st_ino
