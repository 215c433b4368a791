"""A reading as plans, results and ``Wording`` know it: a mapping that is JSON and can be spoken."""

from __future__ import annotations

from pydantic import Field

from appliance.contracts.clock import Clock
from appliance.contracts.named_value import states_of
from appliance.contracts.reading import Quality, Reading, Value
from appliance.contracts.tag import Tag
from appliance.execution.fields import Fields


class Quantity(Fields):
    """``value`` is None when ``quality`` is ``bad``. ``age_s``: seconds since it was true at the source, None if it never was.

    ``states``: what ``value`` says by name (``contracts.named_value.states_of``); it is not there for a tag that has no names.
    """

    value: Value | None
    unit: str
    decimals: int
    quality: Quality
    age_s: float | None
    states: tuple[str, ...] | None = Field(default=None, exclude_if=lambda states: states is None)


def quantity_of(reading: Reading, tag: Tag, clock: Clock) -> Quantity:
    """Return the quantity of one reading; a bad one never carries a number."""
    age_s = reading.age_s(clock)
    value = None if reading.quality is Quality.BAD else reading.value
    return Quantity(
        value=value,
        unit=reading.unit,
        decimals=tag.decimals,
        quality=reading.quality,
        age_s=None if age_s is None else round(age_s, 1),
        states=None if value is None else states_of(tag, value),
    )
