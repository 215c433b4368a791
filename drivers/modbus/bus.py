"""The field bus over Modbus: tags by name, with limits, quality and source time. Implements ``FieldBus``.

In: tag keys and engineering values. Out: readings whose quality is never better than the truth, receipts of writes that were
read back. Who calls: the tools that read and write the field, status and console.
"""

from __future__ import annotations

import asyncio
import difflib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from appliance.contracts.clock import Clock
from appliance.contracts.errors import Refused, Unavailable
from appliance.contracts.plant import Plant
from appliance.contracts.ports import FieldBus
from appliance.contracts.reading import Quality, Reading, Value, WriteReceipt
from appliance.contracts.tag import DataType, RegisterKind, Tag
from appliance.foundation.supervisor import Degraded
from drivers.modbus.answers import ILLEGAL_ADDRESS
from drivers.modbus.blocks import Block, Span, merge
from drivers.modbus.codec import decode, encode, wire_address
from drivers.modbus.event_log import SLOT_REGISTERS, decode_ring
from drivers.modbus.link import ModbusLink

_PROBE_S = 2.0  # a link that brought no good answer for this long is asked for one
_RING_SLOTS_A_READ = 31  # whole slots within the 125 registers of one request


class ModbusBus(FieldBus):
    """All links of the plant. While :meth:`run` runs, links reconnect and are watched without anybody asking.

    A PLC that cannot be seen is marked in ``degraded`` as ``plc:<link>`` and cleared by its next good answer.
    """

    def __init__(self, plant: Plant, clock: Clock, degraded: Degraded) -> None:
        self._plant = plant
        self._clock = clock
        self._degraded = degraded
        self._links = {
            link.id: ModbusLink(link, clock, partial(self._visibility_changed, link.id, f"{link.host}:{link.port}"))
            for link in plant.links
        }
        self._last_good: dict[str, Reading] = {}
        self._unmergeable: set[Span] = set()  # blocks over a gap the device will not read

    async def run(self) -> None:
        """Keep every link connected and probed. Ends only by cancellation."""
        async with asyncio.TaskGroup() as tasks:
            for link_id in self._links:
                tasks.create_task(self._watch(link_id), name=f"watch {link_id}")

    async def close(self) -> None:
        """Close all sockets."""
        for link in self._links.values():
            link.close()

    def is_online(self, link_id: str) -> bool:
        """Whether the newest exchange with this link brought a good answer."""
        return self._links[link_id].is_online

    async def read(self, keys: Sequence[str]) -> dict[str, Reading]:
        """Read now, neighbours in one request, links side by side. See ``FieldBus.read``."""
        tags = [self._declared(key) for key in dict.fromkeys(keys)]
        by_link: dict[str, list[Block]] = defaultdict(list)
        for block in merge(tags):
            by_link[block.link].append(block)
        readings: dict[str, Reading] = {}
        async with asyncio.TaskGroup() as tasks:
            for link_id, blocks in by_link.items():
                tasks.create_task(self._read_link(link_id, blocks, readings))
        return {tag.key: readings[tag.key] for tag in tags}

    async def write(self, key: str, value: Value) -> WriteReceipt:
        """Write one tag, once, and read it back. See ``FieldBus.write``."""
        tag = self._declared(key)
        raw = self._permitted(tag, value)
        await self._links[tag.link].write(tag.device_id, tag.kind, tag.address, raw)
        read_back = (await self.read([key]))[key]
        verified = read_back.quality is Quality.GOOD and read_back.raw == raw
        return WriteReceipt(tag=key, wanted=value, read_back=read_back, verified=verified)

    async def read_event_log(self, newest: int) -> list[Mapping[str, Any]]:
        """Read the PLC's event ring. See ``FieldBus.read_event_log``."""
        ring = self._plant.event_log
        if ring is None:
            raise Refused("the plant model declares no event log")
        read = partial(self._links[ring.link].read, ring.device_id, RegisterKind.HOLDING_REGISTER)
        try:
            (count,) = await read(ring.address, 1)
            slots: list[int] = []
            for first in range(0, ring.entries, _RING_SLOTS_A_READ):
                some = min(_RING_SLOTS_A_READ, ring.entries - first)
                slots += await read(ring.address + 1 + first * SLOT_REGISTERS, some * SLOT_REGISTERS)
        except Refused as error:
            raise Unavailable(f"the event log cannot be read: {error.message}", link=ring.link) from error
        return decode_ring(ring, count, slots, newest)

    def _declared(self, key: str) -> Tag:
        tag = self._plant.tag_by_key.get(key)
        if tag is None:
            close = difflib.get_close_matches(key, self._plant.tag_by_key, n=1)
            cure = f"Did you mean {close[0]}?" if close else "`floorhand tags list` shows those there are."
            raise Refused(f"{key} is not a tag of this plant", tag=key, cure=cure)
        return tag

    def _permitted(self, tag: Tag, value: Value) -> tuple[int, ...]:
        if not tag.writable:
            raise Refused(f"{tag.key} cannot be written", tag=tag.key)
        raw = encode(tag, value)
        if tag.type is not DataType.BOOL and not isinstance(value, str):
            low, high = tag.low, tag.high
            if low is None or high is None or not low <= value <= high:
                raise Refused(f"{tag.key} takes {low} to {high} {tag.unit}".rstrip() + f", not {value}", tag=tag.key)
        return raw

    async def _read_link(self, link_id: str, blocks: Iterable[Block], readings: dict[str, Reading]) -> None:
        silent: dict[int, Unavailable] = {}  # a device that is silent now is not waited for again in the same call
        for block in blocks:
            parts = block.singles() if block.span in self._unmergeable else [block]
            while parts:
                part = parts.pop(0)
                try:
                    if part.device_id in silent:
                        raise silent[part.device_id]
                    answer = await self._links[link_id].read(part.device_id, part.kind, part.address, part.count)
                except Unavailable as error:
                    silent[part.device_id] = error
                    self._note_unread(part, error, readings)
                except Refused as error:
                    if error.facts.get("exception_code") == ILLEGAL_ADDRESS and len(part.tags) > 1:
                        self._unmergeable.add(part.span)
                        parts = part.singles()
                        continue
                    self._note_unread(part, error, readings)
                else:
                    for tag in part.tags:
                        readings[tag.key] = self._taken(tag, part.raw_of(tag, answer))

    def _taken(self, tag: Tag, raw: tuple[int, ...]) -> Reading:
        value = decode(tag, raw)
        if value is None:
            why = f"the device gives no number ({wire_address(tag)})"
            return Reading(tag.key, None, tag.unit, Quality.BAD, None, raw, why)
        reading = Reading(tag.key, value, tag.unit, Quality.GOOD, self._clock.utc(), raw)
        self._last_good[tag.key] = reading
        return reading

    def _note_unread(self, block: Block, error: Refused | Unavailable, readings: dict[str, Reading]) -> None:
        for tag in block.tags:
            known = self._last_good.get(tag.key)
            why = f"{error.message} ({wire_address(tag)})"
            readings[tag.key] = (
                Reading(tag.key, known.value, tag.unit, Quality.STALE, known.source_utc, known.raw, why)
                if known
                else Reading(tag.key, None, tag.unit, Quality.BAD, None, (), why)
            )

    async def _watch(self, link_id: str) -> None:
        """Ask for one tag whenever the link was quiet for a while; reconnecting comes with asking."""
        tag = next((tag for tag in self._plant.tags if tag.link == link_id), None)
        if tag is None:
            return
        link = self._links[link_id]
        while True:
            pause_s = _PROBE_S
            quiet_s = link.quiet_s()
            if quiet_s is not None and link.is_online and quiet_s < _PROBE_S:
                pause_s = _PROBE_S - quiet_s
            else:
                try:
                    await link.read(tag.device_id, tag.kind, tag.address, tag.register_count)
                except Unavailable as error:
                    pause_s = error.retry_after_s
                except Refused:
                    pass  # it answers, so it is there
            await asyncio.sleep(pause_s)

    def _visibility_changed(self, link_id: str, address: str, why: str) -> None:
        if why:
            self._degraded.mark(f"plc:{link_id}", f"cannot see the PLC at {address}: {why}")
        else:
            self._degraded.clear(f"plc:{link_id}")
