"""A write to a tag as approvals see it: which one, whether the tag takes it at all, how it is said. Pure.

The hard floor of every write is here, in code: a tag that is not declared writable is never written, nor one beyond its limits,
whatever the rules of a site say.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from appliance.contracts.errors import Refused
from appliance.contracts.named_value import number_of
from appliance.contracts.plant import Plant
from appliance.contracts.ports import Wording
from appliance.contracts.refusals import no_tag
from appliance.contracts.tag import DataType, Tag
from appliance.foundation.sentence import capital

WRITE_TOOL = "write_tag"
"""The one tool that writes tags; no other is given the field bus to write."""


@dataclass(frozen=True, slots=True)
class Write:
    """A call of :data:`WRITE_TOOL`. ``value`` is in the tag's engineering unit."""

    key: str
    value: Any

    def facts(self, plant: Plant) -> dict[str, Any]:
        """Return the write for records: value, unit and limits."""
        tag = plant.tag_by_key.get(self.key)
        limits = {} if tag is None else {"unit": tag.unit, "low": tag.low, "high": tag.high}
        return {"tag": self.key, "value": self.value, **limits}


def write_of(tool: str, arguments: Mapping[str, Any]) -> Write | None:
    """Return the write that a call is, None when it is another one."""
    return Write(str(arguments.get("key", "")), arguments.get("value")) if tool == WRITE_TOOL else None


def require_permitted(write: Write, plant: Plant, wording: Wording, language: str) -> None:
    """Check a write against the plant model.

    Raises:
        Refused: no such tag, not declared writable, or outside its limits; the message is the sentence to say.
    """
    tag = plant.tag_by_key.get(write.key)
    if tag is None:
        raise no_tag(write.key, wording.reply("no_tag", language))
    names = {"asset": tag.asset, "quantity": tag.key}
    if not tag.writable:
        raise Refused(capital(wording.reply("not_settable", language, **names)), tag=tag.key)
    if not _takes(tag, write.value):
        raise Refused(capital(_limits(tag, names, wording, language)), tag=tag.key)


def require_sayable(write: Write, plant: Plant, wording: Wording, language: str) -> None:
    """Check that a permitted write can be said as finely as it is written.

    Raises:
        Refused: it has more decimals than the tag is shown with; the message is the sentence to say.
    """
    tag, value = plant.tag_by_key[write.key], write.value
    if isinstance(value, float) and round(value, tag.decimals) != value:
        step = {"value": 10.0**-tag.decimals, "unit": tag.unit, "decimals": tag.decimals}
        raise Refused(capital(wording.reply("too_fine", language, asset=tag.asset, quantity=tag.key, step=step)), tag=tag.key)


def said(write: Write, plant: Plant, wording: Wording, language: str) -> str:
    """Return the sentence that says exactly what would be written, in the tag's unit."""
    tag = plant.tag_by_key[write.key]
    value: Any = write.value
    if tag.names and not isinstance(value, str):
        value = tag.names.get(int(value), str(value))
    elif not isinstance(value, str):
        value = {"value": value, "unit": tag.unit, "decimals": tag.decimals}
    return capital(wording.reply("to_set", language, asset=tag.asset, quantity=tag.key, value=value))


def _takes(tag: Tag, value: Any) -> bool:
    if tag.type is DataType.BOOL:
        return isinstance(value, bool)
    if tag.type is DataType.STRING:
        return isinstance(value, str)
    if tag.names or tag.flags:
        if not isinstance(value, int | float | str):
            return False
        try:
            number_of(tag, value)
        except Refused:
            return False
        return True
    if isinstance(value, bool) or not isinstance(value, int | float) or tag.low is None or tag.high is None:
        return False
    return bool(tag.low <= value <= tag.high)  # whole numbers of any length; neither infinite nor no number lies between


def _limits(tag: Tag, names: Mapping[str, str], wording: Wording, language: str) -> str:
    if tag.low is None or tag.high is None or tag.names or tag.flags or tag.type in (DataType.BOOL, DataType.STRING):
        known = sorted((tag.names or tag.flags).values()) or [wording.spoken({"value": on}, language) for on in (False, True)]
        return wording.reply("not_a_value", language, **names, known=known)
    high = {"value": tag.high, "unit": tag.unit, "decimals": tag.decimals}
    return wording.reply("out_of_limits", language, **names, low=f"{tag.low:.{tag.decimals}f}", high=high)
