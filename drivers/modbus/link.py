"""A link to one PLC or gateway: one socket, one request at a time, reconnecting by itself with bounded, jittered backoff."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from appliance.contracts.clock import Clock
from appliance.contracts.errors import Unavailable, Uncertain
from appliance.contracts.link import Link
from appliance.contracts.tag import RegisterKind
from appliance.foundation.backoff import delays_s
from drivers.modbus.answers import comes_from_device, refused_read, refused_write
from drivers.modbus.connection import Connection, ExceptionAnswer, NoAnswer

T = TypeVar("T")

log = logging.getLogger(__name__)

_FIRST_RETRY_S, _LONGEST_RETRY_S = 0.1, 10.0


class ModbusLink:
    """Reads and writes raw registers of one link.

    ``on_change`` is told when the device comes into sight (an empty text) and when it is lost (why), not of every failure.
    A link is online only after a good answer, never because a socket is open.
    """

    def __init__(self, link: Link, clock: Clock, on_change: Callable[[str], None]) -> None:
        self._link = link
        self._clock = clock
        self._on_change = on_change
        self._lock = asyncio.Lock()
        self._connection: Connection | None = None
        self._was_answered = False  # on the current connection
        self._waits = delays_s(_FIRST_RETRY_S, _LONGEST_RETRY_S)
        self._wait_s = 0.0
        self._opened_at_ns = 0
        self._retry_at_ns = 0
        self._why: str | None = None  # None before the first attempt
        self._failures = 0
        self._answered_at_ns: int | None = None

    @property
    def is_online(self) -> bool:
        """Whether the newest exchange brought a good answer."""
        return self._why == ""

    def quiet_s(self) -> float | None:
        """Seconds since the last good answer, None when there never was one."""
        if self._answered_at_ns is None:
            return None
        return (self._clock.monotonic_ns() - self._answered_at_ns) / 1e9

    async def read(self, device_id: int, kind: RegisterKind, address: int, count: int) -> tuple[int, ...]:
        """Read ``count`` registers or bits from wire address ``address``; tried again ``retries`` times.

        Raises:
            Unavailable: no good answer, or the device says not now.
            Refused: the device says no; facts hold its ``exception_code``.
        """
        where = f"{kind} {address} of device {device_id} on {self._link.id}"
        async with self._lock:
            for tries_left in range(self._link.retries, -1, -1):
                try:
                    return await self._exchange(lambda to: to.read(device_id, kind, address, count))
                except ExceptionAnswer as answer:
                    raise refused_read(answer.code, where) from answer
                except NoAnswer as silence:
                    if not tries_left or not self._was_answered:  # a connection that never worked earns no second try
                        raise self._lost_sight(silence.why) from silence
        raise AssertionError("the last try returns or raises")

    async def write(self, device_id: int, kind: RegisterKind, address: int, raw: tuple[int, ...]) -> None:
        """Write ``raw`` once; a write is never sent again.

        Raises:
            Refused: the device says no; nothing was written.
            Unavailable: nothing was sent, or the device says not now.
            Uncertain: it was sent, and no good answer came.
        """
        where = f"{kind} {address} of device {device_id} on {self._link.id}"
        async with self._lock:
            try:
                await self._exchange(lambda to: to.write(device_id, kind, address, raw))
            except ExceptionAnswer as answer:
                raise refused_write(answer.code, where) from answer
            except NoAnswer as silence:
                unseen = self._lost_sight(silence.why)
                if silence.was_sent:
                    raise Uncertain(f"{where}: sent, but {silence.why}", link=self._link.id) from silence
                raise unseen from silence

    def close(self) -> None:
        """Close the socket; the next request opens a new one."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    async def _exchange(self, ask: Callable[[Connection], Awaitable[T]]) -> T:
        connection = await self._connected()
        was_answered = False
        try:
            answer = await ask(connection)
            was_answered = True
        except ExceptionAnswer as refusal:
            was_answered = True
            if comes_from_device(refusal.code):
                self._note_good()
            raise
        finally:
            if not was_answered:  # silence, loss, nonsense or cancellation: what comes later must not be taken for an answer
                self._drop()
        self._note_good()
        return answer

    async def _connected(self) -> Connection:
        """Return a usable connection, opening one unless the backoff says to wait.

        Raises:
            Unavailable: it cannot be opened, or it is too soon to try again.
        """
        if self._connection is not None:
            if self._connection.is_usable:
                return self._connection
            self._drop()
        wait_s = (self._retry_at_ns - self._clock.monotonic_ns()) / 1e9
        if wait_s > 0 and self._was_answered:  # it worked a moment ago: the first pause, a tenth of a second, is sat out
            await asyncio.sleep(wait_s)
        elif wait_s > 0:
            raise Unavailable(f"{self._link.id}: {self._why or 'not connected'}", retry_after_s=wait_s, link=self._link.id)
        connection = Connection(self._link)
        self._was_answered = False
        # Counted from the attempt, so that a PLC which takes connections and drops them is not asked in a tight loop.
        self._wait_s = next(self._waits)
        self._opened_at_ns = self._clock.monotonic_ns()
        self._retry_at_ns = self._opened_at_ns + int(self._wait_s * 1e9)
        is_open = False
        try:
            is_open = await connection.open()
        finally:
            if not is_open:
                connection.close()
        if not is_open:
            raise self._lost_sight("cannot connect")
        self._connection = connection
        return connection

    def _drop(self) -> None:
        self.close()
        if not self._was_answered:  # it never worked: the pause starts now
            self._retry_at_ns = self._clock.monotonic_ns() + int(self._wait_s * 1e9)

    def _note_good(self) -> None:
        self._answered_at_ns = self._clock.monotonic_ns()
        if not self._was_answered:  # it works: should it be lost, the pause is the first one again
            self._was_answered = True
            self._retry_at_ns = self._opened_at_ns + int(_FIRST_RETRY_S * 1e9)
        self._waits = delays_s(_FIRST_RETRY_S, _LONGEST_RETRY_S)
        if self._failures:
            log.info("modbus.link_recovered", extra={"link": self._link.id, "failures": self._failures})
            self._failures = 0
        self._say("")

    def _lost_sight(self, why: str) -> Unavailable:
        self._failures += 1
        self._say(why)
        wait_s = max(_FIRST_RETRY_S, (self._retry_at_ns - self._clock.monotonic_ns()) / 1e9)
        return Unavailable(f"{self._link.id}: {why}", retry_after_s=wait_s, link=self._link.id)

    def _say(self, why: str) -> None:
        before, self._why = self._why, why
        if before is None or bool(before) != bool(why):
            self._on_change(why)
