"""The field bus over Modbus: tags by name, with limits, quality and source time. Implements ``FieldBus``.

In: tag keys and engineering values. Out: readings whose quality is never better than the truth, receipts of writes that were
read back, samples and changes to who listens. Who calls: the tools that read and write the field, the alarm engine, status and
console. Published tags (link ``mqtt``) are not the bus's.
"""

from __future__ import annotations

import asyncio
import difflib
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from appliance.contracts.clock import Clock
from appliance.contracts.errors import Refused, Unavailable
from appliance.contracts.link import Link
from appliance.contracts.plant import Plant
from appliance.contracts.ports import FieldBus
from appliance.contracts.reading import Quality, Reading, Value, Visibility, WriteReceipt
from appliance.contracts.refusals import no_tag
from appliance.contracts.tag import MQTT_LINK, RegisterKind, Tag
from appliance.foundation.supervisor import Degraded, supervise
from drivers.modbus.blocks import Block, Span, merge
from drivers.modbus.event_log import SLOT_REGISTERS, decode_ring
from drivers.modbus.link import ModbusLink
from drivers.modbus.parting import Later, is_missing_address
from drivers.modbus.poller import DevicePoller
from drivers.modbus.probe import probed
from drivers.modbus.reporting import Listener, Reporting
from drivers.modbus.schedule import DeviceKey, scheduled
from drivers.modbus.writing import permitted, write_raw

_MOST_REMEMBERED = 256  # reads on demand over addresses that are not there; what is forgotten is found out again


