"""What was handed out lately, so that it is known when it comes back as if it were news."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable

from appliance.store.memories import StoredMemory

_KEPT = 256  # far more than a turn recalls; older ones are still found among the nearest memories


class RecalledTexts:
    """The memories recalled last, oldest forgotten first."""

    def __init__(self) -> None:
        self._memories: OrderedDict[str, StoredMemory] = OrderedDict()

    def add(self, memories: Iterable[StoredMemory]) -> None:
        """Note that these were handed out."""
        for memory in memories:
            self._memories[memory.id] = memory
            self._memories.move_to_end(memory.id)
        while len(self._memories) > _KEPT:
            self._memories.popitem(last=False)

    def within(self, scope: str) -> list[StoredMemory]:
        """Return those of a scope."""
        return [m for m in self._memories.values() if m.scope == scope]
