"""What the core and the warden say to each other: one JSON object a line, over a socket that both die with.

Core to warden: ``{"id", "what": "run" | "verify", "where": "module:Class", "init", "call", "bound_ms"}`` makes a call,
``{"stop": id}`` stops one. Warden to core: ``{"ready": true}`` once, then ``{"id", "ended": Ended, "why", "said"}`` for each
call; ``said`` is what the worker wrote before it ended, which only the core looks into.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from appliance.execution.results import LONGEST_RESULT

LONGEST_SAID_BYTES = 6 * LONGEST_RESULT  # a result of the greatest length, each character escaped as six
STOP_PATIENCE_S = 0.5  # what a stopped worker has to say what it did, before it is killed; the turn ends a second after the stop


class Ended(StrEnum):
    """How a worker ended: by itself, killed at its bound, stopped, or killed because it said too much."""

    ITSELF = "itself"
    TIMEOUT = "timeout"
    STOPPED = "stopped"
    FLOOD = "flood"


def line_of(message: Mapping[str, Any]) -> bytes:
    """Return a message as it is sent."""
    return json.dumps(message, separators=(",", ":")).encode() + b"\n"
