"""The way to a model and the end of it: names, certificates, keys, and callers that go away (A2, R7)."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.support.certificates import self_signed
from tests.support.model_asking import ASK, PLAN, ask, chat, failing
from tests.support.model_peer import ModelPeer, Play, head, model_peer, piece, says
from tests.support.waiting import until

pytestmark = pytest.mark.req("A2")


@pytest.fixture
def peer() -> Iterator[ModelPeer]:
    with model_peer() as peer:
        yield peer


class Silent:
    """A server that takes connections and never says a word."""

    def __init__(self) -> None:
        self.url = ""
        self.came, self.left = asyncio.Event(), asyncio.Event()

    async def hear(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.came.set()
        with contextlib.suppress(ConnectionError):
            await reader.read()
        writer.close()
        self.left.set()


@asynccontextmanager
async def silent_listener() -> AsyncIterator[Silent]:
    silent = Silent()
    async with await asyncio.start_server(silent.hear, "127.0.0.1", 0) as server:
        silent.url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        yield silent


async def test_what_is_not_reached_not_known_or_not_trusted(peer: ModelPeer, tmp_path: Path) -> None:
    failed = await failing(peer, says(PLAN), url="http://127.0.0.1:1/v1")
    assert (failed.failure.reason, failed.usage.tokens_in) == ("not_reached", 0)
    assert (await failing(peer, says(PLAN), url="https://no-such-host.invalid/v1")).failure.reason == "unknown_host"
    for odd in ("https://a..b/v1", f"https://{'x' * 70}.example/v1", "https://exa mple/v1"):
        assert (await failing(peer, says(PLAN), url=odd)).failure.reason in ("unknown_host", "unusable")
    async with silent_listener() as silent:
        assert (await failing(peer, says(PLAN), url=silent.url, connect_s=0.2)).failure.reason == "not_reached"
        await asyncio.wait_for(silent.left.wait(), 15.0)
    missing = await failing(peer, says(PLAN), ca_file=tmp_path / "none.pem", url=peer.url.replace("http:", "https:"))
    assert missing.failure.reason == "unusable" and "none.pem" in missing.words
    assert peer.asked == []


async def test_a_private_authority_is_trusted_alone(tmp_path: Path) -> None:
    own, other = await self_signed(tmp_path, "own"), await self_signed(tmp_path, "other")
    with model_peer(certificate=own) as peer:
        assert (await failing(peer, says(PLAN))).failure.reason == "not_trusted"
        assert (await failing(peer, says(PLAN), ca_file=other[0])).failure.reason == "not_trusted"
        assert peer.asked == []
        assert (await ask(peer, says(PLAN), ca_file=own[0])).text == PLAN


async def test_keys_come_from_files_that_nobody_else_reads(peer: ModelPeer, tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text("k-file\n")
    file.chmod(0o644)
    failed = await failing(peer, says(PLAN), key_files=[file])
    assert failed.failure.reason == "unusable" and "chmod 600" in failed.words and "k-file" not in failed.words
    file.chmod(0o600)
    await ask(peer, says(PLAN), key_files=[file])
    file.write_text("k-renewed")
    await ask(peer, says(PLAN), key_files=[file])
    assert peer.keys == ["k-file", "k-renewed"]
    file.write_text("two\nlines")
    failed = await failing(peer, says(PLAN), key_files=[file])
    assert failed.failure.reason == "unusable" and "two" not in failed.words


@pytest.mark.req("R7")
@pytest.mark.parametrize("parts", [(), (head(),), (head(), piece(PLAN[:9]))], ids=["headers", "first token", "in the middle"])
async def test_a_caller_that_is_cancelled_closes_the_connection(peer: ModelPeer, parts: tuple[bytes, ...]) -> None:
    peer.plays = [Play(parts, holds=True)]
    async with chat(peer) as model:
        call = model.call(ASK)
        asking = asyncio.create_task(call.run(0, 60.0))
        await until(lambda: peer.asked, "the request arrived")
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        await until(peer.closed_by_client.is_set, "the connection was closed")
        assert call.usage().is_estimated


@pytest.mark.req("R7")
async def test_a_caller_that_is_cancelled_in_a_handshake_closes_the_connection(peer: ModelPeer) -> None:
    async with silent_listener() as silent, chat(peer, url=silent.url) as model:
        asking = asyncio.create_task(model.call(ASK).run(0, 60.0))
        await asyncio.wait_for(silent.came.wait(), 15.0)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        await asyncio.wait_for(silent.left.wait(), 15.0)


def test_importing_costs_little_and_loads_no_http() -> None:
    script = "import sys; import drivers.models.chain; print([m for m in sys.modules if m.startswith('httpx')])"
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout == "[]\n"
