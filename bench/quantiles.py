"""Percentiles of a sample."""

from __future__ import annotations

from collections.abc import Sequence


def quantile(values: Sequence[float], percent: float) -> float:
    """Return the smallest value that at least ``percent`` of the sample do not exceed (nearest rank).

    Raises:
        ValueError: the sample is empty.
    """
    if not values:
        raise ValueError("no values were measured")
    ordered = sorted(values)
    rank = -(-len(ordered) * percent // 100)  # rounded up
    return ordered[max(0, min(len(ordered), int(rank)) - 1)]


def quantiles(values: Sequence[float], *percents: int) -> dict[str, float]:
    """Return ``{"p50": …}`` for each of ``percents``, rounded to a thousandth."""
    return {f"p{percent}": round(quantile(values, percent), 3) for percent in percents}
