"""Blocks that a device will not read whole: which parts it reads, and when the whole is tried again.

A device answers ILLEGAL DATA ADDRESS for a block when one address of it is missing, for as long as it is a device of that kind,
and for all addresses while it starts. Only the parts show which: where none is answered, nothing is gained by parting.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from appliance.contracts.clock import Clock
from appliance.contracts.errors import Refused
from appliance.foundation.backoff import delays_s
from drivers.modbus.answers import ILLEGAL_ADDRESS
from drivers.modbus.blocks import Block

FIRST_AGAIN_S, LONGEST_AGAIN_S = 10.0, 600.0
"""A whole block that was refused is tried again after the first, doubling to the longest: a device starts in less than a minute,
and one that has no such address costs one request in ten minutes."""

Answer = tuple[int, ...]


class Later:
    """When something that failed is to be tried again."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._delays = delays_s(FIRST_AGAIN_S, LONGEST_AGAIN_S)
        self._at_ns = 0
        self.put_off()

    @property
    def is_now(self) -> bool:
        """Whether it was put off long enough."""
        return self._clock.monotonic_ns() >= self._at_ns

    def put_off(self) -> None:
        """Try again later, and later each time."""
        self._at_ns = self._clock.monotonic_ns() + int(next(self._delays) * 1e9)


def is_missing_address(error: Refused) -> bool:
    """Whether the device says that it has no such address."""
    return error.facts.get("exception_code") == ILLEGAL_ADDRESS


async def parted(block: Block, read: Callable[[Block], Awaitable[Answer]]) -> list[tuple[Block, Answer | None]]:
    """Return the parts of a refused block with what was answered, None where the device has no such address.

    Neighbours that are all missing stay together, so a block of which nothing is there comes back whole. Needs two tags at least.

    Raises:
        Unavailable: no good answer.
        Refused: the device says no, for another reason.
    """
    parts: list[tuple[Block, Answer | None]] = []
    for half in block.halves():
        try:
            parts.append((half, await read(half)))
        except Refused as error:
            if not is_missing_address(error):
                raise
            parts += await parted(half, read) if len(half.tags) > 1 else [(half, None)]
    return parts if any(answer is not None for _, answer in parts) else [(block, None)]
