"""How loud speech was over the noise of the hall."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

_QUIETEST = 1e-9  # power of full scale 1.0 that counts as silence (-90 dBFS): the floor of 16 bits
_MOST_DB = 60.0  # beyond that the number says nothing


def power(pcm: bytes) -> float:
    """Mean square of s16le samples, 1.0 at full scale."""
    samples: NDArray[np.float32] = np.frombuffer(pcm, dtype="<i2").astype(np.float32) / 32768.0
    return float(np.mean(samples * samples)) if samples.size else 0.0


def dbfs(mean_square: float) -> float:
    """Level in dB below full scale, rounded to a tenth."""
    return round(float(10 * np.log10(max(mean_square, _QUIETEST))), 1)


def speech_level_dbfs(frames: Sequence[bytes]) -> float | None:
    """Level of the loud part of some frames that hold speech, as of the wake word; None when there is only silence."""
    powers = sorted((power(pcm) for pcm in frames), reverse=True)
    loud = [p for p in powers if p > _QUIETEST * 100 and p > powers[0] / 10]
    return dbfs(sum(loud) / len(loud)) if loud else None


def amplified(pcm: bytes, gain_db: float) -> bytes:
    """Return s16le samples louder or softer, without overflow."""
    if gain_db == 0.0:
        return pcm
    samples = np.frombuffer(pcm, dtype="<i2").astype(np.float32) * 10 ** (gain_db / 20)
    return bytes(np.clip(samples, -32768, 32767).astype("<i2").tobytes())


def snr_db(voiced: list[float], unvoiced: list[float]) -> float | None:
    """Ratio of speech to noise from the power of voiced and unvoiced frames; None without either kind.

    The noise under the speech is taken out of it. The median keeps a clank or a cough from counting as the noise.
    """
    if not voiced or not unvoiced:
        return None
    noise = max(float(np.median(unvoiced)), _QUIETEST)
    speech = max(float(np.mean(voiced)) - noise, noise * 1e-3)
    return round(min(_MOST_DB, float(10 * np.log10(speech / noise))), 1)
