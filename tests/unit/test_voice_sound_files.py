"""WAV files as microphone and as loudspeaker."""

from __future__ import annotations

import wave
from pathlib import Path

import numpy as np
import pytest

from appliance.contracts.errors import Malformed, Refused, Unavailable
from appliance.contracts.speech import FRAME_BYTES
from appliance.foundation.system_clock import SystemClock
from tests.support.clock import ManualClock
from tests.support.waiting import within
from voice.sound import Sound
from voice.speaker import Speaker
from voice.spool_microphone import SpoolMicrophone
from voice.wav_file import read_as_microphone
from voice.wav_speaker import RATE_HZ, WavSpeaker

_LIMIT = 10_000_000


def write(path: Path, rate_hz: int, channels: int, width: int, seconds: float = 0.2) -> Path:
    samples = np.sin(np.arange(int(rate_hz * seconds)) * 2 * np.pi * 440 / rate_hz) * 0.5
    scaled = samples * 127 + 128 if width == 1 else samples * (2 ** (8 * width - 1) - 1)
    both = np.repeat(scaled.astype({1: "u1", 2: "<i2", 4: "<i4"}[width]), channels)
    with wave.open(str(path), "wb") as file:
        file.setnchannels(channels)
        file.setsampwidth(width)
        file.setframerate(rate_hz)
        file.writeframes(both.tobytes())
    return path


def frames_in(path: Path) -> int:
    with wave.open(str(path), "rb") as file:
        return file.getnframes()


# microphone -----------------------------------------------------------------------------------------------------------
@pytest.mark.req("V1")
@pytest.mark.field("FC-V02")
@pytest.mark.parametrize(("rate_hz", "channels", "width"), [(16_000, 1, 2), (44_100, 2, 2), (48_000, 1, 4), (8_000, 1, 1)])
def test_any_rate_and_width_is_heard_as_16_khz_mono(tmp_path: Path, rate_hz: int, channels: int, width: int) -> None:
    pcm = read_as_microphone(write(tmp_path / "a.wav", rate_hz, channels, width))
    samples = np.frombuffer(pcm, "<i2") / 32767
    assert len(samples) == pytest.approx(3200, abs=20)
    assert np.sqrt((samples[400:-400] ** 2).mean()) == pytest.approx(0.5 / np.sqrt(2), rel=0.05)


