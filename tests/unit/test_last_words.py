"""Last words: storage trouble is said and published without the ledger, once a change, and cleared when it is over."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from appliance.contracts.delivery import Delivery
from appliance.contracts.errors import Malformed, Unavailable
from appliance.contracts.speech import SpeechReceipt
from appliance.delivery.last_words import LastWords, Trouble, memo_file
from appliance.delivery.phrasing import Phrasing
from appliance.foundation.supervisor import Degraded
from appliance.foundation.system_clock import SystemClock
from appliance.ledger_standing import LedgerStanding
from appliance.store import operations, writer
from appliance.store.database import Database
from tests.support.clock import CountingIds, ManualClock
from tests.support.foreign import holding
from tests.support.planning import shipped_phrasebook
from tests.support.plant import shipped_plant
from tests.support.waiting import until

FULL = Trouble("storage_full", "no room left for ledger.db")
SICK = Trouble("storage_unwritable", "the storage does not answer for ledger.db")
TOPIC = "floorhand/line-3/trouble"


class Outside:
    """A loudspeaker and a broker that are away as long as a test wants, and remember what they got."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.retained: list[bytes] = []
        self.is_away = False
        self.mute = False

    async def say(self, delivery: Delivery) -> SpeechReceipt:
        if self.is_away:
            raise Unavailable("no voice process", retry_after_s=0.01)
        if self.mute:
            raise Malformed("no voice for this script")
        self.said.append(delivery.text)
        return SpeechReceipt(delivery.id, 1, 2)

    async def wait_connected(self) -> None:
        if self.is_away:
            await asyncio.Event().wait()

    async def publish(self, topic: str, payload: bytes, *, retain: bool = False) -> None:
        assert topic == TOPIC and retain
        self.retained.append(payload)


@asynccontextmanager
async def speaking(outside: Outside, clock: ManualClock | None = None, **how: object) -> AsyncIterator[LastWords]:
    book = shipped_phrasebook()
    wording = Phrasing({lang: book.replies(lang) for lang in ("en", "zh")}, shipped_plant())
    words = LastWords(
        outside, outside, wording, clock or ManualClock(), CountingIds(), language="en", client_id="line-3", **how,  # type: ignore[arg-type]
    )  # fmt: skip
    running = asyncio.create_task(words.run())
    try:
        yield words
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def test_trouble_is_said_and_published_once_and_cleared_when_it_is_over() -> None:
    outside = Outside()
    async with speaking(outside) as words:
        await until(lambda: outside.retained == [b""], "what an earlier life left is cleared")
        assert outside.said == []
        for _ in range(3):
            words.tell(FULL)
        await until(lambda: len(outside.said) == 1 and len(outside.retained) == 2, "told")
        told = json.loads(outside.retained[-1])
        assert told["trouble"] == "storage_full" and told["detail"] == FULL.detail and told["text"] == outside.said[0]
        assert "disk is full" in outside.said[0]
        words.tell(SICK)
        await until(lambda: len(outside.said) == 2 and len(outside.retained) == 3, "the change is told")
        words.tell(None)
        await until(lambda: len(outside.said) == 3 and outside.retained[-1] == b"", "that it is over is told")
        assert "again" in outside.said[2]


async def test_what_lasts_is_said_again_after_a_long_time() -> None:
    outside = Outside()
    async with speaking(outside, again_s=0.05) as words:
        words.tell(FULL)
        await until(lambda: len(outside.said) >= 3, "said again and again")
        assert set(outside.said) == {outside.said[0]}


async def test_neither_waits_for_the_other_and_what_cannot_be_said_is_left() -> None:
    outside = Outside()
    outside.is_away = True
    async with speaking(outside) as words:
        words.tell(FULL)
        outside.is_away = False
        words.tell(SICK)  # what changed meanwhile is told, not what was
        await until(lambda: len(outside.said) == 1, "told once somebody can speak")
        assert "cannot write" in outside.said[0]
    outside.mute = True
    async with speaking(outside) as words:
        words.tell(FULL)
        await until(lambda: json.loads(outside.retained[-1] or b"{}").get("trouble") == "storage_full", "published all the same")


async def test_a_process_started_again_and_again_says_the_same_only_once(tmp_path: Path) -> None:
    outside, clock, memo = Outside(), ManualClock(), tmp_path / "memo.json"
    for _ in range(3):
        async with speaking(outside, clock, memo=memo) as words:
            words.tell(FULL)
            await words.published.wait()
            await until(words.said.is_set, "said, or not needed")
    assert len(outside.said) == 1
    clock.advance(3600)
    async with speaking(outside, clock, memo=memo) as words:
        words.tell(FULL)
        await until(lambda: len(outside.said) == 2, "half an hour later it is said again")
    clock.boot_id = "boot-2"
    async with speaking(outside, clock, memo=memo) as words:
        words.tell(FULL)
        await until(lambda: len(outside.said) == 3, "another boot")


async def test_trouble_of_the_ledger_is_shown_and_told_until_it_is_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From a real ledger that cannot be written to what is said of it, and back."""
    monkeypatch.setattr(writer, "FOREGROUND_PATIENCE_S", 0.1)
    outside, degraded, clock = Outside(), Degraded(), SystemClock()
    database = await Database.open(tmp_path / "ledger.db", clock)
    standing = LedgerStanding(database, clock, degraded, "")
    await standing.load()
    async with speaking(outside) as words:
        standing.speak_through(words)
        with holding(database.path, "BEGIN IMMEDIATE"):
            with pytest.raises(Unavailable):
                await database.transaction(lambda tx: None)
            assert "another program" in degraded.reasons["ledger"]
            await until(lambda: outside.said, "said")
        await database.transaction(lambda tx: operations.set_origin(tx, clock, "line-3"))
        assert "ledger" not in degraded.reasons
        await until(lambda: len(outside.said) == 2 and outside.retained[-1] == b"", "over")
    await database.close()


def test_what_was_said_is_remembered_where_it_can_be_written_though_the_data_folder_cannot(tmp_path: Path) -> None:
    data, runtime = tmp_path / "data", tmp_path / "runtime"
    runtime.mkdir()
    assert memo_file(tmp_path / "run/api.sock", data, {}) == tmp_path / "run/last-words.json"
    inside = data / "run/api.sock"
    memo = memo_file(inside, data, {"XDG_RUNTIME_DIR": str(runtime)})
    assert memo.parent == runtime
    assert memo != memo_file(tmp_path / "other/run/api.sock", tmp_path / "other", {"XDG_RUNTIME_DIR": str(runtime)})
    without = memo_file(inside, data, {"XDG_RUNTIME_DIR": str(tmp_path / "missing")})
    assert without.parent == Path(tempfile.gettempdir()) and without.name == memo.name
