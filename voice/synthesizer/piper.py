"""Piper: neural voices as ONNX files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from appliance.contracts.errors import ConfigError, Malformed
from voice.sound import Sound


class PiperSynthesizer:
    """Implements Synthesizer. About 0.05 s of time a second of speech on a PC, 0.4 on a Pi 4."""

    engine = "piper"

    def __init__(self, model: Path, language: str, *, rate: float) -> None:
        """Load the voice: about half a second.

        Raises:
            ConfigError: there is no such file, or not with its ``.json`` beside it.
        """
        if not model.is_file() or not Path(f"{model}.json").is_file():
            raise ConfigError(
                f"{model} with its .json is not there", file="appliance.yaml", key=f"models.piper-{language}",
                cure="Point it at a Piper voice: NAME.onnx with NAME.onnx.json beside it.",
            )  # fmt: skip
        from piper import PiperVoice
        from piper.config import SynthesisConfig

        self.language = language
        self._voice: Any = PiperVoice.load(model)
        self._how: Any = SynthesisConfig(length_scale=float(self._voice.config.length_scale) / rate)

    def render(self, sentence: str) -> Sound:
        """See Synthesizer."""
        pcm = b"".join(chunk.audio_int16_bytes for chunk in self._voice.synthesize(sentence, self._how))
        if not pcm:
            raise Malformed("the voice makes no sound of it")
        return Sound(pcm, int(self._voice.config.sample_rate))
