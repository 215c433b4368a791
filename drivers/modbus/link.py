"""A link to one PLC, gateway or serial line: one socket, one request at a time, fair between units, reconnecting by itself.

In: raw reads and writes of any number of tasks. Out: raw registers, and word of what comes into sight and what is lost.
Who calls: the field bus and the poller.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection

from appliance.contracts.clock import Clock
from appliance.contracts.errors import Unavailable, Uncertain
from appliance.contracts.link import Link, LinkProtocol
from appliance.contracts.tag import RegisterKind
from appliance.foundation.backoff import delays_s
from drivers.modbus.answers import comes_from_device, meaning_of, refused_read, refused_write
from drivers.modbus.connection import Connection, ConnectionLost, NoAnswer, Nonsense
from drivers.modbus.requests import ExceptionAnswer, Request, mask_write_request, read_request, write_request
from drivers.modbus.sight import Sight
from drivers.modbus.turns import TurnOrder
from drivers.modbus.units import FIRST_RETRY_S, LONGEST_RETRY_S, Unit, Units

_RTU = (LinkProtocol.RTU, LinkProtocol.RTU_OVER_TCP)
# A connection over which another unit answered so lately, or that is so new that others were not asked yet, is kept when a unit
# is silent; otherwise it may itself be dead.
_SOUND_FOR_S = LONGEST_RETRY_S
# After a time-out an RTU answer may come later by so many time-outs, but not by more seconds: a value that is stale for a while
# is better than one that belongs elsewhere.
_LATEST_TIMEOUTS, _LATEST_S = 4, 10.0


class ModbusLink:
    """Reads and writes raw registers of one link.

    ``on_change`` is told ``(device_id, why)`` when a unit is lost, ``(None, why)`` when the link is, which it is when nothing of
    it is in sight any more; with an empty ``why`` when it is in sight again. It is told of changes, not of every failure.
    A link or unit is online only after a good answer, never because a socket is open. ``expected`` are the units that will be
    asked: without it the link knows of a unit when it is asked first, and takes the loss of the only one it knows for its own.
    """

    def __init__(
        self, link: Link, clock: Clock, on_change: Callable[[int | None, str], None], *, expected: Collection[int] = ()
    ) -> None:
        self._link = link
        self._clock = clock
        self._turns = TurnOrder()
        self._units = Units(link, clock, expected)
        self._sight = Sight(link.id, self._units, clock, on_change)
        self._owed: dict[int, Request] = {}  # by unit: the request it may still answer, given up here
        self._connection: Connection | None = None
        self._closing: Connection | None = None
        self._was_answered = False  # on the current connection
        self._delays = delays_s(FIRST_RETRY_S, LONGEST_RETRY_S)
        self._delay_s = 0.0
        self._opened_at_ns = 0
        self._retry_at_ns = 0

    @property
    def is_online(self) -> bool:
        """Whether the newest exchange of some unit brought a good answer."""
        return self._sight.why == ""

    def is_device_online(self, device_id: int) -> bool:
        """Whether the newest exchange with this unit brought a good answer."""
        return self.is_online and self._units.is_in_sight(device_id)

    def quiet_s(self) -> float | None:
        """Seconds since the last good answer of any unit, None when there never was one."""
        return self._sight.quiet_s()

    async def read(self, device_id: int, kind: RegisterKind, address: int, count: int) -> tuple[int, ...]:
        """Read ``count`` registers or bits from wire address ``address``; tried again as often as the unit's ``retries`` say.

        Raises:
            Unavailable: no good answer, or the device says not now, or it is left alone after it fell silent.
            Refused: the device says no; facts hold its ``exception_code``.
        """
        return await self._ask(device_id, read_request(kind, address, count), f"{kind} {address}")

    async def write(
        self, device_id: int, kind: RegisterKind, address: int, raw: tuple[int, ...], *, multiple: bool = False
    ) -> None:
        """Write ``raw`` once; a write is never sent again. ``multiple`` takes function 15 or 16 even for one value.

        Raises:
            Refused: the device says no; nothing was written.
            Unavailable: nothing was sent, or the device says not now.
            Uncertain: it was sent, and no good answer came.
        """
        await self._ask(device_id, write_request(kind, address, raw, multiple=multiple), f"{kind} {address}")

    async def mask_write(self, device_id: int, address: int, *, and_mask: int, or_mask: int) -> None:
        """Let the device change some bits of a holding register by itself (function 22). Errors as for :meth:`write`."""
        request = mask_write_request(address, and_mask, or_mask)
        await self._ask(device_id, request, f"{RegisterKind.HOLDING_REGISTER} {address}")

    def close(self) -> None:
        """Close the socket; the next request opens a new one."""
        self._drop()
        self._turns.close()

    async def _ask(self, device_id: int, request: Request, what: str) -> tuple[int, ...]:
        where = f"{what} of device {device_id} on {self._link.id}"
        unit = self._units.of(device_id)
        tries = 0
        while True:
            self._leave_alone(unit)  # a unit that is left alone does not even wait
            await self._turns.take(device_id, first=tries > 0)
            try:
                self._leave_alone(unit)
                # Only a unit that answered a moment ago earns a second try: one that is silent shall not take time of the others.
                most = 1 + unit.retries if request.is_read and (unit.is_in_sight or tries) else 1
                tries += 1
                return await self._exchange(unit, request)
            except ExceptionAnswer as answer:
                raise (refused_read if request.is_read else refused_write)(answer.code, where) from answer
            except NoAnswer as silence:
                if tries >= most:
                    unseen = self._lost_sight(unit, silence)
                    if silence.was_sent and not request.is_read:
                        raise Uncertain(f"{where}: sent, but {silence.why}", link=self._link.id) from silence
                    raise unseen from silence
            finally:
                self._turns.give_back()

    def _leave_alone(self, unit: Unit) -> None:
        wait_s = unit.wait_s()
        if wait_s > 0 and unit.is_silent:
            raise self._unavailable(unit.why or "", max(wait_s, self._wait_s()))

    async def _exchange(self, unit: Unit, request: Request) -> tuple[int, ...]:
        connection = await self._connected()
        is_sound = False
        try:
            answer = await connection.ask(unit.id, request, unit.timeout_s)
            is_sound = True
        except ExceptionAnswer as refusal:
            is_sound = True
            self._note_refusal(unit, refusal)
            raise
        except NoAnswer as silence:
            is_sound = await self._is_sound_after(silence, connection, unit, request)
            raise
        except asyncio.CancelledError:
            self._hold_on_rtu(unit, request)
            is_sound = self._units.is_any_heard_within(_SOUND_FOR_S)
            raise
        finally:
            if not is_sound:
                self._drop()
        self._note_connection_works()
        self._sight.answered(unit)
        return answer

    async def _is_sound_after(self, silence: NoAnswer, connection: Connection, unit: Unit, request: Request) -> bool:
        """Decide whether the connection can be used for the next request. On RTU, first let pass what still comes."""
        if isinstance(silence, ConnectionLost) and self._link.protocol is LinkProtocol.RTU:
            return False  # the adapter is gone, and with it what would have come
        if self._link.protocol in _RTU:
            self._hold_on_rtu(unit, request)
            if not await connection.stays_quiet(self._link.quiet_s, unit.timeout_s):
                return False
        elif isinstance(silence, Nonsense) or not connection.is_between_frames:
            return False
        is_new = self._clock.monotonic_ns() - self._opened_at_ns < _SOUND_FOR_S * 1e9
        is_trusted = self._units.is_any_heard_within(_SOUND_FOR_S, but=unit) or (is_new and self._units.is_other_untried(unit))
        return connection.is_usable and is_trusted

    def _hold_on_rtu(self, unit: Unit, request: Request) -> None:
        """RTU answers carry no number: until its answer came, or can no longer come, this unit is asked nothing else.

        It follows that never more than one answer of a unit is on its way, and the next one that comes is the one it owes.
        A new connection changes nothing: behind a serial port, or a server that only passes bytes on, the unit still answers.
        """
        if self._link.protocol in _RTU:
            self._owed[unit.id] = request
            self._turns.hold(unit.id, max(unit.timeout_s, min(_LATEST_S, _LATEST_TIMEOUTS * unit.timeout_s)))

    def _came_late(self, device_id: int, pdu: bytes) -> None:
        request = self._owed.get(device_id)
        if request is not None and request.is_answered_by(pdu):
            del self._owed[device_id]
            self._turns.let_go(device_id)

    async def _connected(self) -> Connection:
        """Return a usable connection, opening one unless the backoff says to wait.

        Raises:
            Unavailable: it cannot be opened, or it is too soon to try again.
        """
        if self._connection is not None:
            if self._connection.is_usable:
                return self._connection
            self._drop()
        if self._closing is not None:
            await self._closing.closed()
            self._closing = None
        wait_s = self._wait_s()
        if wait_s > 0 and self._was_answered:  # it worked a moment ago: the first pause, a tenth of a second, is sat out
            await asyncio.sleep(wait_s)
        elif wait_s > 0:
            raise self._unavailable(self._sight.why or "not connected", wait_s)
        connection = Connection(self._link, self._came_late)
        self._was_answered = False
        # Counted from the attempt, so that a PLC which takes connections and drops them is not asked in a tight loop.
        self._delay_s = next(self._delays)
        self._opened_at_ns = self._clock.monotonic_ns()
        self._retry_at_ns = self._opened_at_ns + int(self._delay_s * 1e9)
        why = "cannot connect"
        try:
            why = await connection.open()
        finally:
            if why:
                connection.close()
                self._closing = connection
        if why:
            self._sight.lost(why)
            raise self._unavailable(why, self._wait_s())
        self._connection = connection
        return connection

    def _drop(self) -> None:
        if self._connection is None:
            return
        self._connection.close()
        self._closing, self._connection = self._connection, None
        if not self._was_answered:  # it never worked: the pause starts now
            self._retry_at_ns = self._clock.monotonic_ns() + int(self._delay_s * 1e9)

    def _wait_s(self) -> float:
        return 0.0 if self._connection is not None else (self._retry_at_ns - self._clock.monotonic_ns()) / 1e9

    def _unavailable(self, why: str, wait_s: float) -> Unavailable:
        return Unavailable(f"{self._link.id}: {why}", retry_after_s=max(FIRST_RETRY_S, wait_s), link=self._link.id)

    def _note_connection_works(self) -> None:
        if not self._was_answered:  # should it be lost, the pause is the first one again
            self._was_answered = True
            self._retry_at_ns = self._opened_at_ns + int(FIRST_RETRY_S * 1e9)
            self._delays = delays_s(FIRST_RETRY_S, LONGEST_RETRY_S)

    def _note_refusal(self, unit: Unit, refusal: ExceptionAnswer) -> None:
        self._note_connection_works()
        if comes_from_device(refusal.code):
            self._sight.answered(unit)
        else:
            self._sight.fell_silent(unit, f"the gateway answers {meaning_of(refusal.code)}")

    def _lost_sight(self, unit: Unit, silence: NoAnswer) -> Unavailable:
        if isinstance(silence, ConnectionLost):
            self._sight.was_reset(unit, silence.why)
        else:
            self._sight.fell_silent(unit, silence.why)
        return self._unavailable(silence.why, max(unit.wait_s(), self._wait_s()))
