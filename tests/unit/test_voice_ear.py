"""The ear on a microphone that fails in every way: not there, silent, gone, back again."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import cast

import pytest

from appliance.contracts.errors import ConfigError, Unavailable
from appliance.foundation.system_clock import SystemClock
from voice.ear import Ear
from voice.frames import Frame, FrameQueue
from voice.listener import Listener
from voice.settings import VoiceSettings

SETTINGS = VoiceSettings(no_frames_s=0.3, first_reopen_s=0.01, longest_reopen_s=0.02)


class TroubledMicrophone:
    """Opens only at the third try; falls silent after five frames; then is whole."""

    name = "troubled"
    dropped = 0

    def __init__(self) -> None:
        self.opened = 0
        self.closed = 0
        self._given = 0
        self._pause = threading.Event()

    def open(self) -> None:
        self.opened += 1
        if self.opened < 3:
            raise Unavailable("no microphone of its own on this machine")

    def read(self, timeout_s: float) -> Frame | None:
        self._given += 1
        if self._given == 6:
            return None
        self._pause.wait(0.001)
        return Frame(bytes(640), self._given)

    def close(self) -> None:
        self.closed += 1


class CountingListener:
    """Counts what it hears."""

    def __init__(self, enough: int) -> None:
        self.heard = 0
        self.has_enough = threading.Event()
        self._enough = enough

    def hear(self, frame: Frame) -> None:
        self.heard += 1
        if self.heard >= self._enough:
            self.has_enough.set()


def ear(microphone: TroubledMicrophone, make: Callable[[], CountingListener], reports: list[tuple[str, str]]) -> Ear:
    made = cast("Callable[[], Listener]", make)
    return Ear(SETTINGS, SystemClock(), microphone, made, lambda part, why: reports.append((part, why)))


@pytest.mark.req("V1")
@pytest.mark.field("FC-V02", "FC-V03", "FC-B03")
def test_a_device_that_is_missing_or_falls_silent_is_named_and_opened_again() -> None:
    microphone, listener, reports = TroubledMicrophone(), CountingListener(enough=20), list[tuple[str, str]]()
    listening = ear(microphone, lambda: listener, reports)
    listening.start()
    assert listener.has_enough.wait(10.0)
    listening.stop()
    assert microphone.opened == 4  # two refusals, one silence, one good
    assert microphone.closed == 2
    assert listening.frames_seen == listener.heard
    assert [why for _, why in reports] == [
        "no microphone of its own on this machine",
        "no microphone of its own on this machine",
        "",
        "troubled gives no sound",
        "",
    ]


def test_a_fault_of_the_configuration_is_named_and_ends_the_ear_only() -> None:
    def make() -> CountingListener:
        raise ConfigError("no wake word hey_you", file="appliance.yaml", key="voice.wake_word.model", cure="Use hey_jarvis.")

    reports: list[tuple[str, str]] = []
    listening = ear(TroubledMicrophone(), make, reports)
    listening.start()
    listening.stop()
    assert len(reports) == 1
    assert "hey_you" in reports[0][1]


@pytest.mark.req("V1")
def test_an_ear_that_is_late_loses_new_frames_and_counts_them() -> None:
    frames = FrameQueue(capacity=2)
    for n in range(5):
        frames.put(Frame(b"", n))
    assert (frames.seen, frames.dropped) == (5, 3)
    assert [frames.get(0.1), frames.get(0.1), frames.get(0.01)] == [Frame(b"", 0), Frame(b"", 1), None]
