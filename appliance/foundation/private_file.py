"""Files that hold a secret: made whole or not at all, and readable by nobody else."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from collections.abc import Callable
from pathlib import Path

from appliance.contracts.errors import ConfigError

_FOLDER_MODE, _FILE_MODE = 0o700, 0o600
_OTHERS = 0o077  # group and others, whatever they may do


def read_or_make(path: Path, make: Callable[[], bytes], *, key: str) -> bytes:
    """Return what the file holds; with no file there, write what ``make`` returns first. ``key`` names it in faults.

    Several processes that start together agree on one content.

    Raises:
        ConfigError: others may read the file.
        OSError: it cannot be made or read.
    """
    if not path.exists():
        _make(path, make())
    return read(path, key=key)


def read(path: Path, *, key: str) -> bytes:
    """Return what the file holds.

    Raises:
        ConfigError: others may read the file.
        OSError: it cannot be read.
    """
    with path.open("rb") as file:
        if stat.S_IMODE(os.fstat(file.fileno()).st_mode) & _OTHERS:
            raise ConfigError("can be read by others", file=str(path), key=key, cure=f"Run: chmod 600 {path}")
        return file.read()


def replace(path: Path, content: bytes, *, mode: int = _FILE_MODE) -> None:
    """Put a file with this content in the place of what is there, on disk before it is seen.

    Raises:
        OSError: it cannot be written; what was there is there still.
    """
    draft = _draft(path, content, mode)
    try:
        draft.replace(path)
    except OSError:
        draft.unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _make(path: Path, content: bytes) -> None:
    path.parent.mkdir(mode=_FOLDER_MODE, parents=True, exist_ok=True)
    draft = _draft(path, content, _FILE_MODE)
    try:
        with contextlib.suppress(FileExistsError):  # another process was first: its content is the content
            path.hardlink_to(draft)
    finally:
        draft.unlink()


def _draft(path: Path, content: bytes, mode: int) -> Path:
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
    except OSError:
        draft.unlink(missing_ok=True)
        raise
    return draft
