"""A file system that keeps what is not synced in memory alone and forgets it at the cut: FUSE, a process of its own.

Each folder below the mount point is a disk. After its cut everything in it fails with EIO, and what may be left of it is written
where the order says. The next life gets a new folder: new files to the kernel, so that no page of its cache survives.

Orders are JSON lines: ``{"new": folder, "files": where they are read, "cut_after": event, "seed", "lies", "spare_bytes"}`` and
``{"cut": folder, "into": where}``; each is answered with ``{"events", "refused"}``: how many there were, and how many writes
found no room. ``lies``: syncs do nothing.
``spare_bytes``: room beside what is there at the start.
"""

from __future__ import annotations

import errno
import json
import os
import signal
import stat
import sys
import threading
from pathlib import Path, PurePosixPath
from random import Random
from typing import Any

import mfusepy

from crash.power_disk import PAGE_BYTES, Disk, Event

_BLOCKS = 1 << 18  # 1 GiB
_FILE_MODE, _FOLDER_MODE = stat.S_IFREG | 0o600, stat.S_IFDIR | 0o700


class _Folder:
    """One disk, until it is cut."""

    def __init__(self, files: dict[str, bytes], cut_after: int, seed: int, lies: bool, spare_bytes: int) -> None:
        self.disk, self.events = Disk(files), 0
        self.refused = 0
        self.left: dict[str, bytes] | None = None
        self._cut_after, self._dice, self._lies = cut_after, Random(seed), lies
        self._room_bytes = self.used_bytes + spare_bytes

    def do(self, event: Event) -> None:
        """Do what a program asks for, unless the power fails instead."""
        if self.events == self._cut_after:
            self.cut()
        self.look()
        if event.what in ("write", "truncate"):
            grows_bytes = event.at + len(event.data) - len(self.disk.files[event.name].cached)
            if grows_bytes > max(0, self.free_bytes):
                self.refused += 1
                raise mfusepy.FuseOSError(errno.ENOSPC)
        self.events += 1
        if not (self._lies and event.what in ("sync", "sync_folder")):
            self.disk.play(event)

    @property
    def used_bytes(self) -> int:
        """Room taken."""
        return sum(len(inode.cached) for inode in self.disk.files.values())

    @property
    def free_bytes(self) -> int:
        """Room left."""
        return self._room_bytes - self.used_bytes

    def look(self) -> None:
        """Raise EIO once there is no power."""
        if self.left is not None:
            raise mfusepy.FuseOSError(errno.EIO)

    def cut(self) -> dict[str, bytes]:
        """Cut the power now, if that has not happened; return what is left."""
        if self.left is None:
            self.left = self.disk.after_cut(self._dice)
        return self.left


