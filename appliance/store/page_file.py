"""Reads a damaged SQLite file page by page: b-trees, records and the write-ahead log, each checked on its own.

SQLite itself gives up at the first page that does not make sense. Here such a page costs what was on it, nothing else. The
format is that of https://sqlite.org/fileformat2.html; numbers behind "§" are its sections. Nothing is written.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

Value = int | float | str | bytes | None
Record = tuple[Value, ...]

MAGIC = b"SQLite format 3\x00"
DEFAULT_PAGE_BYTES = 4096  # SQLite's default, and what every ledger was made with
INTERIOR_INDEX, INTERIOR_TABLE, LEAF_INDEX, LEAF_TABLE = 2, 5, 10, 13
_SIZES = {2**power for power in range(9, 17)}
_WAL_MAGIC = {0x377F0682: "<", 0x377F0683: ">"}  # §4.1: the byte order of the checksums
_WAL_HEADER_BYTES, _FRAME_HEADER_BYTES = 32, 24
_LONGEST_RECORD_BYTES = 64 * 1024 * 1024  # more than any row of ours; a damaged length must not ask for all memory


class Unreadable(Exception):
    """A page or a cell that does not make sense."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One entry of a page: ``rowid`` of tables with one, its record (None on interior pages of tables), and its left child."""

    rowid: int
    record: Record | None
    child: int = 0


@dataclass(slots=True)
class WriteAheadFrames:
    """What the write-ahead log holds: page -> offset of its newest committed content, and the database's size with it.

    ``lost_commits`` come after a frame that does not verify: they were on disk and cannot be used any more. The last commit may
    be torn by a power cut, which loses nothing that was promised; it is not counted.
    """

    pages: dict[int, int] = field(default_factory=dict)
    page_count: int = 0
    lost_commits: int = 0


