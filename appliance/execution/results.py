"""What is kept of a call's outcome: plain JSON, of bounded size, with words fit to be spoken and no traceback (T7, T9)."""

from __future__ import annotations

import logging
import unicodedata
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pydantic_core import to_jsonable_python

from appliance.contracts.errors import BrokenResult, FloorhandError
from appliance.contracts.tool import EffectDisposition, ToolResult
from appliance.foundation.canonical import canonical_json

log = logging.getLogger(__name__)

LONGEST_ERROR = 2_048  # characters; requirements T9
LONGEST_RESULT = 100_000  # characters of canonical JSON; requirements T9
LONGEST_TURN = 200_000  # characters of all results of a turn; requirements T9
PREVIEW = 1_500  # characters kept of a longer one; requirements T9

TIMEOUT = "timeout"
NEEDS_YES = "needs_yes"
"""Error code of a call that waits for a person's yes nobody gave."""


def success(value: Mapping[str, Any], disposition: EffectDisposition) -> ToolResult:
    """Return the result of a call that was done; a value beyond the bound is replaced by a preview that says so.

    Raises:
        BrokenResult: it holds what JSON has no word for.
    """
    text = written(value)
    if len(text) > LONGEST_RESULT:
        log.warning("result.cut", extra={"length": len(text)})
        value = {"truncated": True, "length": len(text), "preview": text[:PREVIEW]}
    return ToolResult(ok=True, value=value, disposition=disposition)


def written(value: Mapping[str, Any]) -> str:
    """Return a result as canonical JSON.

    Raises:
        BrokenResult: it holds what JSON has no word for, as NaN.
    """
    try:
        return canonical_json(dict(value))
    except ValueError as error:
        raise BrokenResult(f"the result is no JSON: {error}", tool="", field="result") from error


def whole(value: Mapping[str, Any], disposition: EffectDisposition) -> ToolResult:
    """Return the result of a call that was done, of any length: whoever records it bounds it."""
    return ToolResult(ok=True, value=value, disposition=disposition)


def failure(code: str, message: str, disposition: EffectDisposition) -> ToolResult:
    """Return the result of a call that was not done, or of which that is not known."""
    return ToolResult(ok=False, value={}, disposition=disposition, error_code=code, error=sanitised(message))


def failure_of(error: FloorhandError, disposition: EffectDisposition) -> ToolResult:
    """Return the result of a call that ended in one of our errors."""
    return replace(failure(error.code, error.message, disposition), reply=error.reply, words=error.words)


def sanitised(message: str) -> str:
    """Return one line without control characters, cut at 2,048 characters."""
    visible = "".join(" " if unicodedata.category(c)[0] in "CZ" else c for c in message)
    line = " ".join(visible.split())
    return line if len(line) <= LONGEST_ERROR else line[: LONGEST_ERROR - 1] + "…"


def plain(value: Mapping[str, Any]) -> dict[str, Any]:
    """Return evidence as JSON-ready fields."""
    fields: dict[str, Any] = to_jsonable_python(dict(value))
    return fields


def stored(result: ToolResult) -> dict[str, Any]:
    """Return the form in the action's row: the value's own fields on top, so that templates read ``{steps.x.field}``."""
    kept = {**result.value, "effect_disposition": str(result.disposition)}
    if not result.ok:
        kept |= {"error_code": result.error_code, "error": result.error}
    return kept
