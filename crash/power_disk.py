"""A folder on a disk with a write cache: what was written, what was synced, and what a power cut may leave of the rest.

The model is POSIX's, and no kinder: until a file is synced, each of its sectors may hold any content that it had since the last
sync, in any combination; its length may be any it had; a file made, renamed or removed since the folder was synced may be there
or not. Sectors are written whole, and a write disturbs no byte outside itself (what SQLite calls powersafe overwrite).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from random import Random
from typing import Literal

SECTOR_BYTES = 512
PAGE_BYTES = 4096

Change = tuple[int, bytes | None]
"""``(offset, data)`` written, or ``(size, None)``: the file was given this length."""


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that a program did to the folder. ``data`` is of a write, ``at`` its offset or a new length.

    ``folder_too``: the sync, or the removal, was waited for with the folder's own sync. ``to`` is a rename's new name.
    """

    what: Literal["create", "write", "truncate", "sync", "delete", "rename", "sync_folder"]
    name: str = ""
    at: int = 0
    data: bytes = b""
    folder_too: bool = False
    to: str = ""


class Fate(StrEnum):
    """What becomes of a file's unsynced changes."""

    DROPPED = "dropped"
    KEPT = "kept"
    CUT_OFF = "cut_off"  # in order up to one of them, which is torn
    SHUFFLED = "shuffled"  # any of them, sector by sector or page by page


@dataclass(slots=True)
class Inode:
    """One file's content: as programs see it, and as the medium surely has it."""

    cached: bytearray = field(default_factory=bytearray)
    durable: bytearray = field(default_factory=bytearray)
    unsynced: list[Change] = field(default_factory=list)

    def change(self, change: Change) -> None:
        """Write, or set the length."""
        _apply(self.cached, change)
        self.unsynced.append(change)

    def sync(self) -> None:
        """Make everything durable."""
        for change in self.unsynced:
            _apply(self.durable, change)
        self.unsynced.clear()

    def after_cut(self, dice: Random) -> bytes:
        """Return what may be left."""
        if not self.unsynced:
            return bytes(self.durable)
        match dice.choice(tuple(Fate)):
            case Fate.DROPPED:
                return bytes(self.durable)
            case Fate.KEPT:
                return bytes(self.cached)
            case Fate.CUT_OFF:
                return self._cut_off(dice)
            case Fate.SHUFFLED:
                return self._shuffled(dice)

    def _cut_off(self, dice: Random) -> bytes:
        left = bytearray(self.durable)
        whole = dice.randrange(len(self.unsynced))
        for change in self.unsynced[:whole]:
            _apply(left, change)
        offset, data = self.unsynced[whole]
        if data is None:
            return bytes(left)
        torn = Inode(bytearray(left), left, [])
        torn.change((offset, data))
        return torn._shuffled(dice, grain_bytes=SECTOR_BYTES)

    def _shuffled(self, dice: Random, grain_bytes: int = 0) -> bytes:
        grain_bytes = grain_bytes or dice.choice((SECTOR_BYTES, PAGE_BYTES))
        share, filler = dice.choice((0.1, 0.5, 0.9)), dice.choice((0, 0, 0xA5))  # new room holds zeros, or anything
        left, seen, sizes = bytearray(self.durable), bytearray(self.durable), [len(self.durable)]
        for offset, data in self.unsynced:
            _apply(seen, (offset, data))
            sizes.append(len(seen))
            if data is None:
                continue
            for start in range(offset - offset % grain_bytes, offset + len(data), grain_bytes):
                if dice.random() < share:
                    _grow(left, start, filler)
                    left[start : start + grain_bytes] = seen[start : start + grain_bytes]
        size = dice.choice(sizes)
        _grow(left, size, filler)
        return bytes(left[:size])


class Disk:
    """The folder."""

    def __init__(self, files: dict[str, bytes] | None = None) -> None:
        """``files`` are durable."""
        self._inodes = {name: Inode(bytearray(data), bytearray(data)) for name, data in (files or {}).items()}
        self._durable_names = dict(self._inodes)
        self._unsynced_names: list[dict[str, Inode | None]] = []

    @property
    def files(self) -> dict[str, Inode]:
        """What programs see."""
        return self._inodes

    def play(self, event: Event) -> None:
        """Do what a program did."""
        match event.what:
            case "create":
                self._name({event.name: Inode()})
            case "delete":
                self._name({event.name: None})
            case "rename":
                self._name({event.name: None, event.to: self._inodes[event.name]})
            case "write":
                self._inodes[event.name].change((event.at, event.data))
            case "truncate":
                self._inodes[event.name].change((event.at, None))
            case "sync":
                self._inodes[event.name].sync()
        if event.what == "sync_folder" or event.folder_too:
            self._sync_names()

    def after_cut(self, dice: Random) -> dict[str, bytes]:
        """Return the files that may be left, each with what may be left of it."""
        names = dict(self._durable_names)
        share = dice.choice((0.0, 0.5, 1.0))
        for change in self._unsynced_names:
            if dice.random() < share:
                _rename(names, change)
        return {name: inode.after_cut(dice) for name, inode in names.items()}

    def _name(self, change: dict[str, Inode | None]) -> None:
        _rename(self._inodes, change)
        self._unsynced_names.append(change)

    def _sync_names(self) -> None:
        self._durable_names = dict(self._inodes)
        self._unsynced_names.clear()


def _rename(names: dict[str, Inode], change: dict[str, Inode | None]) -> None:
    for name, inode in change.items():
        if inode is None:
            names.pop(name, None)
        else:
            names[name] = inode


def _apply(content: bytearray, change: Change) -> None:
    at, data = change
    if data is None:
        del content[at:]
        _grow(content, at)
    else:
        _grow(content, at)
        content[at : at + len(data)] = data


def _grow(content: bytearray, size: int, filler: int = 0) -> None:
    if len(content) < size:
        content.extend(bytes([filler]) * (size - len(content)))