class PageFile:
    """A database file with its write-ahead log, read into pages. ``header_fits``: the first 100 bytes make sense."""

    def __init__(self, path: Path) -> None:
        """Read the headers. Raises OSError where the file cannot be read."""
        self._file = path.open("rb")
        header = self._file.read(100)
        self.header_fits = header[:16] == MAGIC and len(header) == 100
        size = struct.unpack(">H", header[16:18])[0] if self.header_fits else 0
        self.page_bytes = 65536 if size == 1 else size
        if self.page_bytes not in _SIZES:
            self.header_fits, self.page_bytes = False, DEFAULT_PAGE_BYTES
        self.user_version = struct.unpack(">I", header[60:64])[0] if self.header_fits else None
        self._usable_bytes = self.page_bytes - (header[20] if self.header_fits and header[20] < 33 else 0)
        self._file.seek(0, 2)
        self.wal = read_log(path.with_name(f"{path.name}-wal"), self.page_bytes)
        self._log = path.with_name(f"{path.name}-wal").open("rb") if self.wal.pages else None
        self.page_count = max(self._file.tell() // self.page_bytes, self.wal.page_count)

    def close(self) -> None:
        """Close the files."""
        self._file.close()
        if self._log is not None:
            self._log.close()

    def page(self, number: int) -> bytes:
        """Return a page as its newest commit left it.

        Raises:
            Unreadable: there is no such page, or the device does not give it.
        """
        if not 1 <= number <= self.page_count:
            raise Unreadable(f"no page {number}")
        source, offset = self._file, (number - 1) * self.page_bytes
        if self._log is not None and number in self.wal.pages:
            source, offset = self._log, self.wal.pages[number]
        try:
            source.seek(offset)
            content = source.read(self.page_bytes)
        except OSError as error:
            raise Unreadable(f"page {number}: {error}") from error
        if len(content) < self.page_bytes:
            raise Unreadable(f"page {number} is cut off")
        return content

    def kind(self, number: int) -> int:
        """Return the b-tree kind of a page. Raises Unreadable when it is none."""
        kind = self.page(number)[100 if number == 1 else 0]
        if kind not in (INTERIOR_INDEX, INTERIOR_TABLE, LEAF_INDEX, LEAF_TABLE):
            raise Unreadable(f"page {number} is no b-tree page")
        return kind

    def cells(self, number: int) -> tuple[list[Cell], int, int]:
        """Return a b-tree page's entries, its rightmost child (0 on a leaf), and how many entries do not make sense (§1.6).

        Raises:
            Unreadable: nothing of it makes sense.
        """
        page, kind, start = self.page(number), self.kind(number), 100 if number == 1 else 0
        is_interior = kind in (INTERIOR_INDEX, INTERIOR_TABLE)
        count, right = struct.unpack_from(">H", page, start + 3)[0], 0
        pointers = start + (12 if is_interior else 8)
        if count > self.page_bytes // 4 or pointers + 2 * count > self._usable_bytes:
            raise Unreadable(f"page {number} cannot have {count} entries")
        if is_interior:
            right = struct.unpack_from(">I", page, start + 8)[0]
        cells: list[Cell] = []
        spoilt = 0
        for offset in struct.unpack_from(f">{count}H", page, pointers):
            try:
                if not pointers + 2 * count <= offset < self._usable_bytes:
                    raise Unreadable("an entry outside its page")
                cells.append(self._cell(page, kind, offset))
            except (Unreadable, IndexError, struct.error, UnicodeDecodeError, OverflowError):
                spoilt += 1
        return cells, right, spoilt

    def _cell(self, page: bytes, kind: int, offset: int) -> Cell:
        child = rowid = 0
        if kind in (INTERIOR_INDEX, INTERIOR_TABLE):
            child, offset = struct.unpack_from(">I", page, offset)[0], offset + 4
        if kind == INTERIOR_TABLE:
            return Cell(_varint(page, offset)[0], None, child)
        size, offset = _varint(page, offset)
        if kind == LEAF_TABLE:
            rowid, offset = _varint(page, offset)
        return Cell(rowid, _record(self._payload(page, offset, size, is_table=kind == LEAF_TABLE)), child)

    def _payload(self, page: bytes, offset: int, size: int, *, is_table: bool) -> bytes:
        """Collect a payload, following its overflow pages (§1.6, the formula for how much stays on the page)."""
        usable = self._usable_bytes
        most = usable - 35 if is_table else (usable - 12) * 64 // 255 - 23
        if not 0 < size <= _LONGEST_RECORD_BYTES:
            raise Unreadable("a payload of no sensible size")
        if size <= most:
            if offset + size > usable:
                raise Unreadable("a payload beyond its page")
            return page[offset : offset + size]
        least = (usable - 12) * 32 // 255 - 23
        local = least + (size - least) % (usable - 4)
        local = local if local <= most else least
        parts, left = [page[offset : offset + local]], size - local
        (following,) = struct.unpack_from(">I", page, offset + local)
        while left > 0:
            overflow = self.page(following)
            parts.append(overflow[4 : 4 + min(left, usable - 4)])
            left -= usable - 4
            following = struct.unpack_from(">I", overflow, 0)[0]
        return b"".join(parts)

    def free_pages(self) -> set[int] | None:
        """Return the pages of the freelist (§1.5); None when it does not add up, so that nobody knows what is in use."""
        try:
            header = self.page(1)
            trunk, count = struct.unpack_from(">II", header, 32)
            free: set[int] = set()
            while trunk:
                if trunk in free:
                    return None
                content = self.page(trunk)
                following, leaves = struct.unpack_from(">II", content, 0)
                if leaves > self._usable_bytes // 4 - 2:
                    return None
                free |= {trunk, *struct.unpack_from(f">{leaves}I", content, 8)}
                trunk = following
        except Unreadable:
            return None
        return free if self.header_fits and len(free) == count and all(0 < page <= self.page_count for page in free) else None


def read_log(path: Path, page_bytes: int) -> WriteAheadFrames:
    """Read a write-ahead log, checking every frame's checksum as SQLite does (§4.2 and §4.4)."""
    found = WriteAheadFrames()
    try:
        content = path.read_bytes()
    except OSError:
        return found
    if len(content) < _WAL_HEADER_BYTES + _FRAME_HEADER_BYTES + page_bytes:
        return found
    magic, _, size, _, salt_1, salt_2, sum_1, sum_2 = struct.unpack_from(">8I", content)
    order = _WAL_MAGIC.get(magic)
    state = _checksum(order, content[:24], (0, 0)) if order and size == page_bytes else None
    is_good = state == (sum_1, sum_2)
    step = _FRAME_HEADER_BYTES + page_bytes
    pending: dict[int, int] = {}
    commits_after = 0
    salts = (salt_1, salt_2) if is_good else struct.unpack_from(">2I", content, _WAL_HEADER_BYTES + 8)
    if not is_good and order and salt_1 == (salts[0] + 1) & 0xFFFFFFFF:
        return found  # begun anew when the power went: the frames are those that had been folded in
    for offset in range(_WAL_HEADER_BYTES, len(content) - step + 1, step):
        number, commit, *own = struct.unpack_from(">6I", content, offset)
        if tuple(own[:2]) != salts:
            if is_good:
                is_good = False
            continue
        if is_good and state is not None and order:
            checked = _checksum(order, content[offset : offset + 8], state)
            checked = _checksum(order, content[offset + _FRAME_HEADER_BYTES : offset + step], checked)
            is_good = checked == (own[2], own[3])
            state = checked
        if not is_good:
            commits_after += commit > 0
            continue
        pending[number] = offset + _FRAME_HEADER_BYTES
        if commit:
            found.pages |= pending
            found.page_count = commit
            pending = {}
    found.lost_commits = max(0, commits_after - 1)
    return found


def _checksum(order: str, content: bytes, start: tuple[int, int]) -> tuple[int, int]:
    first, second = start
    words: Iterator[int] = iter(struct.unpack(f"{order}{len(content) // 4}I", content))
    for word in words:
        first = (first + word + second) & 0xFFFFFFFF
        second = (second + next(words) + first) & 0xFFFFFFFF
    return first, second


def _varint(content: bytes, offset: int) -> tuple[int, int]:
    value = 0
    for place in range(8):
        byte = content[offset + place]
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return value, offset + place + 1
    value = value << 8 | content[offset + 8]
    return value - (1 << 64) if value >> 63 else value, offset + 9


def _record(payload: bytes) -> Record:
    """Decode a record (§2.1). It must fill its payload exactly, which is what tells it from noise."""
    header_bytes, offset = _varint(payload, 0)
    place, values = header_bytes, list[Value]()
    while offset < header_bytes:
        code, offset = _varint(payload, offset)
        value, size = _value(payload, place, code)
        values.append(value)
        place += size
    if offset != header_bytes or place != len(payload):
        raise Unreadable("a record that does not fill its payload")
    return tuple(values)


def _value(payload: bytes, place: int, code: int) -> tuple[Value, int]:
    if code in (0, 8, 9):
        return (None, 0, 1)[(0, 8, 9).index(code)], 0
    if 1 <= code <= 6:
        size = (1, 2, 3, 4, 6, 8)[code - 1]
        return int.from_bytes(payload[place : place + size], "big", signed=True), size
    if code == 7:
        return struct.unpack_from(">d", payload, place)[0], 8
    if code < 12:
        raise Unreadable("a reserved type")
    size = (code - 12) // 2
    content = payload[place : place + size]
    if len(content) != size:
        raise Unreadable("a value beyond its record")
    return (content.decode("utf-8") if code % 2 else content), size
