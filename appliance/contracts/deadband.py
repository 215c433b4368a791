"""Which change of a value is worth reporting: a tag's deadband, absolute or in percent of what was reported last."""

from __future__ import annotations

from appliance.contracts.reading import Value
from appliance.contracts.tag import Tag

_ROUNDING = 1e-9  # relative slack: 94.3 - 94.2 is a whole step of 0.1


def has_moved(tag: Tag, before: Value | None, now: Value | None) -> bool:
    """Whether ``now`` is worth reporting after ``before`` was. Without a deadband, or where one is no number, any change is."""
    if before == now:
        return False
    if tag.deadband is None and tag.deadband_percent is None:
        return True
    if isinstance(before, bool | str | None) or isinstance(now, bool | str | None):
        return True
    band = tag.deadband if tag.deadband is not None else abs(before) * (tag.deadband_percent or 0.0) / 100
    return abs(now - before) >= band * (1 - _ROUNDING)
