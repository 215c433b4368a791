"""Rendered speech."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class Sound:
    """Mono s16le at ``rate_hz``."""

    pcm: bytes
    rate_hz: int

    @property
    def seconds(self) -> float:
        """How long it sounds."""
        return len(self.pcm) / 2 / self.rate_hz

    def at(self, rate_hz: int) -> Sound:
        """Return it at another rate."""
        if rate_hz == self.rate_hz:
            return self
        import soxr

        samples = np.frombuffer(self.pcm, dtype="<i2")
        return Sound(soxr.resample(samples, self.rate_hz, rate_hz).astype("<i2").tobytes(), rate_hz)
