"""On-delay and off-delay of an alarm: how long a condition must hold, or be over, to count. Pure; time is handed in."""

from __future__ import annotations


class Delay:
    """``is_active`` follows the condition once it has lasted. Times are monotonic, in ns.

    While nothing is known nothing counts. A gap in what is known does not start the time anew, or a link that blinks would keep
    an alarm from ever coming; but only an answer after the gap can make it count.
    """

    __slots__ = ("_off_ns", "_on_ns", "_since_ns", "due_mono_ns", "is_active")

    def __init__(self, on_s: float, off_s: float) -> None:
        self._on_ns = round(on_s * 1e9)
        self._off_ns = round(off_s * 1e9)
        self._since_ns: int | None = None  # from then on the condition was other than is_active
        self.is_active = False
        self.due_mono_ns: int | None = None
        """When :attr:`is_active` changes if nothing else happens; None when nothing is to be waited for."""

    def hear(self, holds: bool, at_mono_ns: int) -> bool:
        """Take in what the condition says; return whether :attr:`is_active` changed."""
        if holds is self.is_active:
            if self._since_ns is not None:
                self._since_ns = self.due_mono_ns = None
            return False
        if self._since_ns is None:
            self._since_ns = at_mono_ns
        self.due_mono_ns = self._since_ns + (self._off_ns if self.is_active else self._on_ns)
        return self.expire(at_mono_ns)

    def lose_sight(self) -> None:
        """Say that nothing is known until the condition is heard of again."""
        self.due_mono_ns = None

    def expire(self, now_mono_ns: int) -> bool:
        """Let time pass; return whether :attr:`is_active` changed."""
        if self.due_mono_ns is None or now_mono_ns < self.due_mono_ns:
            return False
        self.settle(not self.is_active)
        return True

    def settle(self, is_active: bool) -> None:
        """Be what somebody else says it is."""
        self.is_active = is_active
        self._since_ns = self.due_mono_ns = None
