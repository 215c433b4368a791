"""Records of the memory tiers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any


class Tier(StrEnum):
    """L1 working, L2 episodic, L3 semantic, L4 procedural."""

    WORKING = "working"
    EPISODIC = "episodic"
    SEMANTIC = "semantic"
    PROCEDURAL = "procedural"


@dataclass(frozen=True, slots=True)
class MemoryDraft:
    """Phase one of a write: nothing is stored yet. ``confidence`` 0..1; ``verified`` only by a person or a read-back."""

    tier: Tier
    scope: str
    asset: str
    fault: str
    text: str
    source_session: str
    confidence: float
    verified: bool
    occurred_utc: datetime
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Recollection:
    """One memory found. ``score`` is cosine for semantic, rank-based 0..1 otherwise; ``cite`` names its row or commit."""

    tier: Tier
    id: str
    text: str
    asset: str
    fault: str
    score: float
    occurred_utc: datetime | None
    verified: bool
    cite: str
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Recall:
    """Answer of a budgeted recall. ``degraded`` says which route was given up and why, empty when none."""

    found: tuple[Recollection, ...]
    route: Tier
    elapsed_ms: float
    budget_ms: float
    degraded: str = ""
