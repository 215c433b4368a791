"""Which pins of the machine's GPIO header are used for what.

Wiring of an input with ``active_high: false``: the contact between the pin and ground, held up by the Pi's own resistor; with
``true`` between the pin and 3.3 V, held down. An output drives a relay or a lamp driver; ``active_high: false`` is for relay
boards that pull in when the pin is low.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

_LAST_PIN = 27  # GPIO0 to GPIO27 are on the 40-pin header of every Pi since the B+


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class InputPin(_Frozen):
    """A contact. ``debounce_ms``: how long a level must be steady to count."""

    pin: int = Field(ge=0, le=_LAST_PIN, description="BCM number, as in GPIO17; not the number of the header's pin")
    active_high: bool = Field(default=False, description="false: contact to ground; true: contact to 3.3 V")
    debounce_ms: float = Field(default=20.0, ge=1, le=1_000, description="how long a level must be steady to count")


class OutputPin(_Frozen):
    """A lamp or buzzer behind a driver or relay."""

    pin: int = Field(ge=0, le=_LAST_PIN, description="BCM number, as in GPIO17; not the number of the header's pin")
    active_high: bool = Field(default=True, description="false: on when the pin is low, as many relay boards want it")


class StackLight(_Frozen):
    """The lamps of the stack light; one that is not named is not there."""

    red: OutputPin | None = Field(default=None, description="lamp of alarms of critical and high priority")
    amber: OutputPin | None = Field(default=None, description="lamp of lesser alarms, and of an appliance that lacks something")
    green: OutputPin | None = Field(default=None, description="lamp of a quiet line and a whole appliance")


class GpioSettings(_Frozen):
    """``gpio`` of ``appliance.yaml``; a pin that is not named is not touched."""

    push_to_talk: InputPin | None = Field(default=None, description="button, held to talk")
    acknowledge: InputPin | None = Field(default=None, description="button that silences the buzzer and acknowledges alarms")
    key_switch: InputPin | None = Field(default=None, description="key switch, closed when turned on: nothing is carried out")
    stack_light: StackLight = StackLight()
    hold_lamp: OutputPin | None = Field(default=None, description="lamp that is lit while the appliance is on hold")
    buzzer: OutputPin | None = Field(default=None, description="sounds for a new alarm of critical or high priority")

    @model_validator(mode="after")
    def _each_pin_has_one_use(self) -> Self:
        uses: dict[int, str] = {}
        for name, pin in self.pins():
            if (other := uses.setdefault(pin, name)) != name:
                raise ValueError(f"pin {pin} is used by {other} and by {name}; give each a pin of its own")
        return self

    def pins(self) -> Iterator[tuple[str, int]]:
        """Yield the key and the BCM number of each pin in use."""
        named: dict[str, InputPin | OutputPin | None] = {
            "push_to_talk": self.push_to_talk,
            "acknowledge": self.acknowledge,
            "key_switch": self.key_switch,
            "stack_light.red": self.stack_light.red,
            "stack_light.amber": self.stack_light.amber,
            "stack_light.green": self.stack_light.green,
            "hold_lamp": self.hold_lamp,
            "buzzer": self.buzzer,
        }
        yield from ((name, each.pin) for name, each in named.items() if each is not None)

    @property
    def is_used(self) -> bool:
        """Whether any pin is named, so that there is something to run."""
        return any(True for _ in self.pins())
