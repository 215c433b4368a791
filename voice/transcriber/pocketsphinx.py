"""Pocketsphinx with a JSGF grammar: English, its model is in its wheel.

Three decoders run side by side over the same sound: the commands, the answers (only while a question is open), and free
phonemes. The engine's own probability says nothing about speech outside the grammar (it always finds some sentence), so the
words are measured against the free phonemes: how much worse, in nats a frame, the worst stretch of words fits than whatever
was said. See :mod:`voice.transcriber.margin`.
"""

from __future__ import annotations

import difflib
import math
import re
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from appliance.contracts.errors import ConfigError, Malformed
from appliance.contracts.speech import Grammar
from voice.transcriber import Hypothesis, UnknownWord
from voice.transcriber.margin import Fit, Segment, confidence, free_fit, left_over, worst_stretch

_SUPPLEMENT = Path(__file__).with_name("supplement.dict")
_VARIANT = re.compile(r"\(\d+\)$")  # cmudict marks further pronunciations of a word as word(2)
_SCORE_SCALE = 1024  # both searches keep scores shifted right by SENSCR_SHIFT (10 bits) and tell them so
_QUIETEST = 1e-300  # smallest score that has a logarithm
_ALTERNATIVES = 3
_CEPSTRAL_MEAN = "52.15,-0.08,-4.24,-1.76,-3.22,-2.71,0.46,-4.78,-2.21,4.99,1.56,3.92,-3.60"
"""Mean of the features over speech at -20 dBFS behind Speex. With the engine's own start value (40,3,-1) 83 of 120 commands were
right, with this one 120; speech 12 dB quieter loses 5 of them. Set before every utterance: what was heard before (a hammer, an
hour of nothing) has no say in what is heard now."""
_ANSWER_EXTRA = 1.7  # chatter forced onto yes and no, which are short, reaches -2.0; 48 answers at >= 10 dB stayed above -1.3
_CODE_EXTRA = 0.8  # the same of an answer with a code, which is longer: chatter reaches -2.8; 32 codes at 15 dB stayed above -2.1
_DIGITS = frozenset(("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"))
_CODE_DIGITS = 3  # an answer that ends with so many is one with a code
_LEFT_OVER = -200.0  # nats; 190 commands at 10 dB and better stayed above -132, passed over speech goes to -457
_UNHEARD = "unheard"  # stands in the grammar for words without a pronunciation; sounds like nothing anybody says
_UNHEARD_PHONES = "ZH OY ZH OY ZH OY ZH OY ZH OY ZH OY ZH OY ZH OY"


class PocketsphinxTranscriber:
    """Implements Transcriber. Speex noise suppression before it takes errors at 10-15 dB from 5 % to none (measured)."""

    engine = "pocketsphinx"
    wants_denoised = True

    def __init__(self, grammar: Grammar, *, rejection_margin: float) -> None:
        """Load the model and the grammar: about 0.2 s.

        Raises:
            ConfigError: the grammar is not JSGF.
        """
        import pocketsphinx

        self.language = grammar.language
        self._rejection_margin = rejection_margin
        model = Path(pocketsphinx.get_model_path()) / "en-us"
        words = set(grammar.words)
        known, lines = _pronunciations((_SUPPLEMENT, model / "cmudict-en-us.dict"), words)
        missing = sorted(words - known)
        self.unknown: Sequence[UnknownWord] = [UnknownWord(w, _near(w, known)) for w in missing]
        with tempfile.NamedTemporaryFile("w", suffix=".dict", encoding="utf-8") as dictionary:
            # only the grammar's words: 150 instead of 134,000 make each decoder small and quick to load
            dictionary.writelines([f"{_UNHEARD} {_UNHEARD_PHONES}\n", *lines])
            dictionary.flush()

            def decoder() -> Any:
                # without the second pass over the lattice: it takes 0.2 to 0.8 s after the last word and changed no result
                return pocketsphinx.Decoder(
                    hmm=str(model / "en-us"), dict=dictionary.name, lm=None, bestpath=False, loglevel="FATAL"
                )

            self._commands, self._answers, self._phonemes = decoder(), decoder(), decoder()
        _load_jsgf(self._commands, _without(grammar.jsgf, missing), "jsgf")
        _load_jsgf(self._answers, _without(grammar.confirm_jsgf, missing), "confirm_jsgf")
        self._phonemes.add_allphone_file("phonemes", None)
        self._phonemes.activate_search("phonemes")
        self._running: list[Any] = []

    def begin(self, *, is_confirming: bool) -> None:
        """Start an utterance."""
        self._running = [self._commands, self._phonemes, *([self._answers] if is_confirming else [])]
        for decoder in self._running:
            decoder.set_cmn(_CEPSTRAL_MEAN)
            decoder.start_utt()

    def feed(self, pcm: bytes) -> None:
        """Decode as far as the sound goes."""
        for decoder in self._running:
            decoder.process_raw(pcm)

    def finish(self) -> Hypothesis:
        """Take what fits best, if it fits well enough; an answer to an open question has to fit better than a command."""
        for decoder in self._running:
            decoder.end_utt()
        free = free_fit(_segments(self._phonemes), self._phonemes.n_frames())
        fits = {d: found for d in self._running if d is not self._phonemes and (found := _found(d, free)) is not None}
        answer = fits[self._answers][0] if self._answers in fits else None
        self._running = []
        if not fits:
            return Hypothesis("", None)
        text, best = max(fits.values(), key=lambda found: found[1].margin)
        needed = self._rejection_margin + (_extra(text) if text == answer else 0.0)
        facts = {"margin": round(best.margin, 2), "weakest": best.words}
        if best.margin < needed:
            return Hypothesis("", confidence(best.margin, needed), {**facts, "rejected": text})
        return Hypothesis(text, confidence(best.margin, needed), facts)


