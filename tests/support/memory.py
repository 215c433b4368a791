"""A memory room on a real ledger, and a small encoder that is quick to start."""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from appliance.contracts.clock import Clock, IdSource
from appliance.contracts.embedding import Embedder
from appliance.contracts.memory import MemoryDraft, Tier
from appliance.foundation.id_source import SystemIds
from appliance.foundation.system_clock import SystemClock
from appliance.memory.memory import Memory
from appliance.memory.procedural import ProcedureRepository
from appliance.memory.settings import MemorySettings
from appliance.memory.vectors import Floats
from appliance.memory.words import words
from appliance.store import operations
from appliance.store.database import Database
from tests.support.clock import ManualClock

SCOPE = "line_3"
NOW = datetime(2026, 3, 2, 8, 0, tzinfo=UTC)


class WordEncoder:
    """Embeds a text as the sum of one random direction a word: equal words, equal vectors. Another ``model`` is another space."""

    dimension = 256
    duplicate_cosine = 0.85
    relevance_cosine = 0.2

    def __init__(self, model: str = "words-1") -> None:
        self.fingerprint = f"{model}/{self.dimension}"
        self.is_ready = False
        self.embedded: list[str] = []

    async def load(self) -> None:
        self.is_ready = True

    async def embed(self, texts: Sequence[str]) -> Floats:
        self.embedded.extend(texts)
        return np.stack([self._vector(t) for t in texts])

    async def close(self) -> None:
        self.is_ready = False

    def _vector(self, text: str) -> Floats:
        seeds = [zlib.crc32(f"{self.fingerprint}:{w}".encode()) for w in words(text)]
        total = np.sum([np.random.default_rng(s).standard_normal(self.dimension) for s in seeds], axis=0)
        unit: Floats = (total / np.linalg.norm(total)).astype(np.float32)
        return unit


@asynccontextmanager
async def open_ledger(folder: Path, clock: Clock) -> AsyncIterator[Database]:
    """Open ``folder/ledger.db`` with an origin; entering again is a restart."""
    database = await Database.open(folder / "ledger.db", clock)
    try:
        await database.transaction(lambda tx: operations.set_origin(tx, clock, "line-3"))
        yield database
    finally:
        await database.close()


@asynccontextmanager
async def open_memory(
    folder: Path,
    embedder: Embedder | None,
    *,
    clock: Clock | None = None,
    ids: IdSource | None = None,
    procedures: ProcedureRepository | None = None,
    load: bool = True,
    **settings: Any,
) -> AsyncIterator[tuple[Memory, Database]]:
    """Start a memory room with its encoder loaded; stop it afterwards. A shared encoder is not closed."""
    clock = clock or ManualClock(NOW)
    async with open_ledger(folder, clock) as ledger:
        memory = Memory(ledger, clock, ids or SystemIds(SystemClock()), MemorySettings(**settings), embedder, procedures)
        await memory.start()
        if load and embedder is not None:
            await memory.load_encoder()
        try:
            yield memory, ledger
        finally:
            memory._lexical.close()
            if isinstance(embedder, WordEncoder):
                await embedder.close()


def draft(text: str, **changes: Any) -> MemoryDraft:
    """An episodic draft about an over-temperature of motor 3, unless changed."""
    fields: dict[str, Any] = {
        "tier": Tier.EPISODIC,
        "scope": SCOPE,
        "asset": "motor_3",
        "fault": "over_temperature",
        "text": text,
        "source_session": "ses_1",
        "confidence": 0.9,
        "verified": False,
        "occurred_utc": NOW,
    }
    return MemoryDraft(**(fields | changes))


async def count(ledger: Database, table: str) -> int:
    """Rows of a table."""
    return int((await ledger.fetch(f"SELECT count(*) AS n FROM {table}"))[0]["n"])
