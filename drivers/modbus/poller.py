"""Polls the tags of one device, each group at its own rate.

In: the blocks of a device and how often each is wanted. Out: samples to the reporting. One poller a device: the link shares
itself fairly between them, so a device that does not answer keeps only its own tags waiting.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass

from appliance.contracts.clock import Clock
from appliance.contracts.errors import Refused, Unavailable
from drivers.modbus.blocks import Block
from drivers.modbus.link import ModbusLink
from drivers.modbus.parting import Answer, Later, is_missing_address, parted
from drivers.modbus.reporting import Reporting, TrackedBlock

log = logging.getLogger(__name__)

_NS = 1_000_000_000
_SURE_AFTER_POLLS = 20  # in a row


@dataclass(slots=True, eq=False)
class Whole:
    """A block that is read in parts, and when it is tried whole again."""

    block: TrackedBlock
    again: Later


@dataclass(slots=True, eq=False)
class Slot:
    """A block's place in the schedule. ``due_ns`` stands on a grid of ``interval_ns`` from the start: lateness never adds up."""

    block: TrackedBlock
    interval_ns: int
    due_ns: int
    is_behind: bool = False
    out_of_pace: int = 0  # polls in a row that say the contrary
    whole: Whole | None = None  # this is a part of it
    search: Later | None = None  # when to look again for a part of it that is there: so far there is none

    @property
    def deadline_ns(self) -> int:
        """When the next sample is due already."""
        return self.due_ns + self.interval_ns

    def move_on(self, now_ns: int) -> int:
        """Go to the next place on the grid that is still ahead, and return how many were missed; they are not made up for."""
        missed = max(0, now_ns - self.due_ns) // self.interval_ns
        self.due_ns += (missed + 1) * self.interval_ns
        return missed


class DevicePoller:
    """Reads the blocks of one device for ever. Of those that are due, the one whose next sample is due first goes first, so that
    a slow group of many blocks does not hold up a fast one."""

    def __init__(
        self,
        link: ModbusLink,
        device_id: int,
        blocks: Sequence[tuple[TrackedBlock, float]],
        reporting: Reporting,
        clock: Clock,
    ) -> None:
        """``blocks`` with the seconds between their samples."""
        self._link = link
        self._device_id = device_id
        self._reporting = reporting
        self._clock = clock
        self._slots = [Slot(block, round(every_s * _NS), 0) for block, every_s in blocks]
        self._is_behind = False

    async def run(self) -> None:
        """Poll. Ends only by cancellation."""
        start_ns = self._clock.monotonic_ns()
        for slot in self._slots:
            slot.due_ns = start_ns
        while True:
            slot = self._next()
            wait_ns = slot.due_ns - self._clock.monotonic_ns()
            if wait_ns > 0:
                await asyncio.sleep(wait_ns / _NS)
            else:
                pause_s = await self._poll(slot)
                missed = slot.move_on(self._clock.monotonic_ns())
                if pause_s > 0:
                    await asyncio.sleep(pause_s)
                else:
                    self._note_pace(slot, missed)

    def lose_sight(self, why: str) -> None:
        """Say at once of all blocks that they are not fresh any more, however long it is until they are asked for again."""
        for slot in self._slots:
            self._tell_missed(slot, why)

    def _next(self) -> Slot:
        now_ns = self._clock.monotonic_ns()
        due = [slot for slot in self._slots if slot.due_ns <= now_ns]
        return min(due, key=lambda slot: slot.deadline_ns) if due else min(self._slots, key=lambda slot: slot.due_ns)

    async def _poll(self, slot: Slot) -> float:
        """Read one block and tell of it; return how long the device wants to be left alone."""
        try:
            if slot.whole is not None and slot.whole.again.is_now and await self._joined(slot, slot.whole):
                return 0.0
            answer = await self._read(slot.block.block)
        except Unavailable as error:
            self._tell_missed(slot, error.message)
            return 0.0 if self._link.is_device_online(self._device_id) else error.retry_after_s
        except Refused as error:
            return await self._refused(slot, error)
        slot.search = None
        self._reporting.polled(slot.block, answer)
        return 0.0

    async def _read(self, block: Block) -> Answer:
        return await self._link.read(self._device_id, block.kind, block.address, block.count)

    async def _joined(self, slot: Slot, whole: Whole) -> bool:
        """Read the whole again instead of its parts if the device has it now."""
        try:
            answer = await self._read(whole.block.block)
        except Refused:
            whole.again.put_off()
            return False
        self._slots = [each for each in self._slots if each.whole is not whole]
        self._slots.append(self._next_to(slot, whole.block, None))
        self._reporting.polled(whole.block, answer)
        return True

    async def _refused(self, slot: Slot, refusal: Refused) -> float:
        block = slot.block.block
        parts: list[tuple[Block, Answer | None]] = []
        if is_missing_address(refusal) and len(block.tags) > 1 and (slot.search is None or slot.search.is_now):
            try:
                parts = await parted(block, self._read)
            except Unavailable as error:
                self._tell_missed(slot, error.message)
                return 0.0 if self._link.is_device_online(self._device_id) else error.retry_after_s
            except Refused as error:
                refusal = error
        if len(parts) > 1:
            self._part(slot, parts, refusal.message)
            return 0.0
        if parts and slot.search is not None:
            slot.search.put_off()
        elif parts:
            slot.search = Later(self._clock)
        self._tell_missed(slot, refusal.message)
        return 0.0

    def _note_pace(self, slot: Slot, missed: int) -> None:
        """Say when a device that answers is too slow for a declared rate, and when it no longer is. One late answer is none."""
        slot.out_of_pace = slot.out_of_pace + 1 if bool(missed) is not slot.is_behind else 0
        if slot.out_of_pace >= _SURE_AFTER_POLLS:
            slot.is_behind, slot.out_of_pace = not slot.is_behind, 0
            is_behind = any(each.is_behind for each in self._slots)
            if is_behind is self._is_behind:
                return
            self._is_behind = is_behind
            facts = {"link": slot.block.block.link, "device_id": self._device_id, "every_s": slot.interval_ns / _NS}
            if is_behind:
                log.warning("modbus.poll_behind", extra=facts)
            else:
                log.info("modbus.poll_in_pace", extra=facts)

    def _part(self, slot: Slot, parts: Sequence[tuple[Block, Answer | None]], why: str) -> None:
        """Read the block in parts until it can be read whole: the device has some of its addresses, and others not."""
        whole = slot.whole or Whole(slot.block, Later(self._clock))
        self._slots.remove(slot)
        for block, answer in parts:
            part = self._next_to(slot, self._reporting.tracked(block), whole)
            self._slots.append(part)
            if answer is None:
                part.search = Later(self._clock)
                self._tell_missed(part, why)
            else:
                self._reporting.polled(part.block, answer)

    def _next_to(self, slot: Slot, block: TrackedBlock, whole: Whole | None) -> Slot:
        """Return the place of a block that was read in the turn of another."""
        place = Slot(block, slot.interval_ns, slot.due_ns, is_behind=slot.is_behind, whole=whole)
        place.move_on(self._clock.monotonic_ns())
        return place

    def _tell_missed(self, slot: Slot, why: str) -> None:
        self._reporting.tell(slot.block, self._reporting.miss(slot.block, why))
