"""The PLC's memory: registers and bits, written and read by tag through the same codec the appliance uses."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from appliance.contracts.errors import Refused
from appliance.contracts.link import Device
from appliance.contracts.plant import Plant
from appliance.contracts.reading import Value
from appliance.contracts.tag import MQTT_LINK, DataType, RegisterKind, Tag
from drivers.modbus.codec import Codec
from drivers.modbus.data_types import register_order
from drivers.modbus.event_log import SLOT_REGISTERS, encode_slot

Table = tuple[int, RegisterKind]
"""Device id and table."""

# A quiet NaN in each width, most significant byte first (IEEE 754): the bytes after the first two are 0.
_NAN_WORD = {DataType.FLOAT16: 0x7E00, DataType.FLOAT32: 0x7FC0, DataType.FLOAT64: 0x7FF8}


class Registers:
    """Exactly the addresses the plant model declares for ``link``; every other address does not exist."""

    def __init__(self, plant: Plant, link: str) -> None:
        self._tables: dict[Table, dict[int, int]] = {}
        self._tags_at: dict[tuple[int, RegisterKind, int], list[Tag]] = {}
        self._codecs: dict[str, Codec] = {}
        self._link = plant.link_by_id[link]
        self._ring = plant.event_log if plant.event_log and plant.event_log.link == link else None
        self._event_count = 0
        for tag in plant.tags:
            if tag.link == link:
                self._codecs[tag.key] = Codec(tag)
                self._declare(tag.device_id, tag.kind, tag.address, tag.register_count)
                for address in range(tag.address, tag.address + tag.register_count):
                    self._tags_at.setdefault((tag.device_id, tag.kind, address), []).append(tag)
        if self._ring:
            ring_registers = 1 + self._ring.entries * SLOT_REGISTERS
            self._declare(self._ring.device_id, RegisterKind.HOLDING_REGISTER, self._ring.address, ring_registers)

    def _declare(self, device_id: int, kind: RegisterKind, address: int, count: int) -> None:
        table = self._tables.setdefault((device_id, kind), {})
        for each in range(address, address + count):
            table.setdefault(each, 0)

    @property
    def link_id(self) -> str:
        """The link's name in the plant model."""
        return self._link.id

    @property
    def device_ids(self) -> list[int]:
        """Devices behind the link."""
        return sorted({device_id for device_id, _ in self._tables})

    def device(self, device_id: int) -> Device:
        """Return what the plant model says of a device: how much it gives in one answer."""
        return self._link.device(device_id)

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
        """Store an engineering value.

        Raises:
            Refused: the tag cannot hold it.
        """
        codec = self._codecs[tag.key]
        raw = codec.encode(value)
        if tag.bit is not None:
            raw = (self._tables[tag.device_id, tag.kind][tag.address] & ~codec.mask | raw[0],)
        self.put_raw(tag.device_id, tag.kind, tag.address, raw)

    def put_no_measurement(self, tag: Tag) -> None:
        """Store what the device sends when its sensor is broken: the tag's first sentinel, or NaN.

        Raises:
            Refused: the tag has no way to say that.
        """
        if tag.sentinels:
            number = tag.sentinels[0]
        elif tag.type in _NAN_WORD:
            number = _NAN_WORD[tag.type] << 16 * (tag.register_count - 1)
        else:
            raise Refused(f"{tag.key} has no sentinel and is no float: it cannot say 'no measurement'", tag=tag.key)
        order = register_order(tag.word_order, tag.register_count)
        self.put_raw(tag.device_id, tag.kind, tag.address, order.to_registers(number.to_bytes(2 * tag.register_count, "big")))

    def put_raw(self, device_id: int, kind: RegisterKind, address: int, raw: Sequence[int]) -> None:
        """Store raw values."""
        self._tables[device_id, kind].update(zip(range(address, address + len(raw)), raw, strict=True))

    def raw(self, tag: Tag) -> tuple[int, ...]:
        """Return the raw registers or bits of a tag."""
        table = self._tables[tag.device_id, tag.kind]
        return tuple(table[tag.address + i] for i in range(tag.register_count))

    def get(self, tag: Tag) -> Value | None:
        """Return the engineering value stored, None for 'no measurement'."""
        return self._codecs[tag.key].decode(self.raw(tag))

    def tag_at(self, device_id: int, kind: RegisterKind, address: int) -> Tag | None:
        """Return the first tag that begins at an address."""
        return next((tag for tag in self._tags_at.get((device_id, kind, address), ()) if tag.address == address), None)

    def tags_in(self, device_id: int, kind: RegisterKind, address: int, count: int) -> list[Tag]:
        """Return the tags that have a part in a range of addresses, each once."""
        found: dict[str, Tag] = {}
        for each in range(address, address + count):
            found |= {tag.key: tag for tag in self._tags_at.get((device_id, kind, each), ())}
        return list(found.values())

    def log_event(self, code: int, value: float, at_s: float) -> None:
        """Write the next entry of the event ring, then the count, as a PLC does. Without a ring here: nothing."""
        if self._ring is None:
            return
        slot = self._event_count % self._ring.entries
        self._event_count += 1
        table = (self._ring.device_id, RegisterKind.HOLDING_REGISTER)
        self.put_raw(*table, self._ring.address + 1 + slot * SLOT_REGISTERS, encode_slot(self._event_count, code, value, at_s))
        self.put_raw(*table, self._ring.address, [self._event_count % 2**16])


class Memory:
    """The registers of all ``links`` of a plant, by tag."""

    def __init__(self, plant: Plant, links: Collection[str]) -> None:
        self._of = {link: Registers(plant, link) for link in links}
        self.tags = tuple(tag for tag in plant.tags if tag.link in self._of)

    def of(self, link: str) -> Registers:
        """Return the registers of one link."""
        return self._of[link]

    def holds(self, tag: Tag) -> bool:
        """Whether the tag is on one of the links."""
        return tag.link in self._of

    def put(self, tag: Tag, value: Value) -> None:
        """Store an engineering value; see :meth:`Registers.put`."""
        self._registers(tag).put(tag, value)

    def put_no_measurement(self, tag: Tag) -> None:
        """See :meth:`Registers.put_no_measurement`."""
        self._registers(tag).put_no_measurement(tag)

    def get(self, tag: Tag) -> Value | None:
        """Return the engineering value stored; None for 'no measurement', and for a tag of another link."""
        return self._of[tag.link].get(tag) if tag.link in self._of else None

    def log_event(self, code: int, value: float, at_s: float) -> None:
        """Write the next entry of the event ring, where the plant has one."""
        for registers in self._of.values():
            registers.log_event(code, value, at_s)

    def _registers(self, tag: Tag) -> Registers:
        if tag.link in self._of:
            return self._of[tag.link]
        where = "published by MQTT" if tag.link == MQTT_LINK else f"on link {tag.link}"
        raise Refused(f"{tag.key} is {where}, which is not simulated here", tag=tag.key)
