"""Every link is tried for ever, first quickly, then with growing and jittered pauses that have a bound."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from appliance.delivery.dispatcher import voice_waits
from appliance.delivery.publisher import broker_waits
from appliance.foundation.backoff import delays_s
from appliance.sync.settings import SyncSettings
from appliance.sync.waits import FullJitter
from drivers.gpio import chip
from drivers.modbus import units
from drivers.mqtt.settings import MqttSettings
from voice.settings import VoiceSettings

pytestmark = pytest.mark.req("R8")

MQTT, SYNC, VOICE = MqttSettings(), SyncSettings(), VoiceSettings()
LINKS = {
    "broker": (MQTT.first_retry_s, MQTT.longest_retry_s),
    "plc": (units.FIRST_RETRY_S, units.LONGEST_RETRY_S),
    "gpio": (chip._FIRST_RETRY_S, chip._LONGEST_RETRY_S),
    "sound": (VOICE.first_reopen_s, VOICE.longest_reopen_s),
    "service": (0.5, 30.0),
}


def coordinator() -> Iterator[float]:
    waits = FullJitter(SYNC.retry_first_s, SYNC.retry_longest_s)
    while True:
        yield waits.next_s()


@pytest.mark.parametrize("link", LINKS)
def test_pauses_grow_to_a_bound_and_never_end(link: str) -> None:
    first_s, longest_s = LINKS[link]
    assert 0.1 <= first_s <= 30 and first_s < longest_s <= 300  # never a busy loop, never longer than requirements R8 has it
    pauses = list(itertools.islice(delays_s(first_s, longest_s), 500))
    assert 0.8 * first_s <= pauses[0] <= 1.2 * first_s
    assert all(0.8 * longest_s <= pause <= 1.2 * longest_s for pause in pauses[20:])
    assert len(set(pauses)) > 400  # jittered: what was lost together does not come back in step


@pytest.mark.parametrize("waits", [coordinator, voice_waits, broker_waits], ids=lambda waits: waits.__name__)
def test_the_other_waits_are_bounded_too(waits: object) -> None:
    pauses = list(itertools.islice(waits(), 500))  # type: ignore[operator]
    assert all(0.04 < pause <= 72 for pause in pauses)
    assert sum(pauses[100:200]) > 500  # some seconds on average
