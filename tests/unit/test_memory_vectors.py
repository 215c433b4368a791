"""Stored vectors and the index of signs, on a real ledger."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from appliance.contracts.memory import Tier
from appliance.memory.vector_index import SignIndex, Where
from appliance.memory.vectors import Floats, cosines, quantise
from appliance.store.database import Database
from appliance.store.memories import StoredMemory, StoredVector, drop_before, save_memory
from tests.support.clock import ManualClock
from tests.support.memory import NOW, SCOPE, open_ledger

DIMENSION = 128


def unit(vectors: npt.NDArray[Any]) -> Floats:
    found: Floats = (vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)).astype(np.float32)
    return found


def clustered(count: int, seed: int = 7) -> Floats:
    """Vectors as texts make them: many around few themes."""
    random = np.random.default_rng(seed)
    themes = random.standard_normal((40, DIMENSION))
    return unit(themes[random.integers(0, 40, count)] + 0.6 * random.standard_normal((count, DIMENSION)))


def memory(
    number: int, scope: str = SCOPE, tier: Tier = Tier.SEMANTIC, asset: str = "motor_3", fault: str = "hot"
) -> StoredMemory:
    key = f"{scope}:{tier}:{number}"
    return StoredMemory(0, key, key, tier, scope, asset, fault, "t", {}, key, "s", 1.0, False, NOW, NOW, 100)


async def store(ledger: Database, memories: list[StoredMemory], vectors: Floats, fingerprint: str = "a/1") -> None:
    def work(tx: object) -> None:
        for m, v in zip(memories, vectors, strict=True):
            q = quantise(v)
            save_memory(tx, m, "t", StoredVector(fingerprint, q.bits, q.int8, q.scale))  # type: ignore[arg-type]

    await ledger.transaction(work)


def test_a_byte_a_dimension_keeps_the_cosine() -> None:
    vectors = clustered(200)
    exact = vectors @ vectors[0]
    close = cosines(vectors[0], [quantise(v).int8 for v in vectors])
    assert np.max(np.abs(exact - close)) < 0.01
    assert len(quantise(vectors[0]).bits) == DIMENSION // 8


def test_no_vectors_no_cosines() -> None:
    assert len(cosines(clustered(1)[0], [])) == 0


async def test_small_collections_are_searched_exactly(tmp_path: Path) -> None:
    vectors = clustered(100)
    async with open_ledger(tmp_path, ManualClock()) as ledger:
        await store(ledger, [memory(n) for n in range(100)], vectors)
        index = SignIndex(ledger, "a/1", DIMENSION)
        near = await index.nearest(vectors[17], Where(SCOPE, Tier.SEMANTIC), 5)
    best = np.argsort(-(vectors @ vectors[17]))[:5]
    assert [n.memory.seq for n in near] == [int(b) + 1 for b in best]
    assert near[0].cosine == pytest.approx(1.0, abs=0.01)


@pytest.mark.req("M3")
async def test_signs_find_nearly_what_exact_search_finds(tmp_path: Path) -> None:
    vectors, asked = clustered(3_000), clustered(40, seed=7)
    async with open_ledger(tmp_path, ManualClock()) as ledger:
        await store(ledger, [memory(n) for n in range(3_000)], vectors)
        index = SignIndex(ledger, "a/1", DIMENSION)
        shares = []
        for question in asked:
            exact = {int(b) + 1 for b in np.argsort(-(vectors @ question))[:10]}
            near = await index.nearest(question, Where(SCOPE, Tier.SEMANTIC), 10)
            shares.append(len(exact & {n.memory.seq for n in near}) / 10)
    assert np.mean(shares) >= 0.9
    assert len(index) == 3_000


@pytest.mark.field("FC-M04")
@pytest.mark.parametrize("scope", ["line_4", "", "line_3 ", "*", "%"])
async def test_another_scope_finds_nothing(tmp_path: Path, scope: str) -> None:
    vectors = clustered(4)
    async with open_ledger(tmp_path, ManualClock()) as ledger:
        await store(ledger, [memory(n) for n in range(4)], vectors)
        index = SignIndex(ledger, "a/1", DIMENSION)
        await index.catch_up()
        assert await index.nearest(vectors[0], Where(scope, Tier.SEMANTIC), 5) == []
        assert await index.nearest(vectors[0], Where(scope, Tier.SEMANTIC), 5, also=[1, 2]) == []
        assert await index.nearest(vectors[0], Where(SCOPE, Tier.EPISODIC), 5) == []


async def test_kind_of_machine_and_fault_narrow(tmp_path: Path) -> None:
    cases = [("motor_1", "hot"), ("motor_2", "loud"), ("pump_1", "hot"), ("pump_2", "loud")]
    async with open_ledger(tmp_path, ManualClock()) as ledger:
        await store(ledger, [memory(n, asset=a, fault=f) for n, (a, f) in enumerate(cases)], clustered(4))
        index = SignIndex(ledger, "a/1", DIMENSION)

        async def found(kind: str, fault: str) -> set[str]:
            near = await index.nearest(clustered(1)[0], Where(SCOPE, Tier.SEMANTIC, kind, fault), 9)
            return {n.memory.asset for n in near}

        assert await found("motor", "") == {"motor_1", "motor_2"}
        assert await found("", "hot") == {"motor_1", "pump_1"}
        assert await found("motor", "hot") == {"motor_1"}
        assert await found("motor", "never heard of") == set()


@pytest.mark.field("FC-M05")
async def test_vectors_of_another_space_are_not_searched(tmp_path: Path) -> None:
    vectors = clustered(6)
    async with open_ledger(tmp_path, ManualClock()) as ledger:
        await store(ledger, [memory(n) for n in range(3)], vectors[:3], "a/1")
        await store(ledger, [memory(n) for n in range(3, 6)], vectors[3:], "b/1")
        index = SignIndex(ledger, "b/1", DIMENSION)
        near = await index.nearest(vectors[0], Where(SCOPE, Tier.SEMANTIC), 9)
    assert {n.memory.seq for n in near} == {4, 5, 6}


async def test_the_index_reads_what_others_stored(tmp_path: Path) -> None:
    vectors = clustered(300)
    async with open_ledger(tmp_path, ManualClock()) as ledger:
        index = SignIndex(ledger, "a/1", DIMENSION)
        for first in (0, 1, 150):
            last = {0: 1, 1: 150, 150: 300}[first]
            await store(ledger, [memory(n) for n in range(first, last)], vectors[first:last])
            near = await index.nearest(vectors[last - 1], Where(SCOPE, Tier.SEMANTIC), 1)
            assert near[0].memory.seq == last
        assert len(index) == 300


async def test_dropped_memories_are_not_found(tmp_path: Path) -> None:
    vectors = clustered(3)
    async with open_ledger(tmp_path, ManualClock()) as ledger:
        await store(ledger, [memory(n, tier=Tier.EPISODIC) for n in range(3)], vectors)
        index = SignIndex(ledger, "a/1", DIMENSION)
        await index.catch_up()
        assert await ledger.transaction(lambda tx: drop_before(tx, NOW + timedelta(days=1), 2)) == 2
        near = await index.nearest(vectors[0], Where(SCOPE, Tier.EPISODIC), 5)
        assert [n.memory.seq for n in near] == [3]
        await index.rebuild()
        assert len(index) == 1
        left = await ledger.fetch("SELECT (SELECT count(*) FROM memory_vector), (SELECT count(*) FROM memory_text)")
        assert tuple(left[0]) == (1, 1)
