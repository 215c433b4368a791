"""Room kept beside the ledger for the day the disk is full: what comes last can still be recorded, alarms first.

The reserve is a file whose blocks are really taken. It is removed when a commit finds no room, which needs no room itself, and
made again once there is enough of it. A missing file therefore says that the reserve is in use, also after a restart.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
from pathlib import Path

from appliance.contracts.clock import Clock

log = logging.getLogger(__name__)

RESERVE_BYTES = 8 * 1024 * 1024
"""The write-ahead log grows to 4 MiB before SQLite folds it in (its default of 1,000 pages), which needs as much room in the
database; the other half is room for what comes, some 400 alarms at 10 KiB each with the first rows of their conversations."""

_MARGIN_BYTES = 4 * 1024 * 1024  # free beyond the reserve before it is made again, so that it is not made and spent in turns
_TRY_EVERY_NS = 1_000_000_000  # between two looks for room while every commit could look


class Reserve:
    """The file ``<database>.reserve``. Used by the writer thread; :attr:`refusal` may be read by any other."""

    def __init__(self, database: Path, clock: Clock, size_bytes: int) -> None:
        """``size_bytes`` 0 keeps none."""
        self._file = database.with_name(f"{database.name}.reserve")
        self._clock = clock
        self._size_bytes = size_bytes
        self._tried_mono_ns: int | None = None
        self.is_spent = False
        """Whether there should be a reserve and is none."""

    @property
    def refusal(self) -> str:
        """Why nothing but alarms should be taken in now; empty while there is a reserve, or room to make it again."""
        if not self.is_spent or self._has_room():
            return ""
        return f"no room left beside {self._file.stem}; what is left is kept for alarms"

    def make(self) -> bool:
        """See that the reserve is there; return whether it is. Tries at most once a second."""
        now_ns = self._clock.monotonic_ns()
        if not self._size_bytes:
            return True
        if self._tried_mono_ns is not None and now_ns - self._tried_mono_ns < _TRY_EVERY_NS:
            return not self.is_spent
        self._tried_mono_ns = now_ns
        was_spent, self.is_spent = self.is_spent, not self._is_there() and not self._allocate()
        if was_spent and not self.is_spent:
            log.info("ledger.reserve_restored", extra={"bytes": self._size_bytes})
        return not self.is_spent

    def spend(self) -> bool:
        """Free the reserve's room; return False when there was none to free."""
        if not self._size_bytes:
            return False
        self.is_spent = True
        self._tried_mono_ns = self._clock.monotonic_ns()
        try:
            self._file.unlink()
        except OSError:
            return False
        log.warning("ledger.reserve_spent", extra={"bytes": self._size_bytes})
        return True

    def _is_there(self) -> bool:
        try:
            return self._file.stat().st_size >= self._size_bytes
        except OSError:
            return False

    def _has_room(self) -> bool:
        try:
            return shutil.disk_usage(self._file.parent).free >= self._size_bytes + _MARGIN_BYTES
        except OSError:
            return False

    def _allocate(self) -> bool:
        if not self._has_room():
            return False
        draft = self._file.with_name(f"{self._file.name}.new")
        try:
            descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                os.posix_fallocate(descriptor, 0, self._size_bytes)
            finally:
                os.close(descriptor)
            draft.rename(self._file)
        except OSError:
            with contextlib.suppress(OSError):
                draft.unlink()
            return False
        return True
