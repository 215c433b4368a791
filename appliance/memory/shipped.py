"""How shipped playbooks reach the repository without touching what people changed there. Pure.

The repository keeps the shipped set as it came in ``shipped/`` and the one in use in ``playbooks/``. A shipped file that
changed replaces the one in use only if nobody edited that; an edited one stays, and the new text lies in ``shipped/`` to be
compared. Deleting a file is an edit like any other.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

IN_USE, AS_SHIPPED = "playbooks", "shipped"
_LARGEST_BYTES = 1_000_000  # a playbook is text a person reads


@dataclass(frozen=True, slots=True)
class Import:
    """What to do with the files: ``write`` and ``remove`` in use, ``kept`` as people left them. Paths below the folders."""

    write: tuple[str, ...]
    remove: tuple[str, ...]
    kept: tuple[str, ...]
    changed: tuple[str, ...]

    @property
    def message(self) -> str:
        """The commit's message."""
        lines = [f"Take over shipped playbooks: {len(self.write)} written, {len(self.remove)} removed, {len(self.kept)} kept", ""]
        lines += [f"kept as edited here: {path}" for path in self.kept]
        return "\n".join(lines).strip()


def decide_import(new: Mapping[str, str], base: Mapping[str, str], mine: Mapping[str, str]) -> Import:
    """Compare blob ids by path: the set shipped now, the one shipped last, the one in use."""
    write, remove, kept, changed = [], [], [], []
    for path in sorted(new.keys() | base.keys()):
        now, before, here = new.get(path), base.get(path), mine.get(path)
        if now == before:
            continue
        changed.append(path)
        if here == now:
            continue
        if here != before:
            kept.append(path)
        elif now is None:
            remove.append(path)
        else:
            write.append(path)
    return Import(tuple(write), tuple(remove), tuple(kept), tuple(changed))


def read_tree(folder: Path) -> dict[str, bytes]:
    """Return the files below a folder by relative path; hidden ones, links and files over 1 MB are not playbooks."""
    found: dict[str, bytes] = {}
    for path in sorted(folder.rglob("*")):
        relative = path.relative_to(folder)
        if path.is_symlink() or not path.is_file() or any(part.startswith(".") for part in relative.parts):
            continue
        if path.stat().st_size <= _LARGEST_BYTES:
            found[relative.as_posix()] = path.read_bytes()
    return found


def read_ids(folder: Path) -> dict[str, str]:
    """Return the blob id of each of these files by relative path."""
    return {path: blob_id(content) for path, content in read_tree(folder).items()}


def blob_id(content: bytes) -> str:
    """Return the id git gives to this content (SHA-1 repositories)."""
    return hashlib.sha1(b"blob %d\x00" % len(content) + content, usedforsecurity=False).hexdigest()
