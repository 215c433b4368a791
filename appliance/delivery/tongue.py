"""What a language needs to say numbers, units and lists: data only, one instance a language."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Tongue:
    """Patterns hold ``{}`` where the number goes.

    ``units``: unit -> (pattern for exactly one, pattern for any other). ``durations``: pattern pairs for seconds, minutes,
    hours and days. ``stale`` takes ``{value}`` and ``{age}``, ``stale_ageless`` only ``{value}``.
    """

    units: Mapping[str, tuple[str, str]]
    durations: Mapping[str, tuple[str, str]]
    between_durations: str
    minus: str
    power: str
    nearly_zero: str
    on: str
    off: str
    yes: str
    no: str
    unknown: str
    bad: str
    stale: str
    stale_ageless: str
    comma: str
    final_and: str
