"""Which tags are read together: neighbours of one table travel in one request."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby

from appliance.contracts.link import Device, Link
from appliance.contracts.tag import RegisterKind, Tag
from drivers.modbus.codec import is_bits

_BITS_A_REGISTER = 16  # a gap costs time on the wire, and a register is sixteen bits of it

Span = tuple[str, int, RegisterKind, int, int]
"""Link, device, table, wire address and count of a request."""


@dataclass(frozen=True, slots=True)
class Block:
    """One read request: ``count`` registers or bits from the wire address ``address`` on. ``tags`` by rising address."""

    link: str
    device_id: int
    kind: RegisterKind
    address: int
    count: int
    tags: tuple[Tag, ...]

    @property
    def span(self) -> Span:
        """What is asked for, without the tags."""
        return self.link, self.device_id, self.kind, self.address, self.count

    def part_of(self, tag: Tag) -> slice:
        """Where the tag's part stands in the block's answer."""
        start = tag.address - self.address
        return slice(start, start + tag.register_count)

    def halves(self) -> tuple[Block, Block]:
        """Two blocks of the same tags, for a device that will not read the whole: parted at the widest gap, else in the middle.
        Needs two tags at least."""
        ends = _running_ends(self.tags)
        middle = len(self.tags) / 2
        _, _, at = max((self.tags[at].address - ends[at - 1], -abs(at - middle), at) for at in range(1, len(self.tags)))
        return _block(self.tags[:at]), _block(self.tags[at:])


def merge(tags: Iterable[Tag], links: Mapping[str, Link]) -> list[Block]:
    """Return as few blocks as cover all ``tags``: same link, device and table, within the bounds of the device. A request never
    touches a forbidden address and never splits a value."""
    blocks: list[Block] = []
    in_order = sorted(tags, key=lambda tag: (tag.link, tag.device_id, tag.kind, tag.address, tag.register_count))
    for (link, device_id, kind), table in groupby(in_order, key=lambda tag: (tag.link, tag.device_id, tag.kind)):
        blocks += _merge_table(list(table), links[link].device(device_id), kind)
    return blocks


def _merge_table(tags: list[Tag], device: Device, kind: RegisterKind) -> list[Block]:
    most = device.most_bits if is_bits(kind) else device.most_registers
    widest_gap = device.widest_gap * (_BITS_A_REGISTER if is_bits(kind) else 1)
    forbidden = [(each.first, each.last) for each in device.forbidden if each.kind is kind]
    blocks: list[Block] = []
    run: list[Tag] = []
    end = 0  # the first address after the run
    for tag in tags:
        longer = max(end, tag.address + tag.register_count)
        belongs = (
            run
            and tag.address - end <= widest_gap
            and longer - run[0].address <= most
            and not any(first < longer and last >= run[0].address for first, last in forbidden)
        )
        if run and not belongs:
            blocks.append(_block(run))
            run, longer = [], tag.address + tag.register_count
        run.append(tag)
        end = longer
    return [*blocks, _block(run)] if run else blocks


def _running_ends(tags: Iterable[Tag]) -> list[int]:
    ends: list[int] = []
    for tag in tags:
        ends.append(max(tag.address + tag.register_count, ends[-1] if ends else 0))
    return ends


def _block(run: Iterable[Tag]) -> Block:
    tags = tuple(run)
    first = tags[0]
    return Block(first.link, first.device_id, first.kind, first.address, _running_ends(tags)[-1] - first.address, tags)
