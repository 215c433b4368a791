"""Structured logs: one JSON line an event, with the turn it belongs to."""

from __future__ import annotations

import json
import logging
import sys
from contextvars import ContextVar

current_turn: ContextVar[str] = ContextVar("current_turn", default="")

_PLAIN = frozenset(vars(logging.LogRecord("", 0, "", 0, "", (), None))) | {"message", "asctime", "taskName"}


class JsonLines(logging.Formatter):
    """``{"at": …, "level": …, "event": …, "turn": …, **fields}``."""

    def format(self, record: logging.LogRecord) -> str:
        """Return one line of JSON; values that are not JSON are written as their text."""
        line: dict[str, object] = {
            "at": round(record.created, 3),
            "level": record.levelname.lower(),
            "from": record.name,
            "event": record.getMessage(),
        }
        if turn := current_turn.get():
            line["turn"] = turn
        line |= {k: v for k, v in vars(record).items() if k not in _PLAIN}
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str, ensure_ascii=False)


def start_logging(level: str) -> None:
    """Send everything to standard error (the journal) as JSON lines. ``level`` is a logging level name."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    logging.getLogger("httpx").setLevel("WARNING")
    logging.getLogger("httpcore").setLevel("WARNING")
