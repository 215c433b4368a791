"""A write in three phases: prepare a draft, validate it, commit it or drop it.

Prepare lays the draft into the session's working memory. Validate asks whether it may be stored (pure rules), whether it only
hands back what was recalled, and, inside the transaction, whether the same event is stored already. Commit writes row,
full-text entry, vector and operation together. Whatever happens, the draft is gone afterwards.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any, NoReturn

from appliance.contracts.clock import Clock, IdSource
from appliance.contracts.errors import MemoryWriteRejected, StorageFullError
from appliance.contracts.memory import MemoryDraft, Tier
from appliance.contracts.operation import OperationLane
from appliance.contracts.store import Ledger, Transaction
from appliance.memory.lexical import ALONE, LexicalSearch
from appliance.memory.recalled import RecalledTexts
from appliance.memory.semantic import SemanticMemory
from appliance.memory.settings import MemorySettings
from appliance.memory.validate import event_of, is_recalled_text, objection, says_the_same, with_earned_verdict
from appliance.memory.vectors import Floats, cosines
from appliance.memory.words import full_text, searchable, words_digest
from appliance.memory.working import DRAFT_KIND, Note, WorkingMemory
from appliance.store import operations
from appliance.store.columns import utc_text
from appliance.store.memories import (
    StoredMemory,
    StoredVector,
    drop_oldest_episodic,
    find_by_key,
    find_same_words,
    load_by_key,
    same_case,
    save_memory,
    save_rejection,
    volume,
)

log = logging.getLogger(__name__)

_ROW_BYTES = 1_400  # measured over 10,000 memories: row, indexes and operation beyond three times the text, which is kept in
_VECTOR_BYTES = 620  # the row, the full-text entry and the operation
_COMPARED = 20  # stored reports of one case a draft is compared with
_NEIGHBOURS = 8  # nearest permanent memories looked at for quotes
_ROOM_SLICE = 200  # oldest episodes dropped at a time when the bound is reached
_DUPLICATE = "duplicate of "


class ThreePhaseWrite:
    """Implements :class:`appliance.contracts.ports.MemoryWriter`."""

    def __init__(
        self,
        ledger: Ledger,
        clock: Clock,
        ids: IdSource,
        settings: MemorySettings,
        working: WorkingMemory,
        semantic: SemanticMemory,
        lexical: LexicalSearch,
        recalled: RecalledTexts,
    ) -> None:
        self._ledger = ledger
        self._clock = clock
        self._ids = ids
        self._settings = settings
        self._working = working
        self._semantic = semantic
        self._lexical = lexical
        self._recalled = recalled

    async def remember(self, draft: MemoryDraft, *, key: str) -> Mapping[str, Any]:
        """Prepare, validate, commit. ``key`` makes a repeat the same memory, whatever died in between.

        Returns ``{id, tier, verified, duplicate_of}``; ``id`` is the stored memory, which is the older one when the draft
        says what is known already.

        Raises:
            MemoryWriteRejected: validation said no; the reason is the message and is recorded.
            StorageFullError: no room; no draft is left behind.
        """
        draft = with_earned_verdict(draft)
        known = await load_by_key(self._ledger, key)
        if known is not None:
            return _answer(known, None)
        why = objection(draft, now=self._clock.utc(), is_clock_synced=self._clock.is_synced, settings=self._settings)
        if why:
            await self._reject(draft, key, why)
        if draft.tier is Tier.WORKING:
            note = self._prepare(draft, key, str(draft.facts.get("kind", "note")))
            return {"id": note.id, "tier": Tier.WORKING, "verified": draft.verified, "duplicate_of": None}
        prepared = self._prepare(draft, key, DRAFT_KIND)
        try:
            return await self._validate_and_commit(draft, key)
        finally:
            self._working.drop(prepared)

    def _prepare(self, draft: MemoryDraft, key: str, kind: str) -> Note:
        return self._working.note(
            draft.source_session,
            draft.scope,
            draft.text,
            kind=kind,
            asset=draft.asset,
            fault=draft.fault,
            key=key,
            confidence=draft.confidence,
        )

    async def _validate_and_commit(self, draft: MemoryDraft, key: str) -> Mapping[str, Any]:
        told = searchable(draft.text, draft.facts)
        vector = (await self._semantic.embed([told]))[0] if self._semantic.is_ready else None
        if quoted := await self._quoted(draft, vector):
            await self._reject(draft, key, f"recalled text is never stored again: it is {quoted}")
        memory = self._to_store(draft, key, has_vector=vector is not None)
        body = full_text(told, draft.asset, draft.fault)
        stored = None if vector is None else self._semantic.to_store(vector)
        # The work may be run twice by the ledger: it decides from the transaction alone.
        kept, duplicate_of = await self._ledger.transaction(partial(self._commit, memory, body, vector, stored))
        log.info("memory.stored" if duplicate_of is None else "memory.duplicate", extra={"memory": kept.id, "tier": kept.tier})
        return _answer(kept, duplicate_of)

    def _commit(
        self, memory: StoredMemory, body: str, vector: Floats | None, stored: StoredVector | None, tx: Transaction
    ) -> tuple[StoredMemory, str | None]:
        known = find_by_key(tx, memory.key)
        if known is not None:
            return known, None
        same = self._same_event(tx, memory, vector)
        if same is not None:
            save_rejection(tx, memory, _DUPLICATE + same.id, self._clock.utc())
            return same, same.id
        self._make_room(tx, memory.size_bytes)
        seq = save_memory(tx, memory, body, stored)
        operations.append(tx, self._clock, OperationLane.P2, "memory.stored", memory.id, _payload(memory))
        return replace(memory, seq=seq), None

    def _same_event(self, tx: Transaction, memory: StoredMemory, vector: Floats | None) -> StoredMemory | None:
        if memory.tier is Tier.SEMANTIC and (same := find_same_words(tx, memory)) is not None:
            return same
        window = timedelta(seconds=self._settings.duplicate_window_s)
        since, until = memory.occurred_utc - window, memory.occurred_utc + window
        for other, int8 in same_case(tx, memory, since, until, self._semantic.fingerprint, _COMPARED):
            if event_of(memory.facts) and event_of(other.facts) and event_of(memory.facts) != event_of(other.facts):
                continue  # the sources themselves say that these are two
            cosine = None if vector is None or int8 is None else float(cosines(vector, [int8])[0])
            if says_the_same(memory.text, other.text, cosine, self._semantic.duplicate_cosine):
                return other
        return None

    def _make_room(self, tx: Transaction, wanted_bytes: int) -> None:
        bound = self._settings.storage_bytes
        while sum(v.bytes for v in volume(tx).values()) + wanted_bytes > bound:
            if drop_oldest_episodic(tx, _ROOM_SLICE) == 0:
                raise StorageFullError(
                    f"permanent memories fill the {bound} bytes they may take; raise memory.storage_bytes or forget some",
                    retry_after_s=3600.0,
                )

    async def _quoted(self, draft: MemoryDraft, vector: Floats | None) -> str:
        """Return the id of the memory a draft hands back, or an empty string."""
        for memory in self._recalled.within(draft.scope):
            if is_recalled_text(draft, memory.asset, memory.fault, memory.text, lately=True):
                return memory.id
        if vector is not None:
            near = [n.memory for n in await self._semantic.neighbours(vector, draft.scope, Tier.SEMANTIC, _NEIGHBOURS)]
        else:
            hits = await self._lexical.search(draft.text, scope=draft.scope, tier=Tier.SEMANTIC, limit=_NEIGHBOURS, gate=ALONE)
            near = [h.memory for h in hits]
        for memory in near:
            if is_recalled_text(draft, memory.asset, memory.fault, memory.text, lately=False):
                return memory.id
        return ""

    async def _reject(self, draft: MemoryDraft, key: str, why: str) -> NoReturn:
        memory, now = self._to_store(draft, key, has_vector=False), self._clock.utc()
        await self._ledger.transaction(partial(save_rejection, memory=memory, reason=why, at=now))
        log.info("memory.rejected", extra={"key": key, "why": why, "tier": draft.tier})
        raise MemoryWriteRejected(why, key=key, tier=str(draft.tier), scope=draft.scope).worded("not_remembered", why=why)

    def _to_store(self, draft: MemoryDraft, key: str, *, has_vector: bool) -> StoredMemory:
        text_bytes = len(draft.text.encode("utf-8", "replace")) + len(str(draft.facts).encode("utf-8", "replace"))
        return StoredMemory(
            seq=0,
            id=self._ids.mint("mem"),
            key=key,
            tier=draft.tier,
            scope=draft.scope,
            asset=draft.asset,
            fault=draft.fault,
            text=draft.text,
            facts=draft.facts,
            digest=words_digest(draft.text),
            source_session=draft.source_session,
            confidence=draft.confidence,
            verified=draft.verified,
            occurred_utc=draft.occurred_utc,
            stored_utc=self._clock.utc(),
            size_bytes=_ROW_BYTES + 3 * text_bytes + (_VECTOR_BYTES if has_vector else 0),
        )


def _answer(memory: StoredMemory, duplicate_of: str | None) -> Mapping[str, Any]:
    return {"id": memory.id, "tier": memory.tier, "verified": memory.verified, "duplicate_of": duplicate_of}


def _payload(memory: StoredMemory) -> dict[str, Any]:
    return {
        "id": memory.id,
        "tier": memory.tier,
        "scope": memory.scope,
        "asset": memory.asset,
        "fault": memory.fault,
        "text": memory.text,
        "facts": dict(memory.facts),
        "source_session": memory.source_session,
        "confidence": memory.confidence,
        "verified": memory.verified,
        "occurred_utc": utc_text(memory.occurred_utc),
    }
