"""An effect that cannot be taken back, and a kill that falls between one of them and the record of it."""

from __future__ import annotations

import os
import signal
from pathlib import Path

STEPS = ("a", "b", "c")
DEADLY = "b"
"""The step at whose effect the first life of the process ends."""


def happen(folder: Path, step: str) -> None:
    """Append ``step`` to ``folder/world.txt``, durably; the first time it is :data:`DEADLY`, SIGKILL this process at once."""
    with (folder / "world.txt").open("a") as world:
        world.write(step + "\n")
        world.flush()
        os.fsync(world.fileno())
    killed = folder / "killed"
    if step == DEADLY and not killed.exists():
        killed.touch()
        os.kill(os.getpid(), signal.SIGKILL)


def happened(folder: Path) -> list[str]:
    """Return the effects in the order they happened, repetitions included."""
    world = folder / "world.txt"
    return world.read_text().split() if world.exists() else []
