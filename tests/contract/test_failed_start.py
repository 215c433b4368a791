"""A start that cannot have its ledger is told by a real voice and at a real broker, and the core stays up when a disk fails."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import subprocess
from pathlib import Path

import pytest

from appliance.contracts.errors import Unavailable
from appliance.delivery.last_words import memo_file
from appliance.failed_start import reply_of, tell_failed_start
from appliance.planning.phrases import Phrasebook
from appliance.settings import Settings, load_settings
from appliance.store.faults import translate
from drivers.mqtt.topics import IncomingMessage
from drivers.sim.broker import Broker
from tests.support.broker import USERS, running_broker, running_session, settings_for
from tests.support.planning import shipped_plant
from tests.support.waiting import until
from voice.settings import VoiceSettings


def settings_of(folder: Path, broker: Broker) -> Settings:
    (folder / "heard").mkdir(parents=True)
    voice = VoiceSettings(microphone=f"wav:{folder / 'heard'}", speaker=f"wav:{folder / 'said.wav'}")
    mine = settings_for(broker, client_id="hand")
    shipped = load_settings(Path("config"), {"FLOORHAND_DATA": str(folder / "data")})
    (folder / "data").mkdir()
    return shipped.model_copy(update={"voice": voice, "mqtt": mine})


async def test_it_is_said_and_published_and_an_alarm_that_comes_meanwhile_is_not_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime := tmp_path / "runtime"))
    runtime.mkdir()
    async with running_broker(tmp_path) as broker:
        settings = settings_of(tmp_path, broker)
        memo = memo_file(settings.socket, settings.data_dir)
        assert memo.parent == runtime  # not on the disk that cannot be written
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
        assert json.loads(memo.read_text())["reply"] == "storage_unwritable"
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


def test_each_reason_has_its_own_words() -> None:
    """A core that does not start takes no alarms, and another program is no broken disk."""
    held = translate(_error(sqlite3.SQLITE_BUSY), Path("ledger.sqlite"))
    broken = translate(_error(sqlite3.SQLITE_IOERR), Path("ledger.sqlite"))
    full = translate(_error(sqlite3.SQLITE_FULL), Path("ledger.sqlite"))
    damaged = translate(_error(sqlite3.SQLITE_CORRUPT), Path("ledger.sqlite"))
    found = [reply_of(error) for error in (held, broken, full, damaged) if error is not None]
    assert found == ["storage_held", "storage_unwritable", "storage_used_up", "ledger_damaged"]
    for language, words in (("en", "no alarms"), ("zh", "不接收报警")):
        assert words in Phrasebook.load(Path("config/phrases"), shipped_plant()).replies(language)["storage_used_up"]


def _error(code: int) -> sqlite3.Error:
    error = sqlite3.OperationalError("a test said so")
    error.sqlite_errorcode = code
    return error
