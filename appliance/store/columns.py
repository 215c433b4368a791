"""How values are written in columns: times as ISO-8601 UTC text of fixed width, structures as canonical JSON."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from appliance.foundation.canonical import canonical_json


@functools.lru_cache(maxsize=8)  # the rows of one transaction carry the same moment
def utc_text(moment: datetime) -> str:
    """Return ``2026-03-02T08:00:00.000000+00:00``: microseconds always, so that text order is time order."""
    return (moment if moment.tzinfo is UTC else moment.astimezone(UTC)).isoformat(timespec="microseconds")


def to_utc(text: str) -> datetime:
    """Read :func:`utc_text`."""
    return datetime.fromisoformat(text)


def to_utc_if_whole(text: str) -> datetime | None:
    """Read :func:`utc_text`; None if that is not what it is, for a page of the file may be damaged and still be read."""
    try:
        moment = datetime.fromisoformat(text)
    except (ValueError, TypeError):
        return None
    return None if moment.tzinfo is None else moment


def to_utc_or_none(text: str | None) -> datetime | None:
    """Read :func:`utc_text` of a nullable column."""
    return None if text is None else to_utc(text)


def json_text(content: Mapping[str, Any]) -> str:
    """Return canonical JSON."""
    return canonical_json(content)


def json_text_or_none(content: Mapping[str, Any] | None) -> str | None:
    """Return canonical JSON, or None for a nullable column."""
    return None if content is None else canonical_json(content)


def to_json(text: str) -> dict[str, Any]:
    """Read :func:`json_text`."""
    content: dict[str, Any] = json.loads(text)
    return content


def to_json_or_none(text: str | None) -> dict[str, Any] | None:
    """Read :func:`json_text` of a nullable column."""
    return None if text is None else to_json(text)
