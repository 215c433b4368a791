"""A word outside the ledger of how far it was: older content that was put back under it is recognised by that.

Beside the database, ``<database>.witness`` holds the epoch of the newest start. A ledger that is behind it was restored from a
backup or an image. (Who restores the whole folder restores the witness too; then the coordinator finds out, by the hashes.)
"""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path


def read(database: Path) -> int:
    """Return the newest epoch the witness knows, 0 when there is none or it cannot be read."""
    try:
        content = json.loads(_file(database).read_text(encoding="utf-8"))
        epoch = content["epoch"]
    except (OSError, ValueError, TypeError, KeyError):
        return 0
    return epoch if isinstance(epoch, int) else 0


def write(database: Path, epoch: int) -> None:
    """Have the witness know this epoch, durably. A disk that does not take it costs a later recognition, nothing else."""
    file = _file(database)
    draft = file.with_name(f"{file.name}.new")
    with contextlib.suppress(OSError):
        with draft.open("w", encoding="utf-8") as written:
            json.dump({"epoch": epoch}, written)
            written.flush()
            os.fsync(written.fileno())
        draft.replace(file)


def _file(database: Path) -> Path:
    return database.with_name(f"{database.name}.witness")
