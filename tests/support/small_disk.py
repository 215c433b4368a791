"""A real file system of a few MiB that a test may fill, or have mounted read-only. Skips where mounting is not allowed."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


class SmallDisk:
    """One mounted tmpfs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._ballast = folder / "somebody-elses-file"

    @property
    def free_bytes(self) -> int:
        """Room left."""
        told = os.statvfs(self.folder)
        return told.f_bavail * told.f_frsize

    def fill(self, leave_bytes: int = 0) -> None:
        """Another program takes all room but so much."""
        with self._ballast.open("ab") as file, contextlib.suppress(OSError):
            while (room := self.free_bytes - leave_bytes) > 0:
                file.write(b"x" * min(room, 65536))
                file.flush()

    def make_room(self) -> None:
        """It gives its room back."""
        self._ballast.unlink()

    def remount(self, options: str) -> None:
        """Mount it anew with other options; nobody may have a file of it open to write."""
        subprocess.run(["mount", "-o", f"remount,{options}", str(self.folder)], check=True, capture_output=True)


@contextmanager
def small_disk(folder: Path, size_bytes: int) -> Iterator[SmallDisk]:
    """Mount one on ``folder``, which is made."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={size_bytes},mode=750", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True, check=False).returncode != 0:
        pytest.skip("mounting a small file system needs root and the right to mount")
    try:
        yield SmallDisk(folder)
    finally:
        subprocess.run(["umount", str(folder)], check=True, capture_output=True)
