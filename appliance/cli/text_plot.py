"""A small plot of numbers over time, in characters. Pure."""

from __future__ import annotations

from collections.abc import Sequence

_LEVELS = "▁▂▃▄▅▆▇█"
_UNKNOWN = " "


def plot(values: Sequence[float | None], rows: int = 6) -> list[str]:
    """Return lines from top to bottom, one column a value; where it is None nothing is drawn."""
    known = [value for value in values if value is not None]
    if not known:
        return []
    low, high = min(known), max(known)
    width = high - low
    steps = rows * len(_LEVELS)
    heights = [None if v is None else (round((v - low) / width * (steps - 1)) if width else steps // 2) + 1 for v in values]
    return ["".join(_cell(height, row) for height in heights) for row in range(rows - 1, -1, -1)]


def _cell(height: int | None, row: int) -> str:
    level = 0 if height is None else min(height - row * len(_LEVELS), len(_LEVELS))
    return _UNKNOWN if level <= 0 else _LEVELS[level - 1]


def columns_of(points: Sequence[tuple[float, float | None]], length_s: float, count: int) -> list[float | None]:
    """Return the value held at the end of each of ``count`` equal parts of time, None where none is known. ``points`` are
    ``(at_s, value)``, oldest first, each holding until the next."""
    columns: list[float | None] = []
    position, value = 0, None
    for part in range(1, count + 1):
        while position < len(points) and points[position][0] <= part * length_s / count:
            value = points[position][1]
            position += 1
        columns.append(value)
    return columns
