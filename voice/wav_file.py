"""Reading WAV files of any rate as what a microphone would have given."""

from __future__ import annotations

import wave
from pathlib import Path

import numpy as np

from appliance.contracts.errors import Malformed
from appliance.contracts.speech import SAMPLE_RATE_HZ

_LONGEST_S = 600  # a recording this long is not somebody speaking to a machine
_WIDTHS = {1: "u1", 2: "<i2", 4: "<i4"}


def read_as_microphone(path: Path) -> bytes:
    """Return the file as 16 kHz mono s16le, resampled once.

    Raises:
        Malformed: not a PCM WAV file, empty or far too long.
    """
    try:
        with wave.open(str(path), "rb") as file:
            rate_hz, width, channels, count = file.getframerate(), file.getsampwidth(), file.getnchannels(), file.getnframes()
            if width not in _WIDTHS or not count or not rate_hz or count > _LONGEST_S * rate_hz:
                raise Malformed(f"{path.name}: {count} samples of {width * 8} bit at {rate_hz} Hz cannot be heard")
            raw = file.readframes(count)
    except (wave.Error, EOFError) as error:
        raise Malformed(f"{path.name}: not a WAV file: {error}") from error
    whole = len(raw) // (width * channels) * width * channels
    samples = np.frombuffer(raw[:whole], dtype=_WIDTHS[width]).reshape(-1, channels).astype(np.float64)
    mono = samples.mean(axis=1) / 2 ** (8 * width - 1) - (1.0 if width == 1 else 0.0)
    if rate_hz != SAMPLE_RATE_HZ:
        import soxr

        mono = soxr.resample(mono, rate_hz, SAMPLE_RATE_HZ)
    return bytes((np.clip(mono, -1.0, 1.0) * 32767).astype("<i2").tobytes())
