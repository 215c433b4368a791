"""The demo waits for a start that moves, however slowly, and names what a stuck one lacks."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any

import pytest

from demo.core_client import CoreClient
from demo.wholeness import missing, wait_until_whole


def status(*, left: int, ready: bool = True, likeness: bool = True) -> dict[str, Any]:
    voice = {"hearing": True, "speaking": True, "prepared": 184 - left, "to_prepare": left}
    return {"ready": ready, "voice": voice, "memory_knows_likeness": likeness, "degraded": {"x": "y" * 2000}}


@contextlib.asynccontextmanager
async def answering(folder: Path, states: Iterable[dict[str, Any]]) -> AsyncIterator[CoreClient]:
    """A core that gives one state after the other, and the last one for ever."""
    left = list(states)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        body = json.dumps(left.pop(0) if len(left) > 1 else left[0]).encode()
        writer.write(b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body))
        await writer.drain()
        writer.close()

    async with await asyncio.start_unix_server(answer, folder / "api.sock"):
        client = CoreClient(folder / "api.sock")
        try:
            yield client
        finally:
            await client.close()


def test_what_is_missing_is_counted() -> None:
    assert missing(status(left=0)) == ()
    assert missing(status(left=37, likeness=False)) == ("the sound of 37 fixed sentences", "the memory's sentence encoder")
    assert missing(None) == ("an answer from the core",)


async def test_a_start_may_take_longer_than_any_of_its_steps(tmp_path: Path) -> None:
    began_s = asyncio.get_running_loop().time()
    async with answering(tmp_path, [status(left=left) for left in range(12, -1, -1)]) as client:
        await wait_until_whole(client, note=lambda _: None, log="core.log", still=lambda: True, nothing_moved_s=1.0)
    assert asyncio.get_running_loop().time() - began_s > 1.0


async def test_a_stuck_start_says_what_is_missing(tmp_path: Path) -> None:
    async with answering(tmp_path, [status(left=37)]) as client:
        with pytest.raises(
            TimeoutError, match=r"nothing moved for 0\.3 s; still missing: the sound of 37 fixed sentences; see core"
        ):
            await wait_until_whole(client, note=lambda _: None, log="core.log", still=lambda: True, nothing_moved_s=0.3)
        with pytest.raises(RuntimeError, match="the core ended while it started; still missing: the sound of 37"):
            await wait_until_whole(client, note=lambda _: None, log="core.log", still=lambda: False)
        await wait_until_whole(client, note=lambda _: None, log="core.log", still=lambda: True, only_ready=True)
