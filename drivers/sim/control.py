"""Orders to the simulated plant: JSON lines in, JSON lines out."""

from __future__ import annotations

import asyncio
import json
import os
import stat
import sys
from collections.abc import Callable
from typing import Any

from appliance.contracts.errors import Malformed, Refused

Order = dict[str, Any]


def report(**fields: Any) -> None:
    """Write one line to standard output: ``{"event": …, …}``."""
    sys.stdout.write(json.dumps(fields) + "\n")
    sys.stdout.flush()


async def follow_orders(orders: dict[str, Callable[[Order], None]], stop: Callable[[], None]) -> None:
    """Read orders ``{"do": …}`` from standard input until its end, then stop. A bad order is reported, not fatal."""
    if not _can_be_awaited(sys.stdin.fileno()):
        for line in sys.stdin.buffer:
            _try(orders, line)
        stop()
        return
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    try:
        while line := await reader.readline():
            _try(orders, line)
    finally:
        transport.close()
    stop()


def _can_be_awaited(descriptor: int) -> bool:
    """Whether the event loop can wait for it: a pipe, a socket, a terminal; not a file or /dev/null."""
    mode = os.fstat(descriptor).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(descriptor)


def _try(orders: dict[str, Callable[[Order], None]], line: bytes) -> None:
    try:
        obey(orders, line)
    except (Malformed, Refused) as error:
        report(event="refused", why=error.message)


def obey(orders: dict[str, Callable[[Order], None]], line: bytes) -> None:
    """Carry out one order.

    Raises:
        Malformed: it is not an order, or lacks what it needs.
        Refused: it cannot be done here.
    """
    try:
        order = json.loads(line)
        name = order["do"]
        carry_out = orders[name]
    except (ValueError, TypeError, KeyError) as error:
        raise Malformed(f"an order is one of {', '.join(sorted(orders))}") from error
    try:
        carry_out(order)
    except (KeyError, TypeError, ValueError) as error:
        raise Malformed(f"{name}: {error}") from error
    report(event="done", do=name)