class LossyFiles(mfusepy.Operations):  # type: ignore[misc]
    """Answers the kernel on one thread and the orders on another."""

    use_ns = True

    def __init__(self) -> None:
        self._folders: dict[str, _Folder] = {}
        self._turn = threading.Lock()

    # orders -----------------------------------------------------------------------------------------------------------
    def serve(self) -> None:
        """Answer orders until the input ends, and with it the process."""
        try:
            for line in sys.stdin:
                order = json.loads(line)
                with self._turn:
                    folder = self._new(order) if "new" in order else self._cut(order)
                    answer = {"events": folder.events, "refused": folder.refused}
                sys.stdout.write(json.dumps(answer) + "\n")
                sys.stdout.flush()
        finally:
            os.kill(os.getpid(), signal.SIGTERM)  # libfuse unmounts and returns

    def _new(self, order: dict[str, Any]) -> _Folder:
        files = {path.name: path.read_bytes() for path in Path(order["files"]).iterdir()}
        folder = _Folder(files, order["cut_after"], order["seed"], order["lies"], order["spare_bytes"])
        self._folders[order["new"]] = folder
        return folder

    def _cut(self, order: dict[str, Any]) -> _Folder:
        folder = self._folders[order["cut"]]
        for name, content in folder.cut().items():
            (Path(order["into"]) / name).write_bytes(content)
        folder.disk = Disk()  # the folder stays, without power and empty, for whoever still has it open
        return folder

    # the kernel's questions -------------------------------------------------------------------------------------------
    def _find(self, path: str) -> tuple[_Folder, str]:
        _, folder, *rest = PurePosixPath(path).parts
        if folder not in self._folders or len(rest) > 1:
            raise mfusepy.FuseOSError(errno.ENOENT)
        return self._folders[folder], rest[0] if rest else ""

    def _find_file(self, path: str) -> tuple[_Folder, str]:
        folder, name = self._find(path)
        folder.look()
        if name not in folder.disk.files:
            raise mfusepy.FuseOSError(errno.ENOENT)
        return folder, name

    def _do(self, path: str, event: Event) -> int:
        with self._turn:
            folder, _ = self._find(path)
            folder.do(event)
        return 0

    def getattr(self, path: str, fh: int | None = None) -> dict[str, Any]:
        """Kind, mode and size."""
        with self._turn:
            if path == "/" or not self._find(path)[1]:
                return {"st_mode": _FOLDER_MODE, "st_nlink": 2}
            folder, name = self._find_file(path)
            return {"st_mode": _FILE_MODE, "st_nlink": 1, "st_size": len(folder.disk.files[name].cached)}

    def readdir(self, path: str, fh: int) -> list[str]:
        """Names."""
        with self._turn:
            names = list(self._folders if path == "/" else self._find(path)[0].disk.files)
        return [".", "..", *names]

    def create(self, path: str, mode: int, fi: Any = None) -> int:
        """Make a file."""
        return self._do(path, Event("create", PurePosixPath(path).name))

    def open(self, path: str, flags: int) -> int:
        """Open a file that is there."""
        with self._turn:
            self._find_file(path)
        return self.truncate(path, 0) if flags & os.O_TRUNC else 0

    def read(self, path: str, size: int, offset: int, fh: int) -> bytes:
        """Bytes as last written."""
        with self._turn:
            folder, name = self._find_file(path)
            return bytes(folder.disk.files[name].cached[offset : offset + size])

    def write(self, path: str, data: bytes, offset: int, fh: int) -> int:
        """Write into the cache."""
        with self._turn:
            folder, name = self._find_file(path)
            folder.do(Event("write", name, offset, bytes(data)))
        return len(data)

    def truncate(self, path: str, length: int, fh: int | None = None) -> int:
        """Set the length in the cache."""
        return self._do(path, Event("truncate", self._find_file(path)[1], length))

    def fallocate(self, path: str, mode: int, offset: int, size: int, fh: int) -> int:
        """Make a file longer."""
        if mode:
            raise mfusepy.FuseOSError(errno.EOPNOTSUPP)
        folder, name = self._find_file(path)
        return self.truncate(path, max(offset + size, len(folder.disk.files[name].cached)))

    def fsync(self, path: str, datasync: int, fh: int) -> int:
        """Make a file's content durable."""
        return self._do(path, Event("sync", self._find_file(path)[1]))

    def fsyncdir(self, path: str, datasync: int, fh: int) -> int:
        """Make the names durable."""
        return self._do(path, Event("sync_folder"))

    def unlink(self, path: str) -> int:
        """Remove a name."""
        return self._do(path, Event("delete", self._find_file(path)[1]))

    def rename(self, old: str, new: str) -> int:
        """Give a file another name, in its folder."""
        return self._do(old, Event("rename", self._find_file(old)[1], to=PurePosixPath(new).name))

    def statfs(self, path: str) -> dict[str, int]:
        """Room."""
        with self._turn:
            free_blocks = max(0, self._find(path)[0].free_bytes) // PAGE_BYTES if path != "/" else 0
        return {
            "f_bsize": PAGE_BYTES,
            "f_frsize": PAGE_BYTES,
            "f_blocks": _BLOCKS,
            "f_bfree": free_blocks,
            "f_bavail": free_blocks,
        }

    def chmod(self, path: str, mode: int) -> int:
        """Modes are not kept."""
        return 0

    def utimens(self, path: str, times: Any = None) -> int:
        """Times are not kept."""
        return 0


def main() -> None:
    """Mount at the path given and serve until unmounted."""
    files = LossyFiles()
    threading.Thread(target=files.serve, daemon=True).start()
    mfusepy.FUSE(files, sys.argv[1], foreground=True, nothreads=True, fsname="lossy")


if __name__ == "__main__":
    main()
