"""Vosk (Kaldi) with a list of sentences: any language that has a model folder."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from appliance.contracts.errors import ConfigError
from appliance.contracts.speech import SAMPLE_RATE_HZ, Grammar
from voice.transcriber import Hypothesis, UnknownWord

_UNKNOWN_MARKS = ("[unk]", "<UNK>", "<unk>")  # how models call what is outside their words
_LEAST_WORD_CONFIDENCE = 0.5  # Kaldi's posterior within the grammar; below even odds another sentence fits as well


class VoskTranscriber:
    """Implements Transcriber. Fed the raw stream: Kaldi's models are trained with noise."""

    engine = "vosk"
    wants_denoised = False

    def __init__(self, model_path: Path, grammar: Grammar) -> None:
        """Load the model (seconds) and the grammar.

        Raises:
            ConfigError: the folder is not a Vosk model.
        """
        import vosk

        vosk.SetLogLevel(-1)
        self.language = grammar.language
        if not (model_path / "am" / "final.mdl").exists():
            raise ConfigError(
                f"{model_path} is not a Vosk model folder", file="appliance.yaml", key=f"models.vosk-{grammar.language}",
                cure="Point it at the folder that holds am/final.mdl.",
            )  # fmt: skip
        try:
            self._model: Any = vosk.Model(str(model_path))
        except Exception as error:
            raise ConfigError(
                f"Vosk cannot read {model_path}: {error}", file="appliance.yaml", key=f"models.vosk-{grammar.language}",
                cure="Fetch the model again.",
            ) from error  # fmt: skip
        words = {word for sentence in grammar.sentences for word in sentence.split()} | set(grammar.words)
        missing = {word for word in words if not self._knows(word)}
        self.unknown: Sequence[UnknownWord] = [UnknownWord(word, self._parts(word)) for word in sorted(missing)]
        phrases = [s for s in grammar.sentences if missing.isdisjoint(s.split())]
        mark = [m for m in _UNKNOWN_MARKS if self._knows(m)][:1]
        self._marks = set(mark)
        self._recognizer: Any = vosk.KaldiRecognizer(self._model, SAMPLE_RATE_HZ, json.dumps(phrases + mark, ensure_ascii=False))
        self._recognizer.SetWords(True)
        self._results: list[dict[str, Any]] = []

    def begin(self, *, is_confirming: bool) -> None:
        """Start an utterance. Answers are sentences of the one grammar; Kaldi needs no grammar of their own for them."""
        del is_confirming
        self._recognizer.Reset()
        self._results = []

    def feed(self, pcm: bytes) -> None:
        """Decode as far as the sound goes; what Kaldi's own endpointing cuts off is kept."""
        if self._recognizer.AcceptWaveform(pcm):
            self._results.append(json.loads(self._recognizer.Result()))

    def finish(self) -> Hypothesis:
        """Join what was recognised. A word outside the grammar, or one that is a guess, makes that nothing."""
        self._results.append(json.loads(self._recognizer.FinalResult()))
        words = [word for result in self._results for word in result.get("result", ())]
        text = " ".join(word["word"] for word in words)
        if not words:
            return Hypothesis("", None)
        least = min(words, key=lambda word: float(word["conf"]))
        facts = {"weakest": least["word"]}
        if self._marks & {word["word"] for word in words} or float(least["conf"]) < _LEAST_WORD_CONFIDENCE:
            return Hypothesis("", round(float(least["conf"]), 3), {**facts, "rejected": text})
        return Hypothesis(text.lower(), round(float(least["conf"]), 3), facts)

    def _knows(self, word: str) -> bool:
        return int(self._model.vosk_model_find_word(word)) >= 0

    def _parts(self, word: str) -> tuple[str, ...]:
        """Return two known words the word is made of: the model does not tell its other words."""
        for cut in range(len(word) - 1, 0, -1):
            if self._knows(word[:cut]) and self._knows(word[cut:]):
                return (f"{word[:cut]} {word[cut:]}",)
        return ()
