"""Finding memories by their words.

Words alone find poor paraphrases and good codes, so a hit only counts when it holds a fault code of the question, or at
least a quarter of what the question's words are worth (inverse document frequency). Measured without that gate: mixing
words in made paraphrases worse (recall@1 .62 -> .50-.60), with it better (.75).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from appliance.contracts.memory import Tier
from appliance.contracts.store import Ledger
from appliance.memory.words import STOP_WORDS, codes, words
from appliance.store.memories import Stemmer, StoredMemory, load_document_counts, load_volume, search_text

_MOST_PHRASES = 8  # the rarest words of a question; measured: uncapped OR queries take 43-70 ms at 100,000 memories
_COMMON_SHARE = 0.2  # a word that every fifth memory holds tells none of them from the others
_SMALL_CORPUS = 50

BESIDE_LIKENESS, ALONE = 0.25, 0.1
"""Gates: share of the question's worth a hit must cover where likeness decides, and where words are all there is."""


@dataclass(frozen=True, slots=True)
class WordHit:
    """One memory and how much of the question's worth its words cover: 0..1. A code in common covers all."""

    memory: StoredMemory
    coverage: float
    has_code: bool


class LexicalSearch:
    """Full-text search over stored memories. Use it from one thread."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._stemmer = Stemmer()

    async def search(self, question: str, *, scope: str, tier: Tier, limit: int, gate: float) -> list[WordHit]:
        """Return memories that hold a code of the question or cover at least ``gate`` of its worth, best first."""
        asked = list(dict.fromkeys(w for w in words(question) if w not in STOP_WORDS)) or list(dict.fromkeys(words(question)))
        if not asked:
            return []
        stem_of = {word: stems[0] for word, stems in zip(asked, self._stemmer.stems(asked), strict=True) if stems}
        counts = await load_document_counts(self._ledger, list(stem_of.values()))
        held = sum(v.memories for v in (await load_volume(self._ledger)).values())
        worth = {stem: math.log(1 + held / (counts.get(stem, 0) or 0.5)) for stem in stem_of.values()}
        asked_codes = codes(question)
        rare = sorted((w for w in stem_of if _tells(counts.get(stem_of[w], 0), held)), key=lambda w: counts[stem_of[w]])
        phrases = [*sorted(asked_codes), *(_spelt(code) for code in sorted(asked_codes)), *rare[:_MOST_PHRASES]]
        if not phrases:
            return []
        found = await search_text(self._ledger, scope, tier, phrases, 2 * limit)
        total = sum(worth.values())
        hits = []
        for (memory, _), stems in zip(found, self._stemmer.stems([body for _, body in found]), strict=True):
            covered = sum(worth[s] for s in worth.keys() & set(stems)) / total
            has_code = bool(asked_codes & codes(memory.text))
            if has_code or covered >= gate:
                hits.append(WordHit(memory, 1.0 if has_code else covered, has_code))
        hits.sort(key=lambda h: (not h.has_code, -h.coverage))
        return hits[:limit]

    def close(self) -> None:
        """Free the tokenizer."""
        self._stemmer.close()


def _tells(count: int, held: int) -> bool:
    return count > 0 and (held <= _SMALL_CORPUS or count <= held * _COMMON_SHARE)


def _spelt(code: str) -> str:
    letters = code.rstrip("0123456789")
    return f"{letters} {code[len(letters) :]}"
