"""Makes a conversation fit: the oldest is shortened first, then left out. Pure, and one pass over it, so that it always ends.

A block is one turn with its calls and their results, so no call is shown without its result. Its short form keeps what marks
a fact as unverified. Nothing is lost by leaving out: the ledger holds all of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

Count = Callable[[str], int]


@dataclass(frozen=True, slots=True)
class Block:
    """What stays together, in full and shortened."""

    full: str
    short: str


@dataclass(frozen=True, slots=True)
class Fitted:
    """Texts that fit, oldest first, with what they take. ``shortened`` and ``left_out`` count blocks."""

    texts: tuple[str, ...]
    tokens: int
    shortened: int
    left_out: int


def fit(blocks: Sequence[Block], budget: int, count: Count) -> Fitted:
    """Return the blocks, oldest first, within ``budget`` tokens: the newest in full as far as they go, then short ones."""
    full = [count(block.full) for block in blocks]
    short = [min(count(block.short), tokens) for block, tokens in zip(blocks, full, strict=True)]
    spent, first = 0, len(blocks)
    while first > 0 and spent + short[first - 1] <= budget:  # as many as fit at all, from the newest back
        first -= 1
        spent += short[first]
    whole = len(blocks)
    while whole > first and spent + full[whole - 1] - short[whole - 1] <= budget:  # of those, as many in full
        whole -= 1
        spent += full[whole] - short[whole]
    texts = tuple(block.short if n < whole else block.full for n, block in enumerate(blocks) if n >= first)
    return Fitted(texts, spent, whole - first, first)
