"""Stored memories: rows, their full-text entries and their vectors (tables ``memory*``).

Functions that take ``tx`` are parts of the caller's transaction; the others read what is committed. Every reading function
has the scope inside its statement: there is no way to ask without one.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from appliance.contracts.memory import Tier
from appliance.contracts.store import Ledger, Transaction
from appliance.store.columns import json_text, to_json, to_utc, utc_text


@dataclass(frozen=True, slots=True)
class StoredMemory:
    """One memory as stored. ``seq`` is 0 until it is."""

    seq: int
    id: str
    key: str
    tier: Tier
    scope: str
    asset: str
    fault: str
    text: str
    facts: Mapping[str, Any]
    digest: str
    source_session: str
    confidence: float
    verified: bool
    occurred_utc: datetime
    stored_utc: datetime
    size_bytes: int


@dataclass(frozen=True, slots=True)
class StoredVector:
    """One vector as stored: signs, signed bytes, and what a byte is worth."""

    fingerprint: str
    bits: bytes
    int8: bytes
    scale: float


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """What the in-memory index holds of a memory."""

    seq: int
    scope: str
    tier: str
    asset: str
    fault: str
    bits: bytes


@dataclass(frozen=True, slots=True)
class Volume:
    """How much is held in one tier."""

    memories: int
    bytes: int


_COLUMNS = (
    "m.seq, m.id, m.key, m.tier, m.scope, m.asset, m.fault, m.text, m.facts, m.digest, m.source_session, m.confidence, "
    "m.verified, m.occurred_utc, m.stored_utc, m.size_bytes"
)


def save_memory(tx: Transaction, memory: StoredMemory, body: str, vector: StoredVector | None) -> int:
    """Write row, full-text entry and, when there is one, vector. Returns the row's sequence."""
    seq = tx.execute(
        "INSERT INTO memory (id, key, tier, scope, asset, fault, text, facts, digest, source_session, confidence, verified,"
        " occurred_utc, stored_utc, size_bytes) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            memory.id, memory.key, memory.tier, memory.scope, memory.asset, memory.fault, memory.text, json_text(memory.facts),
            memory.digest, memory.source_session, memory.confidence, int(memory.verified), utc_text(memory.occurred_utc),
            utc_text(memory.stored_utc), memory.size_bytes,
        ),
    ).lastrowid  # fmt: skip
    assert seq is not None  # an INSERT that did not raise has a row
    tx.execute("INSERT INTO memory_text (rowid, body) VALUES (?, ?)", (seq, body))
    if vector is not None:
        _put_vector(tx, seq, vector)
    return seq


def find_by_key(tx: Transaction, key: str) -> StoredMemory | None:
    """Return the memory an earlier write with this key made."""
    row = tx.execute(f"SELECT {_COLUMNS} FROM memory m WHERE m.key = ?", (key,)).fetchone()
    return None if row is None else _memory(row)


async def load_by_key(ledger: Ledger, key: str) -> StoredMemory | None:
    """Return the memory an earlier write with this key made."""
    rows = await ledger.fetch(f"SELECT {_COLUMNS} FROM memory m WHERE m.key = ?", (key,))
    return _memory(rows[0]) if rows else None


def find_same_words(tx: Transaction, memory: StoredMemory) -> StoredMemory | None:
    """Return a memory of the same scope, tier, asset and fault that says the same words, whenever it happened."""
    row = tx.execute(
        f"SELECT {_COLUMNS} FROM memory m WHERE m.scope = ? AND m.tier = ? AND m.digest = ? AND m.asset = ? AND m.fault = ?"
        " ORDER BY m.seq LIMIT 1",
        (memory.scope, memory.tier, memory.digest, memory.asset, memory.fault),
    ).fetchone()
    return None if row is None else _memory(row)


def same_case(
    tx: Transaction, memory: StoredMemory, since: datetime, until: datetime, fingerprint: str, limit: int
) -> list[tuple[StoredMemory, bytes | None]]:
    """Return memories of the same scope, tier, asset and fault in a time window, newest first, with their int8 vectors
    where they have one of this fingerprint."""
    rows = tx.execute(
        f"SELECT {_COLUMNS}, v.int8 FROM memory m LEFT JOIN memory_vector v ON v.memory_seq = m.seq AND v.fingerprint = ?"
        " WHERE m.scope = ? AND m.tier = ? AND m.asset = ? AND m.fault = ? AND m.occurred_utc BETWEEN ? AND ?"
        " ORDER BY m.occurred_utc DESC, m.seq DESC LIMIT ?",
        (fingerprint, memory.scope, memory.tier, memory.asset, memory.fault, utc_text(since), utc_text(until), limit),
    ).fetchall()
    return [(_memory(r), r["int8"]) for r in rows]


