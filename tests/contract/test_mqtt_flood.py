"""A flood through a real broker and a real session into a real ledger: what was acknowledged is there, whoever is killed."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from drivers.mqtt.topics import IncomingMessage
from tests.contract.test_mqtt_session import ALARMS, numbered
from tests.support.broker import publish_surely, publisher, running_broker, running_session, settings_for
from tests.support.ledger import Bench, open_bench
from tests.support.waiting import until

FLOOD = 1_500  # as many as a slow card takes in a few seconds: each is saved by the broker and committed here
AT_ONCE = 50


class Diary:
    """A handler whose every message is a commit."""

    def __init__(self, bench: Bench) -> None:
        self._database = bench.database
        self.seen: set[bytes] = set()

    async def open(self) -> None:
        await self._database.transaction(lambda tx: tx.execute("CREATE TABLE diary (message BLOB PRIMARY KEY) STRICT"))

    async def __call__(self, message: IncomingMessage) -> None:
        await self._database.transaction(lambda tx: tx.execute("INSERT OR IGNORE INTO diary VALUES (?)", (message.payload,)))
        self.seen.add(message.payload)


@pytest.mark.req("F5", "R1")
@pytest.mark.field("FC-F17", "FC-F18")
async def test_a_flood_loses_nothing_while_client_and_broker_are_killed(tmp_path: Path) -> None:
    async with open_bench(tmp_path) as bench, running_broker(tmp_path) as broker, publisher(broker) as gateway:
        diary, room = Diary(bench), asyncio.Semaphore(AT_ONCE)
        await diary.open()
        settings = settings_for(broker)

        async def publish(payload: bytes) -> None:
            async with room:
                await publish_surely(gateway, ALARMS, payload, within_s=60)

        async def flood() -> None:
            await asyncio.gather(*(publish(payload) for payload in numbered(FLOOD)))

        async with running_session(settings, diary):
            flooding = asyncio.create_task(flood())
            await until(lambda: len(diary.seen) > FLOOD // 4, "a quarter", within_s=60)
        async with running_session(settings, diary):  # ended in the midst of it, and begun again
            await until(lambda: len(diary.seen) > FLOOD // 2, "half", within_s=60)
            await broker.kill()
            await broker.start()
            await flooding
            await publish_surely(gateway, ALARMS, b"last")
            await until(lambda: b"last" in diary.seen, "the rest", within_s=60)
        rows = await bench.rows("SELECT message FROM diary")
        assert {row["message"] for row in rows} == diary.seen
        missing = set(numbered(FLOOD)) - diary.seen
        assert len(missing) <= 1, "mosquitto reads one message of a client a round, and may acknowledge it without having saved"
