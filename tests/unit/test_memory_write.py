"""The three phases of a write, on a real ledger."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from appliance.contracts.errors import Corrupt, MemoryWriteRejected, StorageFullError
from appliance.contracts.memory import MemoryDraft, Tier
from appliance.contracts.operation import OperationLane
from appliance.memory.settings import MemorySettings
from appliance.memory.validate import objection, says_the_same
from appliance.store import operations
from tests.support.clock import ManualClock
from tests.support.memory import NOW, SCOPE, WordEncoder, count, draft, open_memory

HOT = "Motor three over temperature 94 degC, fan speed low"


@pytest.mark.req("M5")
async def test_a_write_is_row_text_vector_and_operation(tmp_path: Path) -> None:
    async with open_memory(tmp_path, WordEncoder()) as (memory, ledger):
        answer = await memory.remember(draft(HOT, facts={"value": 94}), key="a1")
        assert answer["tier"] == Tier.EPISODIC and answer["duplicate_of"] is None
        row = (await ledger.fetch("SELECT * FROM memory"))[0]
        assert (row["id"], row["text"], row["source_session"], row["confidence"]) == (answer["id"], HOT, "ses_1", 0.9)
        assert (await ledger.fetch("SELECT rowid FROM memory_text WHERE memory_text MATCH 'temperatures'"))[0][0] == row["seq"]
        vector = (await ledger.fetch("SELECT * FROM memory_vector"))[0]
        assert (vector["memory_seq"], vector["fingerprint"]) == (row["seq"], "words-1/256")
        operation = (await ledger.fetch("SELECT * FROM operation"))[0]
        assert (operation["lane"], operation["kind"], operation["entity"]) == ("P2", "memory.stored", answer["id"])
        assert await ledger.transaction(lambda tx: operations.verify_chain(tx, OperationLane.P2)) == 1
        assert memory.working.sessions == 0


@pytest.mark.req("M5")
async def test_the_same_key_is_the_same_memory(tmp_path: Path) -> None:
    async with open_memory(tmp_path, WordEncoder()) as (memory, ledger):
        first = await memory.remember(draft(HOT), key="a1")
        again = await memory.remember(draft("quite another text by now"), key="a1")
        assert again == first
        together = await asyncio.gather(*(memory.remember(draft("The belt slipped off"), key="a2") for _ in range(5)))
        assert len({a["id"] for a in together}) == 1
        assert (await count(ledger, "memory"), await count(ledger, "operation")) == (2, 2)


@pytest.mark.req("M5")
@pytest.mark.parametrize("encoder", [WordEncoder, lambda: None], ids=["vectors", "words"])
async def test_a_repeat_within_the_window_is_a_duplicate(tmp_path: Path, encoder: Any) -> None:
    async with open_memory(tmp_path, encoder()) as (memory, ledger):
        first = await memory.remember(draft(HOT), key="a1")
        again = await memory.remember(draft(HOT.replace("94", "95"), occurred_utc=NOW - timedelta(minutes=5)), key="a2")
        assert again["id"] == again["duplicate_of"] == first["id"]
        assert await count(ledger, "memory") == 1
        rejected = (await ledger.fetch("SELECT * FROM memory_rejected"))[0]
        assert rejected["reason"] == f"duplicate of {first['id']}"
        await memory.remember(draft(HOT.replace("94", "95"), occurred_utc=NOW - timedelta(minutes=5)), key="a2")
        assert await count(ledger, "memory_rejected") == 1


@pytest.mark.req("M5")
@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"asset": "motor_4"}, HOT),
        ({"fault": "vibration"}, HOT),
        ({"scope": "line_4", "source_session": "ses_4"}, HOT),
        ({"occurred_utc": NOW - timedelta(hours=2)}, HOT),
        ({}, HOT.replace("low", "high")),
        ({}, "The fan capacitor was dead"),
    ],
    ids=["asset", "fault", "scope", "time", "polarity", "text"],
)
async def test_different_facts_are_never_merged(tmp_path: Path, changes: dict[str, Any], text: str) -> None:
    async with open_memory(tmp_path, WordEncoder()) as (memory, ledger):
        await memory.remember(draft(HOT), key="a1")
        other = await memory.remember(draft(text, **changes), key="a2")
        assert other["duplicate_of"] is None
        assert await count(ledger, "memory") == 2


@pytest.mark.req("M5")
async def test_two_activations_are_two_events_however_alike(tmp_path: Path) -> None:
    async with open_memory(tmp_path, WordEncoder()) as (memory, ledger):
        for key, activation in (("a1", "gw:M3:7"), ("a2", "gw:M3:8"), ("a3", "gw:M3:8")):
            await memory.remember(draft(HOT, facts={"activation": activation}), key=key)
        assert await count(ledger, "memory") == 2


def test_likeness_does_not_decide_against_words_that_turn_round() -> None:
    assert not says_the_same("alarm raised on motor three", "alarm cleared on motor three", 0.97, 0.9)
    assert says_the_same("alarm raised at 94", "alarm raised at 97", 0.91, 0.9)
    assert not says_the_same("alarm raised at 94", "fan replaced", 0.4, 0.9)


@pytest.mark.req("M5")
async def test_a_permanent_memory_is_kept_once_however_long_ago(tmp_path: Path) -> None:
    case = draft("Bearing seized, gearbox oil was missing", tier=Tier.SEMANTIC)
    async with open_memory(tmp_path, WordEncoder()) as (memory, ledger):
        first = await memory.remember(case, key="a1")
        again = await memory.remember(replace(case, occurred_utc=NOW - timedelta(days=400)), key="a2")
        assert again["duplicate_of"] == first["id"]
        assert await count(ledger, "memory") == 1


@pytest.mark.req("M5")
@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"scope": ""}, "scope"),
        ({"source_session": ""}, "source session"),
        ({"tier": Tier.PROCEDURAL}, "committed to their repository"),
        ({"tier": Tier.SEMANTIC, "confidence": 0.2}, "too low"),
        ({"text": " … "}, "without words"),
        ({"text": "x" * 9_000}, "more than"),
        ({"confidence": 1.5}, "between 0 and 1"),
        ({"occurred_utc": NOW + timedelta(hours=1)}, "future"),
        ({"occurred_utc": NOW - timedelta(days=31)}, "older"),
        ({"occurred_utc": datetime(2026, 3, 2, 8, 0)}, "no time zone"),  # noqa: DTZ001
        ({"facts": {"at": NOW}}, "written down"),
        ({"facts": {"value": float("nan")}}, "written down"),
        ({"text": "broken \ud800 text"}, "written down"),
        ({"facts": {"recalled": ["mem_1"]}}, "recalled"),
    ],
)
async def test_a_rejected_draft_leaves_its_reason_and_nothing_else(tmp_path: Path, changes: dict[str, Any], reason: str) -> None:
    async with open_memory(tmp_path, WordEncoder()) as (memory, ledger):
        with pytest.raises(MemoryWriteRejected, match=reason):
            await memory.remember(draft(**({"text": HOT} | changes)), key="a1")
        assert (await count(ledger, "memory"), await count(ledger, "operation")) == (0, 0)
        rejected = (await ledger.fetch("SELECT * FROM memory_rejected"))[0]
        assert reason in rejected["reason"]
        assert memory.working.sessions == 0


def test_freshness_is_not_judged_by_a_clock_that_is_not_set() -> None:
    late = draft(HOT, occurred_utc=NOW + timedelta(days=20_000))
    assert objection(late, now=NOW, is_clock_synced=False, settings=MemorySettings()) == ""


@pytest.mark.req("M5")
async def test_verified_needs_somebody_who_verified(tmp_path: Path) -> None:
    guess = draft("The capacitor is probably dead", tier=Tier.SEMANTIC, verified=True)
    async with open_memory(tmp_path, WordEncoder()) as (memory, ledger):
        assert (await memory.remember(guess, key="a1"))["verified"] is False
        known = replace(guess, text="The capacitor was measured: dead", facts={"verified_by": "worker 12"})
        assert (await memory.remember(known, key="a2"))["verified"] is True
        assert [r[0] for r in await ledger.fetch("SELECT verified FROM memory ORDER BY seq")] == [0, 1]


class TestRecalledTextIsNeverStoredAgain:
    CASE = "Motor 1 overheated because a seized gearbox bearing overloaded it; the bearing was replaced."

    async def _with_case(self, memory: Any) -> None:
        case = draft(self.CASE, tier=Tier.SEMANTIC, asset="motor_1", occurred_utc=NOW - timedelta(days=90))
        await memory.remember(case, key="case")

    @pytest.mark.field("FC-M01")
    @pytest.mark.parametrize("encoder", [WordEncoder, lambda: None], ids=["vectors", "words"])
    async def test_a_quote_under_another_asset(self, tmp_path: Path, encoder: Any) -> None:
        async with open_memory(tmp_path, encoder()) as (memory, ledger):
            await self._with_case(memory)
            for key, text in (("a", self.CASE), ("b", f"Similar case: {self.CASE} Check the gearbox oil first.")):
                with pytest.raises(MemoryWriteRejected, match="recalled text is never stored again"):
                    await memory.remember(draft(text), key=key)
            assert await count(ledger, "memory") == 1

    @pytest.mark.field("FC-M01")
    async def test_a_loop_of_recall_and_store_ends_at_once(self, tmp_path: Path) -> None:
        async with open_memory(tmp_path, WordEncoder()) as (memory, ledger):
            await memory.remember(draft(HOT, occurred_utc=NOW - timedelta(hours=3)), key="first")
            found = await memory.recall("what happened today", scope=SCOPE, asset="", fault="", now=NOW)
            assert [f.text for f in found.found] == [HOT]
            for n in range(20):
                with pytest.raises(MemoryWriteRejected):
                    await memory.remember(draft(found.found[0].text), key=f"loop-{n}")
            assert await count(ledger, "memory") == 1

    async def test_a_new_observation_in_the_same_words_is_news(self, tmp_path: Path) -> None:
        async with open_memory(tmp_path, WordEncoder()) as (memory, ledger):
            await memory.remember(draft(HOT, occurred_utc=NOW - timedelta(hours=3)), key="first")
            await memory.recall("what happened today", scope=SCOPE, asset="", fault="", now=NOW)
            again = await memory.remember(draft(HOT, facts={"event": "M3.OVERTEMP:43"}), key="second")
            assert again["duplicate_of"] is None
            assert await count(ledger, "memory") == 2

    async def test_a_report_may_open_with_the_alarm_it_is_about(self, tmp_path: Path) -> None:
        async with open_memory(tmp_path, WordEncoder()) as (memory, ledger):
            await memory.remember(draft(HOT), key="alarm")
            await memory.recall("what happened today", scope=SCOPE, asset="", fault="", now=NOW)
            report = f"{HOT}. The worker found the fan capacitor dead, replaced it, and the motor cooled to 68 degC."
            await memory.remember(draft(report, tier=Tier.SEMANTIC), key="report")
            assert await count(ledger, "memory") == 2


class TestNoRoom:
    @pytest.mark.req("M5")
    async def test_a_full_disk_leaves_no_draft_and_nothing_half_written(self, tmp_path: Path) -> None:
        async with open_memory(tmp_path, WordEncoder()) as (memory, ledger):
            await memory.remember(draft(HOT), key="before")
            pages = (await ledger.fetch("PRAGMA page_count"))[0][0]
            # The file may not grow any more: SQLite itself answers SQLITE_FULL, as it does on a full partition.
            await ledger.transaction(lambda tx: tx.execute(f"PRAGMA max_page_count = {pages}").fetchall())
            with pytest.raises(StorageFullError):
                for n in range(200):
                    occurred = NOW - timedelta(hours=n + 1)
                    await memory.remember(draft(f"{HOT} {'word ' * 500} {n}", occurred_utc=occurred), key=f"k{n}")
            assert memory.working.sessions == 0
            kept = await count(ledger, "memory")
            assert kept == await count(ledger, "memory_text") == await count(ledger, "memory_vector")
            assert kept == await count(ledger, "operation")
            await ledger.transaction(lambda tx: tx.execute("PRAGMA max_page_count = 1000000").fetchall())
            await memory.remember(draft("There is room again"), key="after")
            assert await count(ledger, "memory") == kept + 1

    @pytest.mark.field("FC-M06")
    async def test_episodes_make_room_at_the_bound_and_permanent_ones_do_not(self, tmp_path: Path) -> None:
        async with open_memory(tmp_path, None, storage_bytes=300_000) as (memory, ledger):
            for n in range(20):
                text = f"case {n} " + " ".join(f"w{n}x{i}" for i in range(900))
                await memory.remember(draft(text, occurred_utc=NOW - timedelta(hours=n)), key=f"e{n}")
            held = await memory.status()
            assert held["bytes"] <= 300_000 and held["memories"]["episodic"] < 20
            newest = await ledger.fetch("SELECT count(*) FROM memory WHERE key = 'e19'")
            assert newest[0][0] == 1
            with pytest.raises(StorageFullError, match="storage_bytes"):
                for n in range(25):
                    text = f"fact {n} " + " ".join(f"v{n}x{i}" for i in range(900))
                    await memory.remember(draft(text, tier=Tier.SEMANTIC), key=f"s{n}")
            held = await memory.status()
            assert held["bytes"] <= 300_000 and held["memories"]["episodic"] == 0

    @pytest.mark.field("FC-M07")
    async def test_damage_is_not_called_a_full_disk(self, tmp_path: Path) -> None:
        async with open_memory(tmp_path, WordEncoder()) as (memory, ledger):
            await memory.remember(draft(HOT), key="k")
            await ledger.transaction(lambda tx: tx.execute("UPDATE memory_text_data SET block = x'00ff00' WHERE id > 10"))
            with pytest.raises(Corrupt):
                await memory.recall(HOT, scope=SCOPE, asset="", fault="", now=NOW)


@pytest.mark.req("M2")
async def test_episodes_end_with_their_retention_and_facts_do_not(tmp_path: Path) -> None:
    clock = ManualClock(NOW)
    async with open_memory(tmp_path, WordEncoder(), clock=clock, retention_days=30) as (memory, ledger):
        await memory.remember(draft(HOT), key="old")
        await memory.remember(draft("a fact that stays", tier=Tier.SEMANTIC), key="fact")
        clock.advance(31 * 86_400)
        await memory.remember(draft("a new day", occurred_utc=clock.utc()), key="new")
        clock.is_synced = False
        assert await memory._episodic.purge() == 0
        clock.is_synced = True
        assert await memory._episodic.purge() == 1
        assert [r["key"] for r in await ledger.fetch("SELECT key FROM memory ORDER BY seq")] == ["fact", "new"]


async def test_a_working_memory_stays_in_the_process(tmp_path: Path) -> None:
    async with open_memory(tmp_path, None) as (memory, ledger):
        edit = draft("fan speed set to 1200", tier=Tier.WORKING, facts={"kind": "edit"})
        first = await memory.remember(edit, key="w1")
        assert await memory.remember(edit, key="w1") == first
        assert await count(ledger, "memory") == 0
        found = await memory.recall("the last setpoint I edited", scope=SCOPE, asset="", fault="", now=NOW)
        assert [f.text for f in found.found] == ["fan speed set to 1200"]
        assert found.route is Tier.WORKING


def test_drafts_of_any_shape_get_an_answer() -> None:
    empty = MemoryDraft(Tier.EPISODIC, "", "", "", "", "", -1.0, False, NOW)
    assert objection(empty, now=NOW, is_clock_synced=True, settings=MemorySettings())
