"""One simulated PLC (or gateway with several devices): answers Modbus requests from its registers, and can misbehave.

A server of its own and not a library's, because a fault is a matter of bytes: a library that is right cannot be made to send an
answer that is short, of another function or half.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import replace
from typing import Any

from appliance.contracts.clock import Clock
from appliance.contracts.errors import Malformed, Refused
from appliance.contracts.link import LinkProtocol
from appliance.contracts.tag import Tag
from drivers.sim.framing import Frame, Framing, framing_of
from drivers.sim.listening import Endpoint, Listener, Served, Wire
from drivers.sim.misbehaviour import Misbehaviours, spoil
from drivers.sim.orders import Misbehave, Mode
from drivers.sim.registers import Registers
from drivers.sim.requests import Illegal, Request, carry_out, exception, parse

Report = Callable[..., None]

_NO_CONNECTIONS = (LinkProtocol.UDP, LinkProtocol.RTU)
_OF_CONNECTIONS = (Mode.RESET, Mode.CLOSE, Mode.REFUSE_CONNECTIONS)


class Plc(Served):
    """Serves ``registers``. ``report`` is told of every write at the moment it is applied.

    ``traces``: of every request too. A request to a device that is not there gets no answer, as on a bus; one that touches a
    range the plant model forbids is always reported, because a real device would have suffered.
    """

    def __init__(self, registers: Registers, clock: Clock, report: Report, *, seed: int = 0, traces: bool = False) -> None:
        self.write_counts: Counter[str] = Counter()
        self.requests = 0
        self._registers = registers
        self._clock = clock
        self._report = report
        self._traces = traces
        self._chance = random.Random(seed)
        self._misbehaviours = Misbehaviours(clock)
        self._devices = set(registers.device_ids)
        self._on_write: Callable[[Tag], None] = lambda _: None
        self._on_request: Callable[[], None] = lambda: None
        self._endpoint = Endpoint()
        self._listener: Listener | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def is_listening(self) -> bool:
        """Whether connections are taken."""
        return self._listener is not None and self._listener.is_open

    async def start(self, endpoint: Endpoint) -> Endpoint:
        """Listen; return the endpoint with the port or device it got.

        Raises:
            Refused: it cannot be had.
        """
        self._listener = Listener(endpoint, self)
        self._endpoint = await self._listener.open()
        return self._endpoint

    async def stop(self) -> None:
        """Close the listener and all connections."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._listener is not None:
            await self._listener.close()

    def on_write(self, told: Callable[[Tag], None]) -> None:
        """Call ``told(tag)`` after each write from outside, once for every tag that it touched."""
        self._on_write = told

    def on_request(self, told: Callable[[], None]) -> None:
        """Call ``told()`` before each request is carried out."""
        self._on_request = told

    def misbehave(self, told: Misbehave) -> None:
        """Begin to misbehave.

        Raises:
            Refused: this link cannot do that.
        """
        protocol = self._endpoint.protocol
        is_rtu = protocol in (LinkProtocol.RTU, LinkProtocol.RTU_OVER_TCP)
        if (told.mode is Mode.BAD_CRC and not is_rtu) or (told.mode is Mode.WRONG_TRANSACTION and is_rtu):
            raise Refused(f"{told.mode} is not possible over {protocol}: its frames have no such part")
        if told.mode in _OF_CONNECTIONS and protocol in _NO_CONNECTIONS:
            raise Refused(f"{told.mode} is not possible over {protocol}: it has no connections")
        if told.mode is Mode.REFUSE_CONNECTIONS:
            self._keep(self._refuse_connections(told.for_s))
        else:
            self._misbehaviours.begin(told)

    def behave(self, device_id: int | None) -> None:
        """End all misbehaviour, or that of one device."""
        self._misbehaviours.end(device_id)
        if device_id is None and self._listener is None:
            self._keep(self._listen_again())

    def opened(self, wire: Wire) -> Callable[[bytes], Awaitable[bool]]:
        """See :class:`Served`."""
        framing = framing_of(self._endpoint.protocol)

        async def take(data: bytes) -> bool:
            try:
                frames = framing.feed(data)
            except Malformed:
                return False
            for frame in frames:
                await self._serve(frame, framing, wire)
            return True

        return take

    async def _serve(self, frame: Frame, framing: Framing, wire: Wire) -> None:
        if frame.device_id not in self._devices or not frame.pdu:
            return
        self.requests += 1
        self._on_request()
        try:
            request: Request | None = parse(frame.pdu)
        except Illegal as fault:
            request, answer = None, exception(frame.pdu[0], fault.code)
        if request is not None:
            self._trace(request, frame.device_id)
        told = self._misbehaviours.take(frame, is_write=request is not None and request.is_write)
        if told and told.mode is Mode.SILENT:
            return
        if told and told.mode is Mode.EXCEPTION:
            answer = exception(frame.pdu[0], told.code)
        elif request is not None:
            answer = self._carried_out(request, frame.device_id)
        reply = replace(frame, pdu=answer)
        if told is None:
            await wire.send(framing.pack(reply))
        elif told.mode is Mode.LATE_REPLY:
            self._keep(self._send_late(told.delay_s, wire, framing.pack(reply)))
        elif told.mode is Mode.CLOSE:
            wire.end(with_reset=False)
        else:
            if told.mode is Mode.SLOW:
                await asyncio.sleep(told.delay_s)
            await wire.send(spoil(told.mode, reply, framing, self._chance))
            if told.mode is Mode.RESET:
                wire.end(with_reset=True)

    def _trace(self, request: Request, device_id: int) -> None:
        last = request.address + request.count - 1
        is_forbidden = any(
            each.kind == request.kind and each.first <= last and request.address <= each.last
            for each in self._registers.device(device_id).forbidden
        )
        if self._traces or is_forbidden:
            self._report(
                event="forbidden" if is_forbidden else "request",
                link=self._registers.link_id,
                device_id=device_id,
                function=request.function,
                kind=str(request.kind),
                address=request.address,
                count=request.count,
            )

    def _carried_out(self, request: Request, device_id: int) -> bytes:
        try:
            answer = carry_out(request, device_id, self._registers)
        except Illegal as fault:
            return exception(request.function, fault.code)
        if request.is_write:
            self._tell_write(request, device_id)
        return answer

    def _tell_write(self, request: Request, device_id: int) -> None:
        where = f"{device_id}:{request.kind}:{request.address}"
        self.write_counts[where] += 1
        cells = self._registers.cells(device_id, request.kind)
        raw = [cells[request.address + i] for i in range(request.count)]
        tag = self._registers.tag_at(device_id, request.kind, request.address)
        self._report(
            event="write_received",
            device_id=device_id,
            kind=str(request.kind),
            address=request.address,
            value=raw[0] if len(raw) == 1 else raw,
            tag=tag.key if tag else None,
            count=self.write_counts[where],
            mono_ns=self._clock.monotonic_ns(),
        )
        for touched in self._registers.tags_in(device_id, request.kind, request.address, request.count):
            self._on_write(touched)

    async def _send_late(self, delay_s: float, wire: Wire, data: bytes) -> None:
        await asyncio.sleep(delay_s)
        await wire.send(data)

    async def _refuse_connections(self, for_s: float | None) -> None:
        if (listener := self._listener) is None:
            return
        self._listener = None
        await listener.close(with_reset=True)
        if for_s is not None:
            await asyncio.sleep(for_s)
            await self._listen_again()

    async def _listen_again(self) -> None:
        if self._listener is None:
            self._listener = Listener(self._endpoint, self)
            try:
                await self._listener.open()
            except Refused as error:  # somebody took the port meanwhile
                self._report(event="refused", why=error.message)

    def _keep(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
