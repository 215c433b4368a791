"""Names of lanes: one conversation each, in which turns run one after the other (R1)."""

from __future__ import annotations

ASSET, CONSOLE, CONTROL = "asset:", "console:", "control:"
"""Prefixes: of the alarms and floods of an asset, which are nobody's own; of who types; of a speaker's interjections."""


def of_asset(asset: str) -> str:
    """Return the lane of an asset's alarms."""
    return f"{ASSET}{asset}"


def of_person(by: str) -> str:
    """Return the lane of a person who types."""
    return f"{CONSOLE}{by}"


def beside(lane: str) -> str:
    """Return the lane in which interjections from a speaker's own lane are led, beside what runs there."""
    return f"{CONTROL}{lane}"


def own(lane: str) -> str:
    """Return the speaker's own lane: that of the other talk of whoever interjects here, else the lane itself."""
    return lane.removeprefix(CONTROL)


def is_beside(lane: str) -> bool:
    """Whether interjections are led in the lane."""
    return lane.startswith(CONTROL)
