"""The memory room: what its tiers share, when it starts, what it does on its own."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from appliance.contracts.clock import Clock, IdSource
from appliance.contracts.embedding import Embedder
from appliance.contracts.errors import Corrupt, Unavailable
from appliance.contracts.memory import MemoryDraft, Recall, Tier
from appliance.contracts.store import Ledger
from appliance.foundation.supervisor import Degraded
from appliance.memory.commit import ThreePhaseWrite
from appliance.memory.episodic import EpisodicMemory
from appliance.memory.lexical import LexicalSearch
from appliance.memory.procedural import ProcedureRepository
from appliance.memory.recall import BudgetedRecall
from appliance.memory.recalled import RecalledTexts
from appliance.memory.seed import Seeded, load_incidents, seed_incidents
from appliance.memory.semantic import SemanticMemory
from appliance.memory.settings import MemorySettings
from appliance.memory.working import WorkingMemory
from appliance.store.memories import load_volume

log = logging.getLogger(__name__)

_HOUSEKEEPING_S = 3600.0  # what is past its retention is dropped, and vectors still missing are made, once an hour
_BY_WORDS = "memories are found by their words only: "
PART = "memory.encoder"
"""Name under which a missing encoder is shown as degraded."""


class Memory:
    """The four tiers behind one writer and one recaller (``MemoryWriter``, ``Recaller``).

    Owns: the working notes, the index of signs, the encoder's thread, the tokenizer. The ledger and the procedures are the
    caller's to open and close.
    """

    def __init__(
        self,
        ledger: Ledger,
        clock: Clock,
        ids: IdSource,
        settings: MemorySettings,
        embedder: Embedder | None,
        procedures: ProcedureRepository | None,
        degraded: Degraded | None = None,
        missing: str = "",
    ) -> None:
        """``embedder`` None means full text only; ``missing`` is why, as :func:`choose_embedder` says it. ``degraded`` is
        told while an encoder that was asked for is not there."""
        self._ledger = ledger
        self._embedder = embedder
        self._degraded = degraded or Degraded()
        self._missing = missing
        self._wanted = asyncio.Event()
        self.procedures = procedures
        self.working = WorkingMemory(clock, ids, settings)
        recalled = RecalledTexts()
        self._lexical = LexicalSearch(ledger)
        self._semantic = SemanticMemory(ledger, embedder, self._lexical)
        self._episodic = EpisodicMemory(ledger, clock, settings)
        self._writer = ThreePhaseWrite(ledger, clock, ids, settings, self.working, self._semantic, self._lexical, recalled)
        self._recaller = BudgetedRecall(clock, settings, self.working, self._episodic, self._semantic, procedures, recalled)

    @property
    def knows_likeness(self) -> bool:
        """Whether memories are found by what they mean: the encoder is loaded. Without it they are found by their words."""
        return self._semantic.is_ready

    async def start(self) -> None:
        """Read the index. The encoder is loaded by :meth:`run`; until then memories are found by their words."""
        if self._semantic.index is not None:
            await self._semantic.index.catch_up()
        if self._missing:
            self._degraded.mark(PART, _BY_WORDS + self._missing)

    async def run(self) -> None:
        """Load the encoder, give vectors to memories that have none, keep house once an hour. Ends only by cancellation.

        An encoder that cannot be loaded is a named degraded state, tried again every hour.
        """
        while True:
            self._wanted.clear()
            is_loaded = await self.load_encoder()
            if is_loaded:
                await self._semantic.reembed()
            if await self._episodic.purge() and self._semantic.index is not None:
                await self._semantic.index.rebuild()
            if is_loaded:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._wanted.wait(), _HOUSEKEEPING_S)
            else:
                await asyncio.sleep(_HOUSEKEEPING_S)

    async def stop(self) -> None:
        """Give back the encoder's thread and the tokenizer. Working memory ends here."""
        if self._embedder is not None:
            await self._embedder.close()
        self._lexical.close()

    async def load_encoder(self) -> bool:
        """Load the encoder if there is one; return whether likeness can be computed. Why not is shown as degraded."""
        if self._embedder is None:
            return False
        try:
            await self._embedder.load()
        except (Unavailable, Corrupt) as error:
            self._degraded.mark(PART, _BY_WORDS + error.message)
            return False
        self._degraded.clear(PART)
        return True

    async def remember(self, draft: MemoryDraft, *, key: str) -> Mapping[str, Any]:
        """Prepare, validate, commit. ``key`` makes a repeat the same memory. Returns ``{id, tier, verified, duplicate_of}``.

        Raises:
            MemoryWriteRejected: validation said no, with the reason.
            StorageFullError: no room; no draft is left behind.
        """
        was_ready = self._semantic.is_ready
        stored = await self._writer.remember(draft, key=key)
        if not was_ready and self._embedder is not None:
            self._wanted.set()  # stored without a vector: run() gives it one when the encoder is there
        return stored

    async def recall(
        self,
        question: str,
        *,
        scope: str,
        asset: str,
        fault: str,
        now: datetime,
        budget_ms: float = 0.0,
        session: str = "",
        limit: int = 0,
    ) -> Recall:
        """Find memories (see :class:`BudgetedRecall`). A budget or limit of 0 is that of the settings.

        Raises:
            Refused: no scope.
        """
        return await self._recaller.recall(
            question, scope=scope, asset=asset, fault=fault, now=now, budget_ms=budget_ms, session=session, limit=limit
        )

    async def seed(self, path: Path, scope: str) -> Seeded:
        """Load past incidents once; loading them again changes nothing.

        Raises:
            ConfigError: the file cannot be used.
            StorageFullError: no room.
        """
        return await seed_incidents(self, load_incidents(path), scope)

    async def reembed(self) -> int:
        """Give every memory without a vector of the present space one; return how many.

        Raises:
            Unavailable: the encoder is not loaded.
        """
        return await self._semantic.reembed()

    async def status(self) -> Mapping[str, Any]:
        """What is held, whether there is an encoder, what waits for a vector, what routes are expected to cost."""
        held = await load_volume(self._ledger)
        return {
            "memories": {str(tier): held[tier].memories for tier in (Tier.EPISODIC, Tier.SEMANTIC)},
            "bytes": sum(v.bytes for v in held.values()),
            "working_sessions": self.working.sessions,
            "encoder": self._embedder.fingerprint if self._embedder else "",
            "encoder_loaded": self._semantic.is_ready,
            "waiting_for_vector": await self._semantic.waiting(),
            "expected_ms": self._recaller.costs.to_json(),
        }