class ModbusBus(FieldBus):
    """All links of the plant. While :meth:`run` runs, declared tags are polled and links reconnect without anybody asking.

    A PLC that cannot be seen is marked in ``degraded`` as ``plc:<link>``, one device alone as ``plc:<link>:<device>``; both are
    cleared by the next good answer. Listeners are called on the event loop and must be cheap.
    """

    def __init__(self, plant: Plant, clock: Clock, degraded: Degraded) -> None:
        self._plant = plant
        self._clock = clock
        self._degraded = degraded
        self._lost: dict[tuple[str, int | None], str] = {}
        self._reporting = Reporting(
            (tag for tag in plant.tags if tag.link != MQTT_LINK),
            {group.name: group.every_s for group in plant.poll_groups},
            clock,
        )
        schedule = scheduled(plant, self._reporting)
        self._links: dict[str, ModbusLink] = {}
        for link in plant.links:
            expected = [device_id for link_id, device_id in schedule if link_id == link.id]
            self._links[link.id] = ModbusLink(link, clock, partial(self._visibility_changed, link), expected=expected)
        self._pollers: dict[DeviceKey, DevicePoller] = {
            (link_id, device_id): DevicePoller(self._links[link_id], device_id, blocks, self._reporting, clock)
            for (link_id, device_id), blocks in schedule.items()
        }
        self._unmergeable: dict[Span, Later] = {}  # blocks that were refused, oldest first, and when they are tried whole again
        self.visibility_listeners: list[Callable[[Visibility], None]] = []
        """Told when a link, or one device of it, came into sight or was lost."""

    @property
    def sample_listeners(self) -> list[Listener]:
        """Told every polled sample of a block, good, stale or bad."""
        return self._reporting.sample_listeners

    @property
    def change_listeners(self) -> list[Listener]:
        """Told of polled tags by exception: the value moved by the deadband or more, or the quality is another."""
        return self._reporting.change_listeners

    async def run(self) -> None:
        """Poll what is declared and keep every link in sight. Ends only by cancellation."""
        async with asyncio.TaskGroup() as tasks:
            for (link_id, device_id), poller in self._pollers.items():
                part = f"poll:{link_id}:{device_id}"  # each by itself: what one stumbles over stops no other
                tasks.create_task(supervise(part, poller.run, self._clock, self._degraded), name=part)
            await asyncio.get_running_loop().create_future()  # there may be nothing to poll

    async def close(self) -> None:
        """Close all sockets."""
        for link in self._links.values():
            link.close()

    def is_online(self, link_id: str) -> bool:
        """Whether the newest exchange with this link brought a good answer."""
        return self._links[link_id].is_online

    def last(self, key: str) -> Reading | None:
        """Return the newest sample without asking the device, None when there never was one. It is STALE, with its own source
        time, when the device is lost or three polls went by without another.

        Raises:
            Refused: the key is not declared, or is a published tag.
        """
        tag = self._declared(key)
        lost_why = self._lost.get((tag.link, None)) or self._lost.get((tag.link, tag.device_id), "")
        return self._reporting.tracks[key].last(self._clock.monotonic_ns(), lost_why)

    async def read(self, keys: Sequence[str]) -> dict[str, Reading]:
        """Read now, neighbours in one request, devices side by side. See ``FieldBus.read``."""
        tags = [self._declared(key) for key in dict.fromkeys(keys)]
        by_device: dict[DeviceKey, list[Block]] = defaultdict(list)
        for block in merge(tags, self._plant.link_by_id):
            by_device[block.link, block.device_id].append(block)
        readings: dict[str, Reading] = {}
        async with asyncio.TaskGroup() as tasks:
            for blocks in by_device.values():
                tasks.create_task(self._read_device(blocks, readings))
        return {tag.key: readings[tag.key] for tag in tags}

    async def write(self, key: str, value: Value) -> WriteReceipt:
        """Write one tag, once, and read it back. See ``FieldBus.write``."""
        tag = self._declared(key)
        codec = self._reporting.tracks[key].codec
        raw = permitted(tag, codec, value)
        try:
            await write_raw(self._links[tag.link], tag, codec, raw)
        except Unavailable as error:
            is_there = "exception_code" in error.facts
            error.worded("controller_busy" if is_there else "controller_away", asset=tag.asset)
            raise
        except Refused as error:
            error.worded("controller_refuses", asset=tag.asset, quantity=tag.key)
            raise
        read_back = (await self.read([key]))[key]
        verified = read_back.quality is Quality.GOOD and codec.shows(read_back.raw, raw)
        return WriteReceipt(tag=key, wanted=value, read_back=read_back, verified=verified)

    async def probe(self, key: str) -> Mapping[str, Any]:
        """Read a tag now and show its raw registers in all four orders beside each other; see ``probed``.

        Raises:
            Refused: the key is not declared or is a published tag, or the device says no.
            Unavailable: no good answer.
        """
        tag = self._declared(key)
        return probed(tag, await self._links[tag.link].read(tag.device_id, tag.kind, tag.address, tag.register_count))

    async def read_event_log(self, newest: int) -> list[Mapping[str, Any]]:
        """Read the PLC's event ring. See ``FieldBus.read_event_log``."""
        ring = self._plant.event_log
        if ring is None:
            raise Refused("the plant model declares no event log").worded("no_controller_log")
        said_link = ring.link.replace("_", " ")
        read = partial(self._links[ring.link].read, ring.device_id, RegisterKind.HOLDING_REGISTER)
        slots_a_read = max(1, self._plant.link_by_id[ring.link].device(ring.device_id).most_registers // SLOT_REGISTERS)
        try:
            (count,) = await read(ring.address, 1)
            slots: list[int] = []
            for first in range(0, ring.entries, slots_a_read):
                some = min(slots_a_read, ring.entries - first)
                slots += await read(ring.address + 1 + first * SLOT_REGISTERS, some * SLOT_REGISTERS)
        except Unavailable as error:
            error.worded("controller_log_away", link=said_link)
            raise
        except Refused as error:
            refused = Unavailable(f"the event log cannot be read: {error.message}", link=ring.link)
            raise refused.worded("controller_log_refused", link=said_link) from error
        return decode_ring(ring, count, slots, newest)

    def _declared(self, key: str) -> Tag:
        tag = self._plant.tag_by_key.get(key)
        if tag is None:
            close = difflib.get_close_matches(key, self._plant.tag_by_key, n=1)
            cure = f"Did you mean {close[0]}?" if close else "`floorhand tags list` shows those there are."
            raise no_tag(key, cure=cure)
        if tag.link == MQTT_LINK:
            raise Refused(f"{key} is published by MQTT; it is not on a Modbus link", tag=key)
        return tag

    async def _read_device(self, blocks: Iterable[Block], readings: dict[str, Reading]) -> None:
        silence: Unavailable | None = None  # a device that is silent now is not waited for again in the same call
        parts = list(blocks)
        while parts:
            part = parts.pop(0)
            refused = self._unmergeable.get(part.span)
            if refused is not None and not refused.is_now and len(part.tags) > 1:
                parts[:0] = part.halves()
                continue
            tracked = self._reporting.tracked(part)
            try:
                if silence is not None:
                    raise silence
                answer = await self._links[part.link].read(part.device_id, part.kind, part.address, part.count)
                taken = self._reporting.take(tracked, answer)
                self._unmergeable.pop(part.span, None)
            except Unavailable as error:
                silence = error
                taken = self._reporting.miss(tracked, error.message)
            except Refused as error:
                if is_missing_address(error) and len(part.tags) > 1:
                    self._remember_unmergeable(part.span)
                    parts[:0] = part.halves()
                    continue
                taken = self._reporting.miss(tracked, error.message)
            readings.update({reading.tag: reading for reading in taken})

    def _remember_unmergeable(self, span: Span) -> None:
        if (refused := self._unmergeable.get(span)) is not None:
            refused.put_off()
            return
        self._unmergeable[span] = Later(self._clock)
        if len(self._unmergeable) > _MOST_REMEMBERED:
            del self._unmergeable[next(iter(self._unmergeable))]

    def _visibility_changed(self, link: Link, device_id: int | None, why: str) -> None:
        part = f"plc:{link.id}" if device_id is None else f"plc:{link.id}:{device_id}"
        if why:
            self._lost[link.id, device_id] = why
            what = "the PLC" if device_id is None else f"device {device_id}"
            self._degraded.mark(part, f"cannot see {what} at {link.where}: {why}")
        else:
            self._lost.pop((link.id, device_id), None)
            self._degraded.clear(part)
        visibility = Visibility(link.id, device_id, is_visible=not why, why=why)
        for listener in self.visibility_listeners:
            listener(visibility)
        if why:
            for (link_id, of_device), poller in self._pollers.items():
                if link_id == link.id and device_id in (None, of_device):
                    poller.lose_sight(why)