@pytest.mark.parametrize("content", [b"", b"RIFF", b"not a sound at all", b"RIFF\x24\0\0\0WAVEfmt "])
def test_what_is_no_sound_is_malformed(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.wav"
    path.write_bytes(content)
    with pytest.raises(Malformed):
        read_as_microphone(path)


def spool(folder: Path, is_open: bool = True) -> SpoolMicrophone:
    return SpoolMicrophone(folder, SystemClock(), lambda at: is_open)


def test_the_folder_gives_silence_then_the_recording_then_silence(tmp_path: Path) -> None:
    microphone = spool(tmp_path)
    microphone.open()
    clock = SystemClock()
    began_ns = clock.monotonic_ns()
    write(tmp_path / "a.wav", 16_000, 1, 2)
    with within(2.0):
        frames = [microphone.read(1.0) for _ in range(30)]
    assert (clock.monotonic_ns() - began_ns) / 1e9 > 0.5  # 30 frames of 20 ms, in real time
    heard = [frame is not None and any(frame.pcm) for frame in frames]
    first = heard.index(True)
    assert heard[first : first + 10] == [True] * 10
    assert not any(heard[first + 11 :])
    assert all(frame is not None and len(frame.pcm) == FRAME_BYTES for frame in frames)
    assert [path.name for path in tmp_path.iterdir()] == ["a.wav.heard"]


def test_a_file_that_is_no_recording_is_refused_and_the_next_is_heard(tmp_path: Path) -> None:
    (tmp_path / "a.wav").write_bytes(b"broken")
    write(tmp_path / "b.wav", 16_000, 1, 2, seconds=0.1)
    microphone = spool(tmp_path)
    microphone.open()
    for _ in range(20):
        microphone.read(1.0)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.wav.refused", "b.wav.heard"]


@pytest.mark.field("FC-V05")
def test_a_recording_waits_while_we_speak(tmp_path: Path) -> None:
    write(tmp_path / "a.wav", 16_000, 1, 2)
    microphone = spool(tmp_path, is_open=False)
    microphone.open()
    for _ in range(20):
        microphone.read(1.0)
    assert [path.name for path in tmp_path.iterdir()] == ["a.wav"]


@pytest.mark.field("FC-V02")
def test_a_folder_that_is_not_there_can_be_tried_again(tmp_path: Path) -> None:
    with pytest.raises(Unavailable):
        spool(tmp_path / "none").open()


# loudspeaker ----------------------------------------------------------------------------------------------------------
def second(seconds: float) -> Sound:
    return Sound(bytes(int(RATE_HZ * seconds) * 2), RATE_HZ)


@pytest.mark.req("V5")
def test_the_recording_is_a_valid_file_after_every_piece_and_keeps_real_time(tmp_path: Path) -> None:
    path = tmp_path / "speech.wav"
    clock = SystemClock()
    speaker = WavSpeaker(path, clock, limit_bytes=_LIMIT)
    began_ns = clock.monotonic_ns()
    for n in range(1, 4):
        speaker.play(second(0.1))
        assert frames_in(path) == n * (RATE_HZ // 10)
    speaker.drain()
    assert (clock.monotonic_ns() - began_ns) / 1e9 >= 0.299
    speaker.close()


def test_the_recording_goes_on_after_a_restart_that_left_half_a_sample(tmp_path: Path) -> None:
    path = tmp_path / "speech.wav"
    for n in range(1, 3):
        speaker = WavSpeaker(path, SystemClock(), limit_bytes=_LIMIT)
        speaker.play(second(0.02))
        speaker.close()
        assert frames_in(path) == n * (RATE_HZ // 50)
        with path.open("ab") as file:
            file.write(b"\1")


def test_a_foreign_or_damaged_file_is_set_aside_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "speech.wav"
    path.write_bytes(b"somebody's notes")
    speaker = WavSpeaker(path, SystemClock(), limit_bytes=_LIMIT)
    speaker.play(second(0.02))
    speaker.close()
    assert (tmp_path / "speech.old.wav").read_bytes() == b"somebody's notes"
    assert frames_in(path) == RATE_HZ // 50


def test_the_recording_is_bounded(tmp_path: Path) -> None:
    path = tmp_path / "speech.wav"
    speaker = WavSpeaker(path, ManualClock(), limit_bytes=1_000)
    for _ in range(3):
        speaker.cut()
        speaker.play(second(0.02))
    speaker.close()
    assert frames_in(path) == RATE_HZ // 50
    assert frames_in(tmp_path / "speech.old.wav") == 2 * (RATE_HZ // 50)


def test_other_rates_are_converted(tmp_path: Path) -> None:
    speaker = WavSpeaker(tmp_path / "speech.wav", SystemClock(), limit_bytes=_LIMIT)
    assert speaker.fit(Sound(bytes(3200), 16_000)).rate_hz == RATE_HZ
    assert speaker.fit(Sound(bytes(3200), 16_000)).seconds == pytest.approx(0.1, abs=0.002)


class GoneCard:
    """A card that was unplugged."""

    name = "card"

    def fit(self, sound: Sound) -> Sound:
        raise Unavailable("no loudspeaker of its own on this machine")

    def play(self, piece: Sound) -> None:
        raise AssertionError("a card that is gone is not played on")

    def drain(self) -> None: ...

    def cut(self) -> None: ...

    def close(self) -> None: ...


@pytest.mark.field("FC-V02")
def test_a_missing_card_is_named_and_the_recording_goes_on(tmp_path: Path) -> None:
    reports: list[tuple[str, str]] = []
    recording = WavSpeaker(tmp_path / "speech.wav", SystemClock(), limit_bytes=_LIMIT)
    speaker = Speaker(GoneCard(), recording, lambda part, why: reports.append((part, why)))
    speaker.begin()
    assert len(list(speaker.play(second(0.25)))) == 3
    speaker.close()
    assert frames_in(tmp_path / "speech.wav") == int(RATE_HZ * 0.25)
    assert reports == [("speaker", "no loudspeaker of its own on this machine")]


def test_without_any_output_speech_is_unavailable_or_refused(tmp_path: Path) -> None:
    speaker = Speaker(GoneCard(), None, lambda part, why: None)
    speaker.begin()
    with pytest.raises(Unavailable):
        list(speaker.play(second(0.1)))
    with pytest.raises(Refused):
        Speaker(None, None, lambda part, why: None).begin()
