"""What a person said or typed, as a request: an interjection goes past the speaker's lane, everything else joins it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from appliance.contracts import lane as lanes
from appliance.contracts.admission import PRIORITY_INTERJECTION, Arrival, Door, Request, RequestKind

IsInterjection = Callable[[str, str], bool]
"""Whether a text in a language is about what is being done now ("stop that") and cannot wait behind it."""


def never(text: str, language: str) -> bool:
    """No text is an interjection."""
    return False


def spoken_request(
    is_interjection: IsInterjection,
    door: Door,
    lane: str,
    key: str,
    payload: Mapping[str, Any],
    priority: int,
    arrival: Arrival = Arrival.QUEUE,
) -> Request:
    """Return the request for a payload with ``text`` and ``language``. An interjection joins nothing: its arrival is QUEUE."""
    if is_interjection(str(payload["text"]), str(payload["language"])):
        return Request(door, RequestKind.INTERJECTION, lanes.beside(lane), key, payload, PRIORITY_INTERJECTION)
    return Request(door, RequestKind.UTTERANCE, lane, key, payload, priority, arrival)
