"""How much to send at once, learned from how long the last push took."""

from __future__ import annotations

from dataclasses import dataclass, field

_QUICK_NS = 250_000_000  # shorter than this: send twice as much next time
_SLOW_NS = 1_000_000_000  # longer: send half, so that an alarm never waits much longer than this behind a bulk slice


@dataclass(slots=True)
class SliceSize:
    """Operations in one push of one lane: full size on a good link, down to a single one on a bad one."""

    most: int
    operations: int = field(init=False)

    def __post_init__(self) -> None:
        self.operations = self.most

    def took(self, elapsed_ns: int) -> None:
        """Learn from a push that was acknowledged."""
        if elapsed_ns > _SLOW_NS:
            self.halve()
        elif elapsed_ns < _QUICK_NS:
            self.operations = min(self.most, self.operations * 2)

    def halve(self) -> None:
        """Learn from a push that was lost, as too large a one is on a slow link."""
        self.limit(self.operations // 2)

    def limit(self, operations: int) -> None:
        """Send at most this many next time, and at least one."""
        self.operations = max(1, min(self.operations, operations))
