"""While no model answers the appliance says once that it works with fixed phrases, and once that the model is back (A2)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from appliance.contracts.model import Message, ModelRequest, ModelsAway
from appliance.delivery.announcer import Announcer
from appliance.foundation.supervisor import Degraded
from drivers.models.chain import ModelChain
from drivers.models.settings import ModelSettings
from tests.support.ledger import Bench, open_bench
from tests.support.model_peer import model_peer, says, status
from tests.support.plans import phrasing
from tests.support.waiting import until

ASK = ModelRequest((Message("user", "why did it stop"),), 16)


async def said(bench: Bench) -> list[str]:
    return [row["text"] for row in await bench.rows("SELECT text FROM delivery ORDER BY seq")]


@pytest.mark.req("A1", "A2")
@pytest.mark.parametrize(
    ("language", "lost", "back"),
    [
        (
            "en",
            "My language model does not answer. I work with fixed phrases for now.",
            "My language model answers again.",
        ),
        ("zh", "语言模型没有应答，我现在只按固定说法工作。", "语言模型恢复应答了。"),
    ],
)
async def test_it_is_said_once_and_so_is_its_end(tmp_path: Path, language: str, lost: str, back: str) -> None:
    degraded, told = Degraded(), asyncio.Queue[None]()
    async with open_bench(tmp_path) as bench:
        announcer = Announcer(
            bench.database, bench.clock, bench.ids, phrasing(), degraded, language=language,
            delivered=lambda: told.put_nowait(None), settle_s=0.01,
        )  # fmt: skip
        running = asyncio.create_task(announcer.run())
        await until(lambda: degraded.listeners, "the announcer listens")
        with model_peer([status(402)]) as peer:
            chain = ModelChain([ModelSettings(name="m", url=peer.url)], bench.clock, within_s=30, degraded=degraded)
            for _ in range(5):
                with pytest.raises(ModelsAway):
                    await chain.complete(ASK)
                bench.clock.advance(40)
            await asyncio.wait_for(told.get(), 20)
            assert await said(bench) == [lost]
            assert degraded.reasons == {"models": "m: the account has no money or quota left (answered 402)"}
            bench.clock.advance(4000)
            peer.plays = [says("yes")]
            for _ in range(3):
                await chain.complete(ASK)
            await asyncio.wait_for(told.get(), 20)
            assert await said(bench) == [lost, back]
            await chain.close()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
