"""Speech to text: one engine a file, all behind :class:`Transcriber`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from appliance.contracts.errors import ConfigError
from appliance.contracts.speech import Grammar
from voice.settings import VoiceSettings


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """What an engine heard: ``text`` is empty when nothing fits. ``confidence`` 0..1, above 0.5 when it fits, or None."""

    text: str
    confidence: float | None
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class UnknownWord:
    """A word of the grammar that the engine has no pronunciation for, and words near it that it has."""

    word: str
    alternatives: tuple[str, ...]


class Transcriber(Protocol):
    """Recognises within one grammar, fed while the words come in. One utterance at a time, one thread.

    ``wants_denoised`` says which of the two streams it is measured best on. ``unknown`` are the grammar's words that cannot
    be heard; sentences with them are left out.
    """

    engine: str
    language: str
    wants_denoised: bool
    unknown: Sequence[UnknownWord]

    def begin(self, *, is_confirming: bool) -> None:
        """Start an utterance. ``is_confirming`` prefers the answers to a yes/no question."""
        ...

    def feed(self, pcm: bytes) -> None:
        """Take 16 kHz mono s16le of any length."""
        ...

    def finish(self) -> Hypothesis:
        """End the utterance."""
        ...


def load_transcriber(settings: VoiceSettings, grammar: Grammar) -> Transcriber:
    """Load the engine the settings choose, with ``grammar``. Takes seconds for a large model.

    Raises:
        ConfigError: no engine for this language, or its model cannot be read; the cure is named.
    """
    vosk_model = settings.models.get(f"vosk-{grammar.language}")
    engine = settings.recogniser
    if engine == "auto":
        engine = "vosk" if vosk_model else "pocketsphinx"
    if engine == "vosk":
        if not vosk_model:
            raise _fault(f"no Vosk model for {grammar.language}", grammar.language)
        from voice.transcriber.vosk import VoskTranscriber

        return VoskTranscriber(Path(vosk_model), grammar)
    if grammar.language != "en":
        raise _fault(f"pocketsphinx hears English only, not {grammar.language}", grammar.language)
    from voice.transcriber.pocketsphinx import PocketsphinxTranscriber

    return PocketsphinxTranscriber(grammar, rejection_margin=settings.rejection_margin)


def _fault(message: str, language: str) -> ConfigError:
    cure = f"Add a Vosk model as vosk-{language} under models (floorhand models fetch), or listen in English."
    return ConfigError(message, file="appliance.yaml", key="voice.recogniser", cure=cure)
