"""Results that are too long for the ledger, as files beside it (T9). The ledger keeps their beginning, and where the rest is.

A file is on disk before the commit that tells of it, under a name that follows from the action: written again it is the same.
Its first line says whose it is and what follows; the rest is the result's canonical JSON. The folder is bounded: those of the
oldest steps go first, by the ledger's order. How old a file is nobody asks: the clock may have been set since.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from appliance.contracts.errors import Corrupt, Refused, Unavailable
from appliance.contracts.principal import AccessLevel
from appliance.contracts.store import Transaction
from appliance.contracts.tool import ToolCall, ToolContract, ToolResult
from appliance.execution.results import LONGEST_RESULT, LONGEST_TURN, PREVIEW, written
from appliance.foundation import private_file
from appliance.foundation.canonical import canonical_json
from appliance.foundation.supervisor import Degraded
from appliance.store import actions

log = logging.getLogger(__name__)

LONGEST_FILE = 8_000_000  # characters of one result; a plant's whole event log is a tenth of it
MOST_BYTES = 64_000_000  # of the folder; the data partition of the smallest card has a few GB
MOST_FILES = 2_000  # of the folder, since each is looked at whenever one comes: some milliseconds

SPILLED = "spilled"
"""Field of a result that was cut: what ``read_result`` is asked for; empty when the rest is lost."""

LOST = "why"
"""Field of a result that was cut, when not all of it is kept anywhere: why not."""

PART = "spill"
"""Part that is degraded while long results cannot be kept whole, and after one that was kept could not be read any more."""

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


@dataclass(frozen=True, slots=True)
class Piece:
    """Characters of a result from ``offset`` on; ``of`` is how many there are."""

    text: str
    offset: int
    of: int


class Spill:
    """The folder of long results. Written by the ledger's writer thread, read from the event loop."""

    def __init__(
        self,
        folder: Path,
        *,
        degraded: Degraded | None = None,
        most_bytes: int = MOST_BYTES,
        most_files: int = MOST_FILES,
    ) -> None:
        self._folder = folder
        self._degraded = degraded or Degraded()
        self._most_bytes = most_bytes
        self._most_files = most_files

    def bounded(self, tx: Transaction, call: ToolCall, contract: ToolContract, result: ToolResult) -> ToolResult:
        """Return a result as the ledger keeps it: as it is within the budgets of a result and of its turn, else its beginning.

        What lies beyond is on disk when this returns. A disk that has no room for it takes nothing from the result's own row,
        which then says why the rest is lost; tell of it with :meth:`noted` once the row is on disk.

        Raises:
            BrokenResult: it holds what JSON has no word for.
        """
        text = written(result.value)
        if len(text) <= PREVIEW:
            return result
        if len(text) <= LONGEST_RESULT and actions.kept_chars(tx, call.turn_id) + len(text) <= LONGEST_TURN:
            return result
        name, why = call.action_id, ""
        if len(text) > LONGEST_FILE:
            why = f"only its first {LONGEST_FILE} characters are kept"
        try:
            self._keep(tx, name, call, contract, text[:LONGEST_FILE])
        except OSError as error:
            log.warning("result.not_spilled", extra={"action": name, "length": len(text), "why": str(error)})
            name, why = "", f"only its beginning could be kept: {error.strerror or error}"
        cut: dict[str, Any] = {"truncated": True, "length": len(text), "preview": text[:PREVIEW], SPILLED: name}
        return replace(result, value=cut | ({LOST: why} if why else {}))

    def noted(self, result: ToolResult) -> None:
        """Name the part while long results cannot be kept whole. Call it on the event loop with what :meth:`bounded` returned."""
        if is_lost(result.value):
            self._degraded.mark(PART, f"long results cannot be kept whole: {result.value[LOST]}")
        elif SPILLED in result.value and result.value.get("truncated"):
            self._degraded.clear(PART)

    async def read(self, name: str, *, session_id: str, level: AccessLevel, offset: int, length: int) -> Piece:
        """Return part of a long result.

        Raises:
            Refused: it is not kept, is damaged, belongs to another session, or came from a tool above ``level``: each in the same
                words, for nobody knows any more whose a damaged one is.
            Unavailable: the file cannot be read now.
        """
        if not _NAME.fullmatch(name):
            raise _gone(name)
        try:
            kept = await asyncio.to_thread(_read, self._folder / f"{name}.json")
        except FileNotFoundError as error:
            raise _gone(name) from error
        except Corrupt as damaged:
            self._degraded.mark(PART, f"a long result that was kept cannot be read any more: {damaged.message}")
            raise _gone(name) from damaged
        except OSError as error:
            away = Unavailable(f"the rest of that result cannot be read now: {error.strerror}", result=name)
            raise away.worded("result_unreadable") from error
        if kept.session_id != session_id or kept.level > level:
            raise _gone(name)
        return Piece(kept.text[offset : offset + length], offset, len(kept.text))

    def _keep(self, tx: Transaction, name: str, call: ToolCall, contract: ToolContract, text: str) -> None:
        level, body = contract.security.access_level.word, text.encode()
        head = {"session": call.session_id, "turn": call.turn_id, "tool": call.tool, "level": level, "sha256": _sum(body)}
        content = canonical_json(head).encode() + b"\n" + body
        self._folder.mkdir(mode=0o750, parents=True, exist_ok=True)
        self._make_room(tx, len(content))
        private_file.replace(self._folder / f"{name}.json", content)
        log.info("result.spilled", extra={"action": name, "tool": call.tool, "bytes": len(content)})

    def _make_room(self, tx: Transaction, coming_bytes: int) -> None:
        """Remove what belongs to no step, and those of the oldest steps, until there is room for what comes."""
        size_of = {path: path.stat().st_size for path in self._folder.iterdir() if path.is_file()}
        place_of = {action: place for place, action in enumerate(actions.in_order(tx, [path.stem for path in size_of]))}
        used_bytes, count = sum(size_of.values()) + coming_bytes, len(size_of) + 1
        for path in sorted(size_of, key=lambda path: (place_of.get(path.stem, -1), path.name)):
            if used_bytes <= self._most_bytes and count <= self._most_files:
                break
            path.unlink(missing_ok=True)
            used_bytes, count = used_bytes - size_of[path], count - 1


@dataclass(frozen=True, slots=True)
class _Kept:
    """A file of the folder, read."""

    session_id: str
    level: AccessLevel
    text: str


def _read(path: Path) -> _Kept:
    """Return what a file holds.

    Raises:
        Corrupt: not what was written.
        OSError: it is not there, or cannot be read now.
    """
    head, _, body = path.read_bytes().partition(b"\n")
    try:
        owner = json.loads(head)
        if owner["sha256"] != _sum(body):
            raise Corrupt(f"{path.name} does not hold what was written", file=str(path))
        return _Kept(str(owner["session"]), AccessLevel.of_word(owner["level"]), body.decode())
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise Corrupt(f"{path.name} does not begin as it was written", file=str(path)) from error


def _sum(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()


def is_lost(value: Mapping[str, Any]) -> bool:
    """Whether a result was cut and the rest could not be kept."""
    return bool(value.get("truncated")) and value.get(SPILLED) == ""


def _gone(name: str) -> Refused:
    """Return the one refusal of a result that is not there, or not for whoever asks."""
    return Refused("that result is not kept any more; ask for it again", result=name).worded("result_gone")
