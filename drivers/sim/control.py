"""Orders to the simulated plant from its standard input: JSON lines, or words as people type them."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from pydantic import ValidationError

from appliance.contracts.errors import ConfigError, Malformed, Refused
from appliance.foundation.invalid_input import words_of
from appliance.foundation.strict_yaml import read_yaml
from drivers.sim.orders import ORDERS, Order
from drivers.sim.vocabulary import TIMING

Obey = Callable[[Order], None]
Report = Callable[..., None]

# Schema of each order by name. Words typed without a name are its fields, in the model's own order.
_CHOICES: dict[str, Any] = {each["properties"]["do"]["const"]: each for each in ORDERS.json_schema()["$defs"].values()
                            if "do" in each.get("properties", {})}  # fmt: skip


def can_be_awaited(descriptor: int) -> bool:
    """Whether the event loop can wait for it: a pipe, a socket, a terminal; not a file or /dev/null."""
    mode = os.fstat(descriptor).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(descriptor)


async def follow_orders(obey: Obey, stop: Callable[[], None], report: Report) -> None:
    """Read orders from standard input until its end, then stop. A bad order is reported, not fatal."""
    if not can_be_awaited(sys.stdin.fileno()):
        for line in sys.stdin.buffer:
            follow(obey, line, report)
        stop()
        return
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), _source())
    try:
        while line := await reader.readline():
            follow(obey, line, report)
    finally:
        transport.close()
    stop()


def _source() -> IO[Any]:
    """Standard input; a terminal is opened once more, because waiting for it must not make its output side non-blocking."""
    descriptor = sys.stdin.fileno()
    return Path(os.ttyname(descriptor)).open("rb", buffering=0) if os.isatty(descriptor) else sys.stdin


def follow(obey: Obey, line: bytes, report: Report) -> None:
    """Carry out one line, and report that it is done or why not. An empty line is nothing."""
    if not line.strip():
        return
    try:
        order = parse_order(line)
        obey(order)
    except (Malformed, Refused) as error:
        report(event="refused", why=error.message)
    else:
        report(event="done", do=order.do)


def parse_order(line: bytes) -> Order:
    """Return the order in a line.

    Raises:
        Malformed: it is not an order; the message says which there are, or what it lacks.
    """
    try:
        text = line.decode("utf-8").strip()
        told = json.loads(text) if text.startswith(("{", "[", '"')) else _from_words(shlex.split(text))
        name = told["do"]
        if name not in _CHOICES:
            raise ValueError(name)
    except (ValueError, TypeError, KeyError, IndexError, ConfigError) as error:
        raise Malformed(f"an order is one of {', '.join(sorted(_CHOICES))}") from error
    try:
        return ORDERS.validate_python(told)
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        place = ".".join(str(part) for part in fault["loc"][1:])
        raise Malformed(f"{name}: {place + ': ' if place else ''}{words_of(fault)}") from error


def _from_words(words: list[str]) -> dict[str, Any]:
    name = words[0].replace("-", "_")
    told: dict[str, Any] = {"do": name}
    places = [field for field in _CHOICES[name]["properties"] if field not in ("do", *TIMING)]
    for word in words[1:]:
        key, equals, value = word.partition("=")
        if equals:
            told[key] = read_yaml(value, "order")
        else:
            told[places.pop(0)] = read_yaml(word, "order")
    return told
