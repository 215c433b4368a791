"""The margin, levels, settings, prepared audio and the wire."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest
from pydantic import ValidationError

from appliance.contracts.delivery import Channel, Delivery, DeliveryStatus
from appliance.contracts.speech import Grammar, Utterance
from voice import wire
from voice.level import amplified, dbfs, power, snr_db, speech_level_dbfs
from voice.prepared_audio import PreparedAudio
from voice.settings import VoiceSettings
from voice.sound import Sound
from voice.transcriber.margin import Segment, confidence, free_fit, worst_stretch


# margin -------------------------------------------------------------------------------------------------------------
def test_words_that_fit_like_free_phonemes_have_no_margin() -> None:
    free = free_fit([Segment("S", 0, 49, -50.0), Segment("T", 50, 99, -50.0)], 100)
    fit = worst_stretch([Segment("<sil>", 0, 9, -10.0), Segment("stop", 10, 99, -90.0)], free)
    assert fit is not None
    assert fit.margin == pytest.approx(0.0)


@pytest.mark.field("FC-V08")
def test_one_stretch_that_does_not_fit_decides_however_well_the_rest_does() -> None:
    free = free_fit([Segment("AH", 0, 299, -300.0)], 300)
    words = [Segment("set", 0, 99, -100.0), Segment("speed", 100, 199, -600.0), Segment("now", 200, 299, -100.0)]
    fit = worst_stretch(words, free)
    assert fit is not None
    assert fit.margin == pytest.approx(-5.0)
    assert fit.words == "speed"


def test_a_short_word_is_measured_with_its_neighbour() -> None:
    free = free_fit([Segment("AH", 0, 119, -120.0)], 120)
    words = [Segment("the(2)", 0, 9, -60.0), Segment("temperature", 10, 119, -110.0)]
    fit = worst_stretch(words, free)
    assert fit is not None
    assert fit.words == "the temperature"
    assert fit.margin == pytest.approx(-50 / 120)


def test_only_fillers_are_no_words() -> None:
    assert worst_stretch([Segment("<sil>", 0, 99, -1.0), Segment("[NOISE]", 100, 110, -1.0)], free_fit([], 200)) is None


def test_confidence_is_even_at_the_threshold() -> None:
    assert confidence(-3.0, -3.0) == 0.5
    assert confidence(-1.0, -3.0) > 0.8 > 0.2 > confidence(-6.0, -3.0)
    assert confidence(-1e9, -3.0) == 0.0


# levels -------------------------------------------------------------------------------------------------------------
def tone(amplitude: float, samples: int = 320) -> bytes:
    return (np.sin(np.arange(samples) * 0.3) * amplitude * 32767).astype("<i2").tobytes()


def test_a_full_tone_is_3_db_below_full_scale() -> None:
    assert dbfs(power(tone(1.0, 16_000))) == pytest.approx(-3.0, abs=0.1)


@pytest.mark.req("V1")
def test_snr_is_speech_without_the_noise_under_it() -> None:
    assert snr_db([1.1e-3] * 10, [1e-4] * 10) == pytest.approx(10.0, abs=0.1)
    assert snr_db([1e-3], []) is None


def test_gain_is_what_it_says_and_never_overflows() -> None:
    assert dbfs(power(amplified(tone(0.1, 16_000), 6.0))) == pytest.approx(dbfs(power(tone(0.1, 16_000))) + 6, abs=0.1)
    assert np.frombuffer(amplified(tone(0.9), 20.0), "<i2").max() == 32767


def test_the_level_of_speech_is_that_of_its_loud_part() -> None:
    quiet, loud = tone(0.001), tone(0.5)
    assert speech_level_dbfs([quiet] * 40 + [loud] * 10) == pytest.approx(dbfs(power(loud)), abs=0.1)
    assert speech_level_dbfs([bytes(640)] * 10) is None


# settings -----------------------------------------------------------------------------------------------------------
@pytest.mark.req("O5")
def test_an_unknown_key_is_refused() -> None:
    with pytest.raises(ValidationError, match="volume"):
        VoiceSettings.model_validate({"volume": 3})


@pytest.mark.req("V7")
def test_no_audio_is_kept_unless_asked_for() -> None:
    assert VoiceSettings().record_to is None
    assert VoiceSettings.model_validate({"record_to": ""}).record_to is None


def test_settings_travel_to_the_process_unchanged() -> None:
    settings = VoiceSettings(microphone="wav:/x", record_to=Path("/y.wav"), models={"vosk-ko": "/m"})
    assert VoiceSettings.model_validate_json(settings.model_dump_json()) == settings


# prepared audio ------------------------------------------------------------------------------------------------------
def test_prepared_audio_is_bounded_and_forgets_what_was_not_used_for_longest() -> None:
    kept = PreparedAudio(limit_bytes=300)
    for name in ("a", "b", "c"):
        kept.keep(("en", name), Sound(bytes(100), 22_050))
    assert kept.find(("en", "a")) is not None
    kept.keep(("en", "d"), Sound(bytes(100), 22_050))
    assert kept.find(("en", "b")) is None
    assert kept.find(("en", "a")) is not None
    assert kept.size_bytes == 300


def test_prepared_audio_counts_a_sentence_once_and_keeps_no_giant() -> None:
    kept = PreparedAudio(limit_bytes=300)
    kept.keep(("en", "a"), Sound(bytes(100), 22_050))
    kept.keep(("en", "a"), Sound(bytes(120), 22_050))
    kept.keep(("en", "giant"), Sound(bytes(400), 22_050))
    assert (len(kept), kept.size_bytes) == (1, 120)


# wire ---------------------------------------------------------------------------------------------------------------
def test_grammar_and_utterance_survive_the_wire() -> None:
    grammar = Grammar("en", "#JSGF", "#JSGF", ("a", "b"), ("a b",))
    assert wire.read_grammar(wire.grammar_event(grammar)) == grammar
    heard = Utterance("ut_1", "stop", "en", "pocketsphinx", 0.9, 1, 2, 3, {"end": "silence"})
    assert wire.read_utterance(wire.transcript_event(heard).data) == heard


def test_synthesize_carries_the_lead_beside_wyomings_own_fields() -> None:
    at = datetime(2026, 3, 2, tzinfo=UTC)
    delivery = Delivery(
        "dl_1", 1, Channel.SPEECH, None, "en", "Hot.", "Very.", 9, DeliveryStatus.ATTEMPTING, 1, False, at, 0, None, None
    )
    event = wire.synthesize_event(delivery)
    assert event.type == "synthesize"
    assert event.data["text"] == "Very."
    assert event.data["voice"] == {"language": "en"}
    assert (event.data["delivery"], event.data["lead"], event.data["priority"]) == ("dl_1", "Hot.", 9)
