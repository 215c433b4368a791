"""Refusals that more than one room or driver makes, each with the reply that says it to people."""

from __future__ import annotations

from appliance.contracts.errors import Refused
from appliance.contracts.tag import Tag


def no_tag(key: str, message: str = "", **facts: object) -> Refused:
    """Return the refusal of a key that is no tag here. It is not said: whoever gave it could have given a sentence."""
    return Refused(message or f"{key} is not a tag of this plant", tag=key, **facts).worded("no_tag")


def not_settable(tag: Tag, message: str) -> Refused:
    """Return the refusal of writing a tag that is only read."""
    return Refused(message, tag=tag.key).worded("not_settable", asset=tag.asset, quantity=tag.key)


def not_its_value(tag: Tag, refused: Refused) -> Refused:
    """Return the refusal of a value a tag does not take, worded if it is not yet."""
    return refused if refused.reply else refused.worded("not_its_value", asset=tag.asset, quantity=tag.key)
