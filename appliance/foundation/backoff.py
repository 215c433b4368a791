"""Delays between tries, with jitter."""

from __future__ import annotations

import random
from collections.abc import Iterator


def delays_s(first_s: float, longest_s: float, *, jitter: float = 0.2) -> Iterator[float]:
    """Yield for ever: ``first_s`` doubling to ``longest_s``, each moved by up to ±``jitter`` of itself."""
    delay_s = first_s
    while True:
        yield delay_s * (1 + random.uniform(-jitter, jitter))
        delay_s = min(longest_s, delay_s * 2)
