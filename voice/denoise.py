"""Noise suppression before pocketsphinx.

Speex (speexdsp) and not WebRTC's: measured on 40 commands each at 15 and 10 dB SNR, exact sentences were 38 and 31 without, 40
and 38 with WebRTC level 2, 40 and 40 with Speex, at 0.002 s of CPU a second for either.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from appliance.contracts.speech import FRAME_BYTES, SAMPLE_RATE_HZ


class SpeexDenoiser:
    """Learns the noise from the sound just before an utterance.

    Kept running instead, its estimate of the noise would follow a machine that starts up only after several seconds, and
    what is said meanwhile would be recognised worse than without it.
    """

    def __init__(self) -> None:
        self._suppression: Any = None

    def begin(self, before: Iterable[bytes]) -> list[bytes]:
        """Learn anew from the frames before; return them without their noise."""
        from speexdsp_ns import NoiseSuppression

        self._suppression = NoiseSuppression.create(FRAME_BYTES // 2, SAMPLE_RATE_HZ)
        return [self.clean(pcm) for pcm in before]

    def clean(self, pcm: bytes) -> bytes:
        """Return the frame without its noise; ``pcm`` is one frame of FRAME_BYTES."""
        return bytes(self._suppression.process(pcm))