def _extra(answer: str) -> float:
    """Return by how much better than a command an answer has to fit."""
    return _CODE_EXTRA if _DIGITS.issuperset(answer.split()[-_CODE_DIGITS:]) else _ANSWER_EXTRA


def _found(decoder: Any, free: Sequence[float]) -> tuple[str, Fit] | None:
    """Return what a decoder heard and how well it fits; None when it heard nothing, or only a part of what was said."""
    segments = _segments(decoder)
    fit = worst_stretch(segments, free)
    text = _text(decoder)
    if fit is None or _UNHEARD in text.split() or left_over(segments, free) < _LEFT_OVER:
        return None
    return text, fit


def _load_jsgf(decoder: Any, jsgf: str, key: str) -> None:
    try:
        decoder.add_jsgf_string("grammar", jsgf)
    except ValueError as error:
        raise ConfigError(
            f"pocketsphinx cannot read it: {error}",
            file="grammar",
            key=key,
            cure="Check the phrases with floorhand config check.",
        ) from error
    decoder.activate_search("grammar")


def _segments(decoder: Any) -> list[Segment]:
    return [
        Segment(s.word, s.start_frame, s.end_frame, math.log(max(s.ascore, _QUIETEST)) * _SCORE_SCALE)
        for s in decoder.seg() or ()
    ]


def _text(decoder: Any) -> str:
    hypothesis = decoder.hyp()
    return str(hypothesis.hypstr) if hypothesis is not None else ""


def _pronunciations(paths: Iterable[Path], wanted: set[str]) -> tuple[set[str], list[str]]:
    """Return every word of the dictionaries, and the lines of the wanted ones; the first file that has a word decides."""
    known: set[str] = set()
    lines: list[str] = []
    for path in paths:
        found: set[str] = set()
        for line in path.read_text(encoding="utf-8").splitlines(keepends=True):
            word = _VARIANT.sub("", line.partition(" ")[0])
            found.add(word)
            if word in wanted and word not in known:
                lines.append(line)
        known |= found
    return known, lines


def _near(word: str, known: set[str]) -> tuple[str, ...]:
    """Return known words that are written alike; those with the same first letter are enough to look at."""
    alike = [w for w in known if w[:1] == word[:1] and abs(len(w) - len(word)) < 4]
    return tuple(difflib.get_close_matches(word, alike, _ALTERNATIVES, 0.6))


def _without(jsgf: str, missing: Iterable[str]) -> str:
    """Put a word nobody says in place of those without a pronunciation: sentences with them are not heard, all others are.

    JSGF has <VOID> for this, but with dead ends in a grammar pocketsphinx gives up sentences that were heard well.
    """
    if not jsgf.startswith("#JSGF"):
        raise Malformed("a grammar must begin with #JSGF")
    for word in missing:
        jsgf = re.sub(rf"(?<![\w<'.-]){re.escape(word)}(?![\w>'.-])", _UNHEARD, jsgf)
    return jsgf