def save_rejection(tx: Transaction, memory: StoredMemory, reason: str, at: datetime) -> None:
    """Record that a draft was dropped; the text is not kept, its digest is. Once per key and content."""
    tx.execute(
        "INSERT OR IGNORE INTO memory_rejected (at_utc, key, reason, tier, scope, source_session, digest)"
        " VALUES (?, ?, ?, ?, ?, ?, ?)",
        (utc_text(at), memory.key, reason, memory.tier, memory.scope, memory.source_session, memory.digest),
    )


def volume(tx: Transaction) -> dict[Tier, Volume]:
    """Return what each stored tier holds, inside a transaction."""
    return _volume(tx.execute("SELECT tier, memories, bytes FROM memory_volume").fetchall())


async def load_volume(ledger: Ledger) -> dict[Tier, Volume]:
    """Return what each stored tier holds."""
    return _volume(await ledger.fetch("SELECT tier, memories, bytes FROM memory_volume"))


def drop_oldest_episodic(tx: Transaction, count: int) -> int:
    """Drop the ``count`` oldest episodic memories with all that belongs to them; return how many there were."""
    return tx.execute(
        "DELETE FROM memory WHERE seq IN (SELECT seq FROM memory WHERE tier = 'episodic' ORDER BY occurred_utc, seq LIMIT ?)",
        (count,),
    ).rowcount


def drop_before(tx: Transaction, before: datetime, limit: int) -> int:
    """Drop up to ``limit`` episodic memories older than ``before``, and rejections as old; return how many memories."""
    tx.execute("DELETE FROM memory_rejected WHERE at_utc < ?", (utc_text(before),))
    return tx.execute(
        "DELETE FROM memory WHERE seq IN"
        " (SELECT seq FROM memory WHERE tier = 'episodic' AND occurred_utc < ? ORDER BY occurred_utc LIMIT ?)",
        (utc_text(before), limit),
    ).rowcount


def replace_vectors(tx: Transaction, vectors: Sequence[tuple[int, StoredVector]]) -> None:
    """Give memories that still exist a new vector in place of the old one."""
    for seq, vector in vectors:
        if tx.execute("SELECT 1 FROM memory WHERE seq = ?", (seq,)).fetchone() is not None:
            _put_vector(tx, seq, vector)


async def load_without_vector(ledger: Ledger, fingerprint: str, after_seq: int, limit: int) -> list[StoredMemory]:
    """Return memories with no vector of this fingerprint, in order of sequence."""
    rows = await ledger.fetch(
        f"SELECT {_COLUMNS} FROM memory m LEFT JOIN memory_vector v ON v.memory_seq = m.seq"
        " WHERE m.seq > ? AND v.fingerprint IS NOT ? ORDER BY m.seq LIMIT ?",
        (after_seq, fingerprint, limit),
    )
    return [_memory(r) for r in rows]


async def count_without_vector(ledger: Ledger, fingerprint: str) -> int:
    """Return how many memories have no vector of this fingerprint."""
    rows = await ledger.fetch(
        "SELECT count(*) AS n FROM memory m LEFT JOIN memory_vector v ON v.memory_seq = m.seq WHERE v.fingerprint IS NOT ?",
        (fingerprint,),
    )
    return int(rows[0]["n"])


async def load_index(ledger: Ledger, fingerprint: str, after_seq: int, limit: int) -> list[IndexEntry]:
    """Return what the index holds of memories stored after ``after_seq``, only those with a vector of this fingerprint."""
    rows = await ledger.fetch(
        "SELECT m.seq, m.scope, m.tier, m.asset, m.fault, v.bits FROM memory m JOIN memory_vector v ON v.memory_seq = m.seq"
        " WHERE m.seq > ? AND v.fingerprint = ? ORDER BY m.seq LIMIT ?",
        (after_seq, fingerprint, limit),
    )
    return [IndexEntry(r["seq"], r["scope"], r["tier"], r["asset"], r["fault"], r["bits"]) for r in rows]


async def load_vectors(ledger: Ledger, scope: str, tier: Tier, fingerprint: str, seqs: Sequence[int]) -> list[tuple[int, bytes]]:
    """Return sequence and int8 vector of these memories, if they are of this scope, tier and fingerprint."""
    rows = await ledger.fetch(
        "SELECT m.seq, v.int8 FROM memory m JOIN memory_vector v ON v.memory_seq = m.seq"
        f" WHERE m.seq IN ({', '.join('?' * len(seqs))}) AND m.scope = ? AND m.tier = ? AND v.fingerprint = ?",
        (*seqs, scope, tier, fingerprint),
    )
    return [(r["seq"], r["int8"]) for r in rows]


async def load_memories(ledger: Ledger, scope: str, tier: Tier, seqs: Sequence[int]) -> dict[int, StoredMemory]:
    """Return these memories by sequence, if they are of this scope and tier."""
    rows = await ledger.fetch(
        f"SELECT {_COLUMNS} FROM memory m WHERE m.seq IN ({', '.join('?' * len(seqs))}) AND m.scope = ? AND m.tier = ?",
        (*seqs, scope, tier),
    )
    return {r["seq"]: _memory(r) for r in rows}


