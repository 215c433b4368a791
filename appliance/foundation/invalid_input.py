"""What is wrong with what somebody sent. Pydantic and FastAPI name where it was sent, and put words before ours: not here.

Pure. In: one of pydantic's faults. Out: the field, and what is wrong with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_BEFORE_OURS = "Value error, "
_BODY = "body"  # where FastAPI puts what was sent: nothing that anybody wrote, so it is named only when the whole is meant


def field_of(fault: Mapping[str, Any]) -> str:
    """Return the field that a fault is about, its parts joined by dots."""
    where = list(fault["loc"])
    if fault["type"] == "json_invalid":  # behind the body comes the place of a character
        where = [_BODY]
    return ".".join(map(str, where[1:] if where[:1] == [_BODY] and len(where) > 1 else where))


def words_of(fault: Mapping[str, Any]) -> str:
    """Return what is wrong."""
    return str(fault["msg"]).removeprefix(_BEFORE_OURS)


def sentence_of(fault: Mapping[str, Any]) -> str:
    """Return both as one sentence; what we say of the whole is one by itself."""
    field = field_of(fault)
    return words_of(fault) if field in ("", _BODY) and fault["type"] == "value_error" else f"{field}: {words_of(fault)}"
