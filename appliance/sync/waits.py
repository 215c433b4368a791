"""Waits between tries that keep a herd of appliances apart."""

from __future__ import annotations

import random

_LEAST_S = 0.05  # never a busy loop, whatever the dice say


class FullJitter:
    """Each wait is uniform between almost nothing and a bound that doubles from ``first_s`` to ``longest_s``.

    Full jitter spreads appliances that lost the same coordinator at the same moment over the whole interval.
    """

    def __init__(self, first_s: float, longest_s: float) -> None:
        self._first_s = first_s
        self._longest_s = longest_s
        self._bound_s = first_s

    def next_s(self) -> float:
        """Return the next wait in seconds."""
        wait_s = random.uniform(min(_LEAST_S, self._bound_s), self._bound_s)
        self._bound_s = min(self._longest_s, self._bound_s * 2)
        return wait_s

    def reset(self) -> None:
        """Begin anew after a success."""
        self._bound_s = self._first_s