async def load_between(
    ledger: Ledger, scope: str, since: datetime, until: datetime, asset: str, fault: str, limit: int
) -> list[StoredMemory]:
    """Return episodic memories of [since, until), newest first; an empty asset or fault matches all."""
    rows = await ledger.fetch(
        f"SELECT {_COLUMNS} FROM memory m WHERE m.scope = ? AND m.tier = 'episodic' AND m.occurred_utc >= ?"
        " AND m.occurred_utc < ? AND ? IN ('', m.asset) AND ? IN ('', m.fault) ORDER BY m.occurred_utc DESC, m.seq DESC LIMIT ?",
        (scope, utc_text(since), utc_text(until), asset, fault, limit),
    )
    return [_memory(r) for r in rows]


async def load_cases(ledger: Ledger, scope: str, tier: Tier, fault: str, limit: int) -> list[StoredMemory]:
    """Return memories of one fault, newest first."""
    rows = await ledger.fetch(
        f"SELECT {_COLUMNS} FROM memory m WHERE m.scope = ? AND m.tier = ? AND m.fault = ?"
        " ORDER BY m.occurred_utc DESC, m.seq DESC LIMIT ?",
        (scope, tier, fault, limit),
    )
    return [_memory(r) for r in rows]


async def search_text(
    ledger: Ledger, scope: str, tier: Tier, phrases: Sequence[str], limit: int
) -> list[tuple[StoredMemory, str]]:
    """Return memories that hold any of the phrases, best first (bm25), with the indexed text."""
    match = " OR ".join('"' + p.replace('"', '""') + '"' for p in phrases)
    rows = await ledger.fetch(
        f"SELECT {_COLUMNS}, t.body FROM memory_text t JOIN memory m ON m.seq = t.rowid"
        " WHERE memory_text MATCH ? AND m.scope = ? AND m.tier = ? ORDER BY bm25(memory_text) LIMIT ?",
        (match, scope, tier, limit),
    )
    return [(_memory(r), r["body"]) for r in rows]


async def load_document_counts(ledger: Ledger, stems: Sequence[str]) -> dict[str, int]:
    """Return in how many memories each stem occurs; stems that occur in none are missing."""
    rows = await ledger.fetch(f"SELECT term, doc FROM memory_term WHERE term IN ({', '.join('?' * len(stems))})", tuple(stems))
    return {r["term"]: r["doc"] for r in rows}


class Stemmer:
    """Splits text into the stems the full-text index holds, by asking the same tokenizer. Use it from one thread."""

    def __init__(self) -> None:
        self._probe = sqlite3.connect(":memory:", isolation_level=None)
        self._probe.executescript(
            "CREATE VIRTUAL TABLE probe USING fts5 (body, tokenize = 'porter unicode61');"
            "CREATE VIRTUAL TABLE stem USING fts5vocab (probe, 'instance');"
        )

    def stems(self, texts: Sequence[str]) -> list[list[str]]:
        """Return the stems of each text, in order."""
        found: list[list[str]] = [[] for _ in texts]
        self._probe.execute("BEGIN")
        try:
            self._probe.executemany("INSERT INTO probe (rowid, body) VALUES (?, ?)", list(enumerate(texts)))
            for term, doc in self._probe.execute("SELECT term, doc FROM stem ORDER BY doc, offset"):
                found[doc].append(term)
        finally:
            self._probe.execute("ROLLBACK")
        return found

    def close(self) -> None:
        """Free the probe."""
        self._probe.close()


def _put_vector(tx: Transaction, seq: int, vector: StoredVector) -> None:
    tx.execute(
        "INSERT OR REPLACE INTO memory_vector (memory_seq, fingerprint, bits, int8, scale) VALUES (?, ?, ?, ?, ?)",
        (seq, vector.fingerprint, vector.bits, vector.int8, vector.scale),
    )


def _volume(rows: Sequence[sqlite3.Row]) -> dict[Tier, Volume]:
    return {Tier(r["tier"]): Volume(r["memories"], r["bytes"]) for r in rows}


def _memory(row: sqlite3.Row) -> StoredMemory:
    return StoredMemory(
        seq=row["seq"], id=row["id"], key=row["key"], tier=Tier(row["tier"]), scope=row["scope"], asset=row["asset"],
        fault=row["fault"], text=row["text"], facts=to_json(row["facts"]), digest=row["digest"],
        source_session=row["source_session"], confidence=row["confidence"], verified=bool(row["verified"]),
        occurred_utc=to_utc(row["occurred_utc"]), stored_utc=to_utc(row["stored_utc"]), size_bytes=row["size_bytes"],
    )  # fmt: skip
