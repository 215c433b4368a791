"""How this appliance hears and speaks. Units are in the names; each default says why it is what it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

WAV_PREFIX = "wav:"


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class WakeWordSettings(_Frozen):
    """What starts listening besides the button."""

    engine: Literal["micro"] = Field(default="micro", description="microWakeWord: free licence, 0.003 s of CPU a second")
    model: str = Field(
        default="hey_jarvis",
        description="a model inside pymicro-wakeword (alexa, hey_jarvis, hey_mycroft, okay_nabu) or a name in models",
    )
    threshold: float | None = Field(
        default=None,
        gt=0,
        lt=1,
        description="probability that counts as heard; none: the model's own, 0.97",
    )
    pre_roll_ms: int = Field(
        default=60, ge=0, le=500,
        description="kept from before the detection, which comes 4-150 ms after the phrase: more would let its end into the text",
    )  # fmt: skip


class EndpointingSettings(_Frozen):
    """When somebody has begun and has finished speaking."""

    silence_ms: int = Field(default=500, ge=100, le=3000, description="pause that ends an utterance; shorter cuts slow speakers")
    speech_gate_ms: int = Field(default=150, ge=30, le=1000, description="voice needed before it counts; passes over clatter")
    confirm_speech_gate_ms: int = Field(
        default=100, ge=30, le=1000, description="the same while a question is open: a short no is 260 ms"
    )
    hard_cap_s: float = Field(default=8.0, gt=1, le=60, description="longest utterance: a television never ends by itself")
    silence_after_wake_s: float = Field(default=3.0, gt=0.5, le=30, description="how long to wait for the first word")
    threshold: float = Field(default=0.5, gt=0, lt=1, description="probability that counts as voice: the detector's own default")


class VoiceSettings(_Frozen):
    """``voice`` of ``appliance.yaml``; also what the voice process is started with."""

    language: str = Field(default="en", pattern="^[a-z]{2,3}$", description="language listened for, ISO 639")
    microphone: str = Field(
        default="",
        description="empty: the default sound card; a device's name or part of it; wav:DIR: a folder whose WAV files are heard",
    )
    speaker: str = Field(default="", description="empty: the default sound card; a device's name or part of it; none; wav:FILE")
    record_to: Path | None = Field(default=None, description="WAV file that also gets everything spoken; none keeps no audio")
    record_limit_mb: int = Field(default=256, ge=1, description="size at which the recording is begun anew; one old one is kept")
    wake_word: WakeWordSettings = WakeWordSettings()
    endpointing: EndpointingSettings = EndpointingSettings()
    button_pre_roll_ms: int = Field(
        default=300, ge=0, le=2000, description="kept from before the button: people speak as they press"
    )
    recogniser: Literal["auto", "vosk", "pocketsphinx"] = Field(
        default="auto", description="auto: vosk when models has vosk-<language>, else pocketsphinx (English, no download)"
    )
    rejection_margin: float = Field(
        default=-3.4, le=0,
        description="pocketsphinx: nats a frame of 10 ms that the worst stretch of words may fit worse than free phonemes",
    )  # fmt: skip
    synthesizer: Literal["auto", "piper", "espeak"] = Field(
        default="auto", description="auto: a Piper voice of the language, else espeak-ng"
    )
    speaking_rate: float = Field(default=1.0, ge=0.5, le=2.0, description="1 is the voice's own speed, larger is faster")
    models: dict[str, str] = Field(
        default_factory=dict, description="name -> path: vosk-<language>, piper-<language>, or a wake word's JSON"
    )
    half_duplex_tail_ms: int = Field(
        default=500, ge=0, le=5000, description="the microphone stays closed this long after speech: the hall still sounds"
    )
    prepared_audio_mb: int = Field(
        default=32, ge=1, le=512, description="bound of ready-made speech: 1 MB is 24 s; the longest unused goes"
    )
    no_frames_s: float = Field(default=2.0, gt=0.2, le=60, description="a device that gives nothing for so long is reopened")
    first_reopen_s: float = Field(default=0.5, gt=0, description="first pause before a device is tried again; doubles")
    longest_reopen_s: float = Field(default=15.0, gt=0, description="longest such pause")

    @field_validator("record_to", mode="before")
    @classmethod
    def _empty_is_none(cls, value: Any) -> Any:
        return None if value == "" else value  # what ${FLOORHAND_SPEAKER_RECORD:-} becomes when nobody set it
