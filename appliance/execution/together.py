"""Calls that need nothing of each other, made at the same time (T8): those on the same resource one after the other.

Every batch has a hand of its own and takes up others that are free. So no turn waits for another's calls, and the process does
not make ever more of them at once.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeGuard

from appliance.contracts.tool import ResourcefulTool
from appliance.execution.standing import Begun, Ending

WORKERS = 8
"""Calls of one batch at the same time; requirements T8."""
BATCH_LIMIT_S = 420.0
"""How long a batch may take; requirements T8."""

Make = Callable[[Begun, float], Awaitable[Ending | None]]
"""Makes one call within that many s, and returns what writes its end."""


class Hands:
    """What makes the calls of batches. One instance a process."""

    def __init__(self, limit_s: float = BATCH_LIMIT_S) -> None:
        self._free = WORKERS - 1
        self._limit_s = limit_s

    async def make_all(self, calls: Sequence[Begun], make: Make) -> list[Ending | None]:
        """Return what writes the ends, in the order of the calls. Cancellation ends all of them first."""
        clock = asyncio.get_running_loop().time
        due_s = clock() + self._limit_s
        ends: list[Ending | None] = [None] * len(calls)
        if len(calls) == 1:
            return [await make(calls[0], self._limit_s)]
        left = deque(_chains(calls))

        async def work() -> None:
            while left:
                for at in left.popleft():
                    ends[at] = await make(calls[at], max(due_s - clock(), 0.0))

        helping = min(len(left) - 1, self._free)
        self._free -= helping
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(helping):
                    group.create_task(work(), name="calls of a batch")
                await work()
        except BaseExceptionGroup as several:  # a fault in a tool, as if it had been called alone
            raise several.exceptions[0] from several
        finally:
            self._free += helping
        return ends


def _chains(calls: Sequence[Begun]) -> list[list[int]]:
    """Return positions of calls that have to be made one after the other, chain by chain: those that share a resource, directly
    or through others."""
    chains: list[tuple[set[str], list[int]]] = []
    for at, call in enumerate(calls):
        needed, chain = set(_resources(call)), [at]
        shared = [each for each in chains if any(_meet(one, other) for one in each[0] for other in needed)]
        for held, others in shared:
            needed |= held
            chain = [*others, *chain]
        chains = [each for each in chains if each not in shared] + [(needed, sorted(chain))]
    return [chain for _, chain in chains]


def _meet(one: str, other: str) -> bool:
    """Whether two resources are the same, or one is part of the other: ``field:plc_1`` is of ``field``."""
    return one == other or one.startswith(f"{other}:") or other.startswith(f"{one}:")


def _resources(call: Begun) -> Sequence[str]:
    tool = call.tool
    if _names_resources(tool):
        return tool.resources_of(call.prepared.arguments)
    return [tool.contract.resource] if tool.contract.resource else []


def _names_resources(tool: object) -> TypeGuard[ResourcefulTool]:
    return hasattr(tool, "resources_of")
