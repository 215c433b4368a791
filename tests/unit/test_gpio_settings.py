"""Pins, and the mistakes one makes with them."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from drivers.gpio.settings import GpioSettings

pytestmark = pytest.mark.req("F8")

EVERYTHING: dict[str, Any] = {
    "push_to_talk": {"pin": 17},
    "acknowledge": {"pin": 27},
    "key_switch": {"pin": 22},
    "stack_light": {"red": {"pin": 5}, "amber": {"pin": 6}, "green": {"pin": 13}},
    "buzzer": {"pin": 19},
}


def test_nothing_is_wired_unless_it_is_named() -> None:
    assert not GpioSettings().is_used
    assert list(GpioSettings().pins()) == []
    assert GpioSettings.model_validate({"stack_light": {"red": {"pin": 5}}}).is_used


def test_a_contact_goes_to_ground_and_a_lamp_is_on_when_high() -> None:
    settings = GpioSettings.model_validate(EVERYTHING)
    assert settings.push_to_talk is not None and not settings.push_to_talk.active_high
    assert settings.stack_light.red is not None and settings.stack_light.red.active_high
    assert len(dict(settings.pins())) == 7


@pytest.mark.parametrize(
    ("change", "both"),
    [
        ({"buzzer": {"pin": 17}}, ("push_to_talk", "buzzer")),
        ({"stack_light": {"red": {"pin": 5}, "green": {"pin": 5}}}, ("stack_light.red", "stack_light.green")),
    ],
)
def test_two_uses_of_a_pin_are_named_both(change: dict[str, Any], both: tuple[str, str]) -> None:
    with pytest.raises(ValidationError) as told:
        GpioSettings.model_validate(EVERYTHING | change)
    assert all(name in str(told.value) for name in both)


@pytest.mark.parametrize("pin", [-1, 28, 40])
def test_a_number_that_is_no_gpio_of_the_header_is_refused(pin: int) -> None:
    with pytest.raises(ValidationError):
        GpioSettings.model_validate({"buzzer": {"pin": pin}})
