"""Puts numbered messages back in order (Sparkplug ``seq``: 0 to 255, then 0 again). Pure."""

from __future__ import annotations

from typing import Generic, TypeVar

T = TypeVar("T")

NUMBERS = 256  # Sparkplug 3.0.0, section 6.4.1
MOST_HELD = 32  # messages that may wait for an earlier one; reordering by a cluster is a matter of a few


class InOrder(Generic[T]):
    """Lets items pass in the order of their numbers, and holds back those that came too early."""

    def __init__(self, first: int) -> None:
        """``first`` is the number expected next."""
        self._next = first % NUMBERS
        self._held: dict[int, T] = {}

    @property
    def is_waiting(self) -> bool:
        """Whether something is held back because an earlier one has not come."""
        return bool(self._held)

    @property
    def is_full(self) -> bool:
        """Whether nothing more should be waited for: :meth:`give_up`."""
        return len(self._held) >= MOST_HELD

    def offer(self, number: int, item: T) -> list[T]:
        """Return the items whose turn it now is. One that came already (the newest, or one held) is dropped."""
        if number == self._next:
            passed = [item]
            self._next = (number + 1) % NUMBERS
            while self._next in self._held:
                passed.append(self._held.pop(self._next))
                self._next = (self._next + 1) % NUMBERS
            return passed
        if number != (self._next - 1) % NUMBERS:
            self._held.setdefault(number, item)
        return []

    def give_up(self) -> list[T]:
        """Wait no longer for what is missing: return all that was held, in order, and go on behind it."""
        numbers = sorted(self._held, key=lambda number: (number - self._next) % NUMBERS)
        passed = [self._held.pop(number) for number in numbers]
        if numbers:
            self._next = (numbers[-1] + 1) % NUMBERS
        return passed
