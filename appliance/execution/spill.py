"""Results that are too long for the ledger, as files beside it (T9). The ledger keeps their beginning, and where the rest is.

A file is on disk before the commit that tells of it, under a name that follows from the action: written again it is the same.
Its first line says whose it is; the rest is the result's canonical JSON. The folder is bounded: the oldest go first, and all
do after a week.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from appliance.contracts.clock import Clock
from appliance.contracts.errors import Refused, Unavailable
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
OLDEST_S = 7 * 24 * 3600.0  # nobody pages through an answer of last week

SPILLED = "spilled"
"""Field of a result that was cut: what ``read_result`` is asked for; empty when the rest is lost."""

LOST = "why"
"""Field of a result that was cut, when not all of it is kept anywhere: why not."""

PART = "spill"
"""Part that is degraded while long results cannot be kept whole."""

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


@dataclass(frozen=True, slots=True)
class Piece:
    """Characters of a result from ``offset`` on; ``of`` is how many there are."""

    text: str
    offset: int
    of: int


class Spill:
    """The folder of long results. Written by the ledger's writer thread, read by anybody."""

    def __init__(
        self,
        folder: Path,
        clock: Clock,
        *,
        degraded: Degraded | None = None,
        most_bytes: int = MOST_BYTES,
        oldest_s: float = OLDEST_S,
    ) -> None:
        self._folder = folder
        self._clock = clock
        self._degraded = degraded or Degraded()
        self._most_bytes = most_bytes
        self._oldest_s = oldest_s

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
            self._keep(name, call, contract, text[:LONGEST_FILE])
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

    def read(self, name: str, *, session_id: str, level: AccessLevel, offset: int, length: int) -> Piece:
        """Return part of a long result.

        Raises:
            Refused: it is not kept, belongs to another session, or came from a tool above ``level``: each in the same words.
            Unavailable: the file cannot be read now.
        """
        if not _NAME.fullmatch(name):
            raise _gone(name)
        try:
            head, _, text = (self._folder / f"{name}.json").read_text("utf-8").partition("\n")
        except FileNotFoundError as error:
            raise _gone(name) from error
        except OSError as error:
            away = Unavailable(f"the rest of that result cannot be read now: {error.strerror}", result=name)
            raise away.worded("result_unreadable") from error
        owner = json.loads(head)
        if owner["session"] != session_id or AccessLevel.of_word(owner["level"]) > level:
            raise _gone(name)
        return Piece(text[offset : offset + length], offset, len(text))

    def _keep(self, name: str, call: ToolCall, contract: ToolContract, text: str) -> None:
        level = contract.security.access_level.word
        head = canonical_json({"session": call.session_id, "turn": call.turn_id, "tool": call.tool, "level": level})
        content = f"{head}\n{text}".encode()
        self._folder.mkdir(mode=0o750, parents=True, exist_ok=True)
        self._sweep(len(content))
        private_file.replace(self._folder / f"{name}.json", content)
        log.info("result.spilled", extra={"action": name, "tool": call.tool, "bytes": len(content)})

    def _sweep(self, coming_bytes: int) -> None:
        """Remove what is too old, and the oldest until there is room for what comes."""
        kept = sorted(_files(self._folder))
        used_bytes = sum(size for _, size, _ in kept) + coming_bytes
        eldest_s = self._clock.utc().timestamp() - self._oldest_s
        for written_s, size, path in kept:
            if written_s > eldest_s and used_bytes <= self._most_bytes:
                break
            path.unlink(missing_ok=True)
            used_bytes -= size


def is_lost(value: Mapping[str, Any]) -> bool:
    """Whether a result was cut and the rest could not be kept."""
    return bool(value.get("truncated")) and value.get(SPILLED) == ""


def _gone(name: str) -> Refused:
    """Return the one refusal of a result that is not there, or not for whoever asks."""
    return Refused("that result is not kept any more; ask for it again", result=name).worded("result_gone")


def _files(folder: Path) -> Iterator[tuple[float, int, Path]]:
    for path in folder.iterdir():
        if path.is_file():
            found = path.stat()
            yield found.st_mtime, found.st_size, path
