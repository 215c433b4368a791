"""A start that cannot have its ledger is told by a real voice and at a real broker, and the core stays up when a disk fails."""

from __future__ import annotations

import asyncio
import json
import subprocess
from pathlib import Path

from appliance.contracts.errors import Unavailable
from appliance.failed_start import MEMO_FILE, tell_failed_start
from appliance.settings import Settings, load_settings
from drivers.mqtt.topics import IncomingMessage
from drivers.sim.broker import Broker
from tests.support.broker import USERS, running_broker, running_session, settings_for
from tests.support.waiting import until
from voice.settings import VoiceSettings


def settings_of(folder: Path, broker: Broker) -> Settings:
    (folder / "heard").mkdir(parents=True)
    voice = VoiceSettings(microphone=f"wav:{folder / 'heard'}", speaker=f"wav:{folder / 'said.wav'}")
    mine = settings_for(broker, client_id="hand")
    shipped = load_settings(Path("config"), {"FLOORHAND_DATA": str(folder / "data")})
    (folder / "data").mkdir()
    return shipped.model_copy(update={"voice": voice, "mqtt": mine})


async def test_it_is_said_and_published_and_an_alarm_that_comes_meanwhile_is_not_lost(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        settings = settings_of(tmp_path, broker)
        got: list[IncomingMessage] = []

        async def take(message: IncomingMessage) -> None:
            got.append(message)

        # The session of a core that was here before: the broker keeps what comes for it.
        async with running_session(settings.mqtt, take):
            pass
        publish = ["mosquitto_pub", "-p", str(broker.port), "-u", "plc", "-P", USERS["plc"], "-q", "1", "-t", "plant/line/alarms"]
        await asyncio.to_thread(subprocess.run, [*publish, "-m", "an alarm"], check=True)

        await tell_failed_start(settings, Unavailable("the folder cannot be written now"), pause_s=0.0)

        assert (tmp_path / "said.wav").stat().st_size > 10_000
        assert json.loads((settings.socket.with_name(MEMO_FILE)).read_text())["reply"] == "storage_unwritable"
        site = {"username": "site", "password": USERS["site"], "state_prefix": "floorhand/site/command"}
        watch = settings_for(broker, client_id="watch", alarm_topics=("floorhand/hand/trouble",), **site)
        async with running_session(watch, take):
            await until(lambda: got, "the retained message")
        told = json.loads(got[0].payload)
        assert got[0].topic == "floorhand/hand/trouble"
        assert told["trouble"] == "storage_unwritable" and told["detail"] == "the folder cannot be written now"
        got.clear()
        async with running_session(settings.mqtt, take):
            await until(lambda: [message.payload for message in got] == [b"an alarm"], "the alarm that waited")

        # Started again at once, it does not say the same again.
        size = (tmp_path / "said.wav").stat().st_size
        await tell_failed_start(settings, Unavailable("the folder cannot be written now"), pause_s=0.0)
        assert (tmp_path / "said.wav").stat().st_size == size
