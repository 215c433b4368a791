"""The gateway's journal: an alarm is written down before it is published, and struck off when the broker has it."""

from __future__ import annotations

import json
import os
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Entry:
    """One message to publish. ``number`` counts from 1."""

    number: int
    topic: str
    payload: dict[str, Any]


class Journal:
    """Append-only lines in ``path``, each on disk before the call returns; without a path, in memory."""

    def __init__(self, path: Path | None) -> None:
        self.acknowledged = 0
        self._open: deque[Entry] = deque()
        self._written = 0
        if path is not None and path.exists():
            self._load(path)
        self._file = path.open("ab") if path is not None else None

    @property
    def written(self) -> int:
        """Entries ever written."""
        return self._written

    def append(self, topic: str, payload: dict[str, Any]) -> Entry:
        """Write an entry down."""
        self._written += 1
        entry = Entry(self._written, topic, payload)
        self._save({"number": entry.number, "topic": topic, "payload": payload})
        self._open.append(entry)
        return entry

    def oldest(self) -> Entry | None:
        """Return the oldest entry the broker does not have."""
        return self._open[0] if self._open else None

    def strike(self, entry: Entry) -> None:
        """Note that the broker has the oldest entry."""
        assert self._open and self._open[0] is entry, "entries are struck off in order"
        self._save({"acknowledged": entry.number})
        self._open.popleft()
        self.acknowledged += 1

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()

    def _save(self, line: dict[str, Any]) -> None:
        if self._file is not None:
            self._file.write(json.dumps(line).encode() + b"\n")
            self._file.flush()
            os.fsync(self._file.fileno())

    def _load(self, path: Path) -> None:
        lines, _, torn = path.read_bytes().rpartition(b"\n")
        os.truncate(path, path.stat().st_size - len(torn))  # what has no end of line was being written when power went
        for raw in lines.split(b"\n") if lines else ():
            line = json.loads(raw)
            if "acknowledged" in line:
                self._open.popleft()
                self.acknowledged += 1
            else:
                self._written = line["number"]
                self._open.append(Entry(line["number"], line["topic"], line["payload"]))
