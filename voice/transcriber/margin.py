"""How well words fit what was said, measured against free phonemes over the same frames.

Whatever is said, free phonemes follow it about as well as the acoustic model can. Words that were really said follow it nearly
as well; words a grammar forced onto other speech do not, in at least one place. So the worst stretch decides, not the mean.
Short words (a, the, is) scatter widely by themselves: a stretch is at least ``STRETCH_FRAMES`` long.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

STRETCH_FRAMES = 40  # 0.4 s, two or three syllables


@dataclass(frozen=True, slots=True)
class Segment:
    """A word or phoneme over frames ``first..last`` (10 ms each); ``score`` is its log likelihood in nats."""

    word: str
    first: int
    last: int
    score: float

    @property
    def is_filler(self) -> bool:
        """Silence, noise, and the marks of beginning and end."""
        return self.word[:1] in "<[("


@dataclass(frozen=True, slots=True)
class Fit:
    """``margin`` in nats a frame, 0 is as good as free phonemes; ``words`` is the stretch it was found in."""

    margin: float
    words: str


def free_fit(phonemes: Sequence[Segment], frames: int) -> list[float]:
    """Return for each frame the sum of log likelihoods of all frames before it, as free phonemes have it."""
    each = [0.0] * (frames + 2)
    for segment in phonemes:
        share = segment.score / (segment.last - segment.first + 1)
        for frame in range(segment.first, min(segment.last + 1, len(each))):
            each[frame] = share
    sums = [0.0]
    for score in each:
        sums.append(sums[-1] + score)
    return sums


def worst_stretch(segments: Sequence[Segment], free: Sequence[float]) -> Fit | None:
    """Return the fit of the worst stretch of consecutive words, or None when there are no words."""
    words = [s for s in segments if not s.is_filler and s.last + 1 < len(free)]
    lacks = [s.score - (free[s.last + 1] - free[s.first]) for s in words]
    spans = [s.last - s.first + 1 for s in words]
    worst: Fit | None = None
    for first in range(len(words)):
        for last in range(first, len(words)):
            span = sum(spans[first : last + 1])
            if span < STRETCH_FRAMES and (first, last) != (0, len(words) - 1):
                continue
            margin = sum(lacks[first : last + 1]) / span
            if worst is None or margin < worst.margin:
                worst = Fit(margin, " ".join(s.word.partition("(")[0] for s in words[first : last + 1]))
            break  # longer stretches from here only dilute
    return worst


def left_over(segments: Sequence[Segment], free: Sequence[float]) -> float:
    """Return how much sound the words leave unexplained: nats by which the worst filler between or beside them fits worse than
    free phonemes. Silence and noise are fillers that fit; speech that was passed over as noise is one that does not."""
    fillers = [s for s in segments if s.is_filler and s.last + 1 < len(free) and s.last > s.first]
    return min((s.score - (free[s.last + 1] - free[s.first]) for s in fillers), default=0.0)


def confidence(margin: float, threshold: float) -> float:
    """Map a margin to 0..1 with 0.5 at the threshold; one nat a frame is one unit of the logistic curve."""
    return round(1 / (1 + math.exp(max(-50.0, min(50.0, threshold - margin)))), 3)
