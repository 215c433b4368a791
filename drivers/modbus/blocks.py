"""Which tags are read together: neighbours of one table travel in one request."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from appliance.contracts.tag import RegisterKind, Tag
from drivers.modbus.codec import is_bits

WIDEST_GAP = 8  # reading up to this many unwanted registers is cheaper than a second request
MOST_REGISTERS = 125  # Modbus Application Protocol 1.1b3, sections 6.3 and 6.4
MOST_BITS = 2000  # ibid., sections 6.1 and 6.2


Span = tuple[str, int, RegisterKind, int, int]
"""Link, device, table, wire address and count of a request."""


@dataclass(frozen=True, slots=True)
class Block:
    """One read request: ``count`` registers or bits from the wire address ``address`` on."""

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

    def raw_of(self, tag: Tag, answer: tuple[int, ...]) -> tuple[int, ...]:
        """Cut the tag's part out of the block's answer."""
        start = tag.address - self.address
        return answer[start : start + tag.register_count]

    def singles(self) -> list[Block]:
        """One block for each tag alone, for devices that refuse to read over a gap."""
        return [_block([tag]) for tag in self.tags]


def merge(tags: Iterable[Tag]) -> list[Block]:
    """Return as few blocks as cover all ``tags``: same link, device and table, small gaps, within the protocol's bounds."""
    blocks: list[Block] = []
    run: list[Tag] = []
    for tag in sorted(tags, key=lambda t: (t.link, t.device_id, t.kind, t.address)):
        if run and not _belongs(run, tag):
            blocks.append(_block(run))
            run = []
        run.append(tag)
    if run:
        blocks.append(_block(run))
    return blocks


def _belongs(run: list[Tag], tag: Tag) -> bool:
    first = run[0]
    if (first.link, first.device_id, first.kind) != (tag.link, tag.device_id, tag.kind):
        return False
    most = MOST_BITS if is_bits(tag.kind) else MOST_REGISTERS
    return tag.address - _end(run) <= WIDEST_GAP and max(_end(run), _end([tag])) - first.address <= most


def _end(run: list[Tag]) -> int:
    return max(tag.address + tag.register_count for tag in run)


def _block(run: list[Tag]) -> Block:
    first = run[0]
    return Block(first.link, first.device_id, first.kind, first.address, _end(run) - first.address, tuple(run))
