"""When an utterance begins and ends. Pure: it sees probabilities, not sound."""

from __future__ import annotations

from enum import StrEnum

from voice.settings import EndpointingSettings
from voice.voice_activity import CHUNK_MS, Chunk

_RELEASE = 0.15  # how far below the threshold voice goes on (Silero's own hysteresis in get_speech_timestamps)
_BLIP_MS = 250  # voice shorter than the shortest word ("no" is 260 ms) that the recogniser made nothing of


class EndReason(StrEnum):
    """Why an utterance ended."""

    SILENCE = "silence"
    NOTHING_SAID = "nothing_said"
    HARD_CAP = "hard_cap"
    RELEASED = "released"
    INTERRUPTED = "interrupted"


class Endpointer:
    """Watches one utterance, from the wake word or the button on."""

    def __init__(self, settings: EndpointingSettings, *, is_confirming: bool) -> None:
        self._settings = settings
        gate_ms = settings.confirm_speech_gate_ms if is_confirming else settings.speech_gate_ms
        self._gate_chunks = max(1, round(gate_ms / CHUNK_MS))
        self._heard_ms = 0
        self._silence_ms = 0
        self._run_chunks = 0
        self._is_voiced = False
        self.has_begun = False
        self.voiced_ms = 0
        self.last_voiced_mono_ns: int | None = None

    @property
    def is_blip(self) -> bool:
        """Whether so little was said, so early, that the first word may be still to come."""
        return self.voiced_ms < _BLIP_MS and self._heard_ms < self._settings.silence_after_wake_s * 1000

    def hear(self, chunk: Chunk) -> EndReason | None:
        """Take the next 32 ms; return why the utterance has ended, or None while it goes on."""
        self._heard_ms += CHUNK_MS
        threshold = self._settings.threshold - (_RELEASE if self._is_voiced else 0.0)
        self._is_voiced = chunk.probability >= threshold
        if self._is_voiced:
            self._silence_ms = 0
            self._run_chunks += 1
            self.voiced_ms += CHUNK_MS
            self.last_voiced_mono_ns = chunk.ended_mono_ns
            self.has_begun = self.has_begun or self._run_chunks >= self._gate_chunks
        else:
            self._silence_ms += CHUNK_MS
            self._run_chunks = 0
        if self.has_begun and self._silence_ms >= self._settings.silence_ms:
            return EndReason.SILENCE
        if not self.has_begun and self._heard_ms >= self._settings.silence_after_wake_s * 1000:
            return EndReason.NOTHING_SAID
        if self._heard_ms >= self._settings.hard_cap_s * 1000:
            return EndReason.HARD_CAP
        return None

    def begin_again(self) -> None:
        """Wait for the first word anew; the time since the wake word goes on."""
        self.has_begun = False
        self.voiced_ms = 0
        self._silence_ms = 0
