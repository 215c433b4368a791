"""Names of lanes: one conversation each, in which turns run one after the other (R1)."""

from __future__ import annotations

ASSET, CONSOLE, TOKEN, CONTROL = "asset:", "console:", "token:", "control:"
"""Prefixes: of the alarms and floods of an asset, which are nobody's own; of who types, with a name as given or with a session
token; of a speaker's interjections."""

CHECKS = "schedule:checks"
"""Lane of all checks that were asked for earlier: nobody's own talk waits for them, and they are one conversation."""


def of_asset(asset: str) -> str:
    """Return the lane of an asset's alarms."""
    return f"{ASSET}{asset}"


def of_person(by: str) -> str:
    """Return the lane of a person who types."""
    return f"{CONSOLE}{by}"


def of_token(by: str) -> str:
    """Return the lane of a person whose session token verified. Whoever gives the same name without one has another lane: nobody
    goes on with a conversation, or answers in it, by calling themselves something."""
    return f"{TOKEN}{by}"


def typed_by(lane: str) -> str:
    """Return the name of who types in a lane, empty for any other."""
    prefix = next((prefix for prefix in (CONSOLE, TOKEN) if lane.startswith(prefix)), None)
    return "" if prefix is None else lane.removeprefix(prefix)


def beside(lane: str) -> str:
    """Return the lane in which interjections from a speaker's own lane are led, beside what runs there."""
    return f"{CONTROL}{lane}"


def own(lane: str) -> str:
    """Return the speaker's own lane: that of the other talk of whoever interjects here, else the lane itself."""
    return lane.removeprefix(CONTROL)


def is_beside(lane: str) -> bool:
    """Whether interjections are led in the lane."""
    return lane.startswith(CONTROL)
