"""When an utterance begins and ends, on made-up probabilities of 32 ms chunks."""

from __future__ import annotations

import pytest

from voice.endpointing import Endpointer, EndReason
from voice.settings import EndpointingSettings
from voice.voice_activity import CHUNK_MS, Chunk

_MS = 1_000_000


def run(endpointer: Endpointer, *spans: tuple[float, int]) -> tuple[EndReason | None, int]:
    """Play spans of (probability, ms); return why it ended and after how many ms."""
    at_ms = 0
    for probability, span_ms in spans:
        for _ in range(span_ms // CHUNK_MS):
            at_ms += CHUNK_MS
            if (why := endpointer.hear(Chunk(b"", probability, at_ms * _MS))) is not None:
                return why, at_ms
    return None, at_ms


def endpointer(*, is_confirming: bool = False, **settings: float) -> Endpointer:
    return Endpointer(EndpointingSettings.model_validate(settings), is_confirming=is_confirming)


@pytest.mark.req("V2")
def test_half_a_second_of_silence_ends_an_utterance_and_the_last_voice_is_its_end() -> None:
    ears = endpointer()
    why, at_ms = run(ears, (0.0, 320), (0.9, 960), (0.0, 2000))
    assert why is EndReason.SILENCE
    assert ears.last_voiced_mono_ns == 1280 * _MS
    assert 500 <= at_ms - 1280 <= 500 + CHUNK_MS


@pytest.mark.req("V2", "S4")
def test_nothing_said_after_the_wake_word_ends_after_three_seconds() -> None:
    why, at_ms = run(endpointer(), (0.1, 10_000))
    assert why is EndReason.NOTHING_SAID
    assert 3000 <= at_ms <= 3000 + CHUNK_MS


@pytest.mark.field("FC-V10")
def test_a_television_ends_at_the_hard_cap() -> None:
    why, at_ms = run(endpointer(), (0.95, 60_000))
    assert why is EndReason.HARD_CAP
    assert 8000 <= at_ms <= 8000 + CHUNK_MS


@pytest.mark.field("FC-V09")
def test_a_short_answer_passes_the_gate_of_a_question_and_not_the_ordinary_one() -> None:
    short = ((0.0, 320), (0.9, 96), (0.0, 1000))
    assert run(endpointer(is_confirming=True), *short)[0] is EndReason.SILENCE
    assert run(endpointer(), *short)[0] is None


@pytest.mark.field("FC-V09")
def test_a_short_answer_is_over_soon_after_it_was_said() -> None:
    why, at_ms = run(endpointer(is_confirming=True), (0.0, 320), (0.9, 256), (0.0, 5000))
    assert why is EndReason.SILENCE
    assert at_ms - 576 <= 500 + CHUNK_MS


def test_clatter_shorter_than_the_gate_does_not_begin_an_utterance() -> None:
    ears = endpointer()
    run(ears, *([(0.9, 64), (0.0, 64)] * 10))
    assert not ears.has_begun


def test_a_breath_within_a_sentence_does_not_end_it() -> None:
    assert run(endpointer(), (0.9, 640), (0.0, 416), (0.9, 640))[0] is None


def test_voice_that_fades_a_little_is_still_voice() -> None:
    assert run(endpointer(), (0.9, 640), (0.4, 2000))[0] is None
    assert run(endpointer(), (0.9, 640), (0.3, 2000))[0] is EndReason.SILENCE


def test_the_tail_of_the_wake_word_is_a_blip_and_the_wait_goes_on() -> None:
    ears = endpointer(is_confirming=True)
    why, _ = run(ears, (0.9, 128), (0.0, 1000))
    assert why is EndReason.SILENCE
    assert ears.is_blip
    ears.begin_again()
    why, _ = run(ears, (0.0, 640), (0.9, 640), (0.0, 1000))
    assert why is EndReason.SILENCE
    assert not ears.is_blip
