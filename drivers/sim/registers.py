"""The PLC's memory: the registers and bits of one link, written and read by tag through the same codec the appliance uses."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from appliance.contracts.plant import Plant
from appliance.contracts.reading import Value
from appliance.contracts.tag import RegisterKind, Tag
from drivers.modbus.codec import decode, encode
from drivers.modbus.event_log import SLOT_REGISTERS, encode_slot

Table = tuple[int, RegisterKind]
"""Device id and table."""


class Registers:
    """Exactly the addresses the plant model declares for ``link``; every other address does not exist."""

    def __init__(self, plant: Plant, link: str) -> None:
        self._tables: dict[Table, dict[int, int]] = {}
        self._tag_at: dict[tuple[int, RegisterKind, int], Tag] = {}
        self._ring = plant.event_log if plant.event_log and plant.event_log.link == link else None
        self._event_count = 0
        for tag in plant.tags:
            if tag.link == link:
                self._declare(tag.device_id, tag.kind, tag.address, tag.register_count)
                self._tag_at[tag.device_id, tag.kind, tag.address] = tag
        if self._ring:
            ring_registers = 1 + self._ring.entries * SLOT_REGISTERS
            self._declare(self._ring.device_id, RegisterKind.HOLDING_REGISTER, self._ring.address, ring_registers)

    def _declare(self, device_id: int, kind: RegisterKind, address: int, count: int) -> None:
        table = self._tables.setdefault((device_id, kind), {})
        table.update(dict.fromkeys(range(address, address + count), 0))

    @property
    def device_ids(self) -> list[int]:
        """Devices behind the link."""
        return sorted({device_id for device_id, _ in self._tables})

    def spans(self, device_id: int, kind: RegisterKind) -> Iterator[tuple[int, int]]:
        """Yield (first address, count) of each run of existing addresses."""
        table = self._tables.get((device_id, kind), {})
        first = 0
        for address in sorted(table):
            if address - 1 not in table:
                first = address
            if address + 1 not in table:
                yield first, address + 1 - first

    def cells(self, device_id: int, kind: RegisterKind) -> dict[int, int]:
        """The live table of address -> raw value; a write to it is a write to the PLC."""
        return self._tables.get((device_id, kind), {})

    def put(self, tag: Tag, value: Value) -> None:
        """Store an engineering value."""
        self.put_raw(tag.device_id, tag.kind, tag.address, encode(tag, value))

    def put_raw(self, device_id: int, kind: RegisterKind, address: int, raw: Sequence[int]) -> None:
        """Store raw values."""
        self._tables[device_id, kind].update(zip(range(address, address + len(raw)), raw, strict=True))

    def get(self, tag: Tag) -> Value | None:
        """Return the engineering value stored."""
        table = self._tables[tag.device_id, tag.kind]
        return decode(tag, [table[tag.address + i] for i in range(tag.register_count)])

    def tag_at(self, device_id: int, kind: RegisterKind, address: int) -> Tag | None:
        """Return the tag that begins at an address."""
        return self._tag_at.get((device_id, kind, address))

    def log_event(self, code: int, value: float, at_s: float) -> None:
        """Write the next entry of the event ring, then the count, as a PLC does."""
        if self._ring is None:
            return
        slot = self._event_count % self._ring.entries
        self._event_count += 1
        table = (self._ring.device_id, RegisterKind.HOLDING_REGISTER)
        self.put_raw(*table, self._ring.address + 1 + slot * SLOT_REGISTERS, encode_slot(self._event_count, code, value, at_s))
        self.put_raw(*table, self._ring.address, [self._event_count % 2**16])
