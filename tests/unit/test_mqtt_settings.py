"""Settings of the MQTT session."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from drivers.mqtt.settings import MqttSettings


def test_defaults_are_usable_and_secrets_do_not_show() -> None:
    settings = MqttSettings(username="hand", password="secret-word")  # type: ignore[arg-type]
    assert "secret-word" not in repr(settings)
    assert settings.alarm_topics == ("plant/+/alarms",)
    assert settings.state_topic == "floorhand/floorhand/state"


def test_a_gateway_says_that_it_is_there_below_its_own_prefix() -> None:
    assert MqttSettings(client_id="g", state_prefix="plant").state_topic == "plant/g/state"


@pytest.mark.parametrize(
    "wrong",
    [
        {"username": "u", "password": "a", "password_file": "b"},
        {"password": "a"},
        {"client_id": "a/b"},
        {"command_prefix": "a/#"},
        {"state_prefix": "a/"},
        {"tls": {"cert": "c.pem"}},
        {"prot": 1},
    ],
)
def test_mistakes_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        MqttSettings.model_validate(wrong)
