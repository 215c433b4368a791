"""LISTENING falls back to IDLE when nothing is said (S4): in the real voice process, which alone knows who is listening."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.contract.test_voice_process import Voice
from tests.support.waiting import until
from voice.endpointing import EndReason

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def voice(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Voice]:
    async with Voice(tmp_path_factory.mktemp("silence")) as voice:
        await voice.until_ready()
        yield voice


@pytest.mark.req("S4")
async def test_three_seconds_of_silence_end_listening_and_the_wake_word_is_waited_for_again(
    voice: Voice, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    clock = asyncio.get_running_loop().time
    await voice.link.listen()
    await until(lambda: events(caplog, "detection"), "listening began", 5.0)
    began_s = clock()
    await until(lambda: events(caplog, "voice-stopped"), "listening ended", 10.0)
    assert 2.5 <= clock() - began_s <= 4.5  # 3 s of what is heard, and what hearing it takes
    await until(lambda: voice.heard, "it is told that nothing was said", 5.0)
    assert (voice.heard[0].text, voice.heard[0].facts["end"]) == ("", EndReason.NOTHING_SAID)
    assert (await voice.hear(await voice.draft("stop", 71))).text == "stop"


def events(caplog: pytest.LogCaptureFixture, name: str) -> list[logging.LogRecord]:
    return [record for record in caplog.records if name in str(record.__dict__)]
