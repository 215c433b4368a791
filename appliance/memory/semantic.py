"""L3: what is known for good. Found by likeness.

An alarm names its asset and its fault, and those are better evidence than any likeness of words: cases of the same fault on
the same kind of machine come first, and when there are any, nothing else comes with them. Only then does likeness order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from appliance.contracts.embedding import Embedder
from appliance.contracts.errors import Unavailable
from appliance.contracts.memory import Tier
from appliance.contracts.store import Ledger
from appliance.memory.lexical import ALONE, BESIDE_LIKENESS, LexicalSearch, WordHit
from appliance.memory.vector_index import Near, SignIndex, Where
from appliance.memory.vectors import Floats, quantise
from appliance.memory.words import asset_kind, searchable
from appliance.store.memories import (
    StoredMemory,
    StoredVector,
    count_without_vector,
    load_cases,
    load_without_vector,
    replace_vectors,
)

_WORDS_WEIGHT = 0.15  # of gated coverage against cosine: keywords first 15 of 15 (13 without), paraphrases 20 of 24 (21)
_CODE_WEIGHT = 2.0  # a code in common outweighs any likeness
_SAME_ASSET = 0.05  # between equal cases the one of this very machine is told first
_CASES = 200  # newest cases of a fault looked at when there is no vector
_EMBED_SLICE = 16  # texts a slice of re-embedding: about 30 ms in which a question waits for the encoder


@dataclass(frozen=True, slots=True)
class Found:
    """One memory found by likeness. ``score`` is the cosine, or the coverage when there is no vector; ``match`` says what
    it has in common with the case asked about."""

    memory: StoredMemory
    score: float
    match: str


class SemanticMemory:
    """Cases by likeness, with vectors while there is an encoder, by words always."""

    def __init__(self, ledger: Ledger, embedder: Embedder | None, lexical: LexicalSearch) -> None:
        self._ledger = ledger
        self._embedder = embedder
        self._lexical = lexical
        self._index = SignIndex(ledger, embedder.fingerprint, embedder.dimension) if embedder else None

    @property
    def index(self) -> SignIndex | None:
        """The vectors, if there is an encoder."""
        return self._index

    @property
    def is_ready(self) -> bool:
        """Whether likeness can be computed now."""
        return self._embedder is not None and self._embedder.is_ready

    @property
    def fingerprint(self) -> str:
        """The space vectors are in, empty without an encoder."""
        return self._embedder.fingerprint if self._embedder else ""

    @property
    def duplicate_cosine(self) -> float:
        """Cosine from which two reports of a case are one, as calibrated for the encoder."""
        return self._embedder.duplicate_cosine if self._embedder else 1.0

    async def embed(self, texts: Sequence[str]) -> Floats:
        """Return one unit vector a text.

        Raises:
            Unavailable: there is no encoder, or it is not loaded.
        """
        if self._embedder is None:
            raise Unavailable("there is no sentence encoder")
        return await self._embedder.embed(texts)

    def to_store(self, vector: Floats) -> StoredVector:
        """Return a vector as it is stored, with the fingerprint of its space."""
        assert self._embedder is not None  # a vector came from it
        q = quantise(vector)
        return StoredVector(self._embedder.fingerprint, q.bits, q.int8, q.scale)

    async def neighbours(self, vector: Floats, scope: str, tier: Tier, limit: int) -> list[Near]:
        """Return the nearest memories of one tier, whatever they are about."""
        assert self._index is not None  # a vector came from its encoder
        return await self._index.nearest(vector, Where(scope, tier), limit)

    async def similar(self, question: str, *, scope: str, asset: str, fault: str, limit: int) -> list[Found]:
        """Return cases like the one asked about, best first, by vectors with gated words.

        Raises:
            Unavailable: there is no encoder, or it is not loaded.
        """
        [vector] = await self.embed([question])
        assert self._index is not None and self._embedder is not None
        hits = await self._by_seq(question, scope, 4 * limit, BESIDE_LIKENESS)
        for match, where in _rings(scope, asset, fault):
            inside = {seq for seq, h in hits.items() if _is_within(h.memory, where)}
            near = await self._index.nearest(vector, where, 4 * limit, inside)
            seen = {n.memory.seq for n in near}
            near += [Near(hits[seq].memory, 0.0) for seq in inside - seen]  # still waiting for a vector: the words found it
            if not where.fault:  # nothing but likeness says that it belongs here
                near = [n for n in near if n.cosine >= self._embedder.relevance_cosine or n.memory.seq in inside]
            if near:
                near.sort(key=lambda n: (-_rank(n, hits.get(n.memory.seq), asset), n.memory.seq))
                return [Found(n.memory, n.cosine, match) for n in near[:limit]]
        return []

    async def by_words(self, question: str, *, scope: str, asset: str, fault: str, limit: int) -> list[Found]:
        """Return cases without any vector, narrowed like :meth:`similar`: those of the fault asked about, by common words and
        then newest first; without a fault, those that share words with the question."""
        hits = await self._by_seq(question, scope, 8 * limit, ALONE)
        known = {seq: h.memory for seq, h in hits.items()}
        if fault:
            known |= {m.seq: m for m in await load_cases(self._ledger, scope, Tier.SEMANTIC, fault, _CASES)}
        for match, where in _rings(scope, asset, fault):
            inside = [m for m in known.values() if _is_within(m, where) and (where.fault or m.seq in hits)]
            if inside:
                found = [Found(m, hits[m.seq].coverage if m.seq in hits else 0.0, match) for m in inside]
                found.sort(key=lambda f: (f.score, f.memory.occurred_utc), reverse=True)
                return found[:limit]
        return []

    async def _by_seq(self, question: str, scope: str, limit: int, gate: float) -> dict[int, WordHit]:
        found = await self._lexical.search(question, scope=scope, tier=Tier.SEMANTIC, limit=limit, gate=gate)
        return {h.memory.seq: h for h in found}

    async def waiting(self) -> int:
        """Return how many memories have no vector of this space: written before the encoder was loaded, or by another."""
        return await count_without_vector(self._ledger, self._embedder.fingerprint) if self._embedder else 0

    async def reembed(self) -> int:
        """Give every memory without a vector of this space one, in slices, and return how many there were.

        Raises:
            Unavailable: the encoder is not loaded.
            StorageFullError: no room; what was done stays.
        """
        if self._embedder is None or self._index is None:
            return 0
        done, after_seq = 0, 0
        while True:
            slice_ = await load_without_vector(self._ledger, self._embedder.fingerprint, after_seq, _EMBED_SLICE)
            if not slice_:
                break
            vectors = await self.embed([searchable(m.text, m.facts) for m in slice_])
            pairs = [(m.seq, self.to_store(v)) for m, v in zip(slice_, vectors, strict=True)]
            await self._ledger.transaction(partial(replace_vectors, vectors=pairs))
            done, after_seq = done + len(slice_), slice_[-1].seq
        if done:
            await self._index.rebuild()
        return done


def _rings(scope: str, asset: str, fault: str) -> list[tuple[str, Where]]:
    """From the closest case to the widest, with what a memory found there has in common with the case."""
    kind = asset_kind(asset) if asset else ""
    rings = []
    if kind and fault:
        rings.append(("same fault, same kind of machine", Where(scope, Tier.SEMANTIC, kind, fault)))
    if fault:
        rings.append(("same fault", Where(scope, Tier.SEMANTIC, "", fault)))
    if kind:
        rings.append(("same kind of machine", Where(scope, Tier.SEMANTIC, kind, "")))
    return [*rings, ("", Where(scope, Tier.SEMANTIC))]


def _is_within(memory: StoredMemory, where: Where) -> bool:
    return (
        memory.scope == where.scope
        and memory.tier is where.tier
        and where.kind in ("", asset_kind(memory.asset))
        and where.fault in ("", memory.fault)
    )


def _rank(near: Near, hit: WordHit | None, asset: str) -> float:
    by_words = 0.0 if hit is None else _CODE_WEIGHT if hit.has_code else _WORDS_WEIGHT * hit.coverage
    return near.cosine + by_words + (_SAME_ASSET if asset and near.memory.asset == asset else 0.0)
