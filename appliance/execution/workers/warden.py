"""The core's end of the warden: it is started with the first call that needs it, and again after it died."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import logging
import os
import socket
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from appliance.contracts.errors import Unavailable
from appliance.contracts.interrupt import GRACE_S
from appliance.execution.workers.warden_words import LONGEST_SAID_BYTES, Ended, line_of

log = logging.getLogger(__name__)

_START_WITHIN_S = 20.0  # a Pi that boots takes some seconds to load Python and the tools' modules
_LONGEST_LINE_BYTES = 7 * LONGEST_SAID_BYTES  # what was said, whatever it is, with every byte escaped as six
_PASSED_ON = ("PATH", "LANG", "LC_ALL", "TZ")  # of the core's environment; no secret is in these


@dataclass(frozen=True, slots=True)
class Word:
    """What the warden told of a call that has ended: how, why if it did not end well, and what the worker had written."""

    ended: Ended
    why: str
    said: str


class Warden:
    """Has calls made in processes of their own. Used from one event loop. ``scratch`` is where each call gets a folder."""

    def __init__(self, scratch: Path) -> None:
        """Nothing is started before the first :meth:`call`."""
        self._scratch = scratch
        self._modules: set[str] = set()
        self._ids = itertools.count(1)
        self._calls: dict[int, asyncio.Future[Word]] = {}
        self._starting = asyncio.Lock()
        self._process: asyncio.subprocess.Process | None = None
        self._to_warden: asyncio.StreamWriter | None = None
        self._listening: asyncio.Task[None] | None = None

    @property
    def pid(self) -> int | None:
        """The warden's process, None while there is none."""
        return self._process.pid if self._process is not None else None

    def expect(self, module: str) -> None:
        """Have a module loaded in advance by the next warden that is started, so that calls need not load it."""
        self._modules.add(module)

    async def call(self, what: str, where: str, init: Mapping[str, Any], call: Mapping[str, Any], bound_ms: int) -> Word:
        """Make a call and return how it ended, within ``bound_ms``. A caller that is cancelled has it stopped, and killed half a
        second later; it gets the word of it as long as the call said something.

        Raises:
            Unavailable: the warden does not start, or died: nobody knows what became of the call once it was begun
                (fact ``may_have_begun``).
        """
        to_warden = await self._started()
        number = next(self._ids)
        word: asyncio.Future[Word] = asyncio.get_running_loop().create_future()
        self._calls[number] = word
        to_warden.write(line_of({"id": number, "what": what, "where": where, "init": init, "call": call, "bound_ms": bound_ms}))
        try:
            return await asyncio.shield(word)
        except asyncio.CancelledError:
            last = await self._stop(number, word)
            if last is None or not last.said:
                raise
            return last
        finally:
            self._calls.pop(number, None)
            if word.done() and not word.cancelled():
                word.exception()  # it was looked at, or nobody is left to look

    async def close(self) -> None:
        """Hang up: the warden kills what runs, and ends."""
        async with self._starting:
            await self._end()

    async def _stop(self, number: int, word: asyncio.Future[Word]) -> Word | None:
        """Stop a call; a warden that does not answer to that is killed, and all workers with it."""
        if self._to_warden is not None:
            self._to_warden.write(line_of({"stop": number}))
        await asyncio.wait({word}, timeout=GRACE_S)
        if not word.done():
            log.error("warden.hangs", extra={"pid": self.pid})
            self._kill()
            return None
        return None if word.exception() is not None else word.result()

    # the process ----------------------------------------------------------------------------------------------------
    async def _started(self) -> asyncio.StreamWriter:
        async with self._starting:
            if self._to_warden is None:
                await self._start()
            assert self._to_warden is not None
            return self._to_warden

    async def _start(self) -> None:
        await self._end()  # of the one before, if it died
        ours, its = socket.socketpair()
        try:
            self._scratch.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "appliance.execution.workers.warden_process", str(its.fileno()),
                str(self._scratch.absolute()), *sorted(self._modules),
                stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.DEVNULL,
                pass_fds=[its.fileno()], env=_environment(),
            )  # fmt: skip
            reader, writer = await asyncio.open_connection(sock=ours, limit=_LONGEST_LINE_BYTES)
        except OSError as error:
            ours.close()
            raise Unavailable(f"no process can be started for tools: {error.strerror}") from error
        finally:
            its.close()
        try:
            async with asyncio.timeout(_START_WITHIN_S):
                if not await reader.readline():
                    raise Unavailable("the process that runs tools ended while it started")
        except BaseException as error:
            writer.close()
            self._kill()
            if isinstance(error, TimeoutError):
                raise Unavailable("the process that runs tools does not start") from error
            raise
        self._to_warden = writer
        self._listening = asyncio.create_task(self._listen(reader, writer), name="warden")
        log.info("warden.started", extra={"pid": self._process.pid})

    async def _listen(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Hand each word to its call; when the warden is gone, tell every call that is left."""
        try:
            with contextlib.suppress(ConnectionError):
                while line := await reader.readline():
                    told = json.loads(line)
                    word = self._calls.get(told["id"])
                    if word is not None and not word.done():
                        word.set_result(Word(Ended(told["ended"]), told["why"], told["said"]))
            log.warning("warden.died", extra={"calls_lost": len(self._calls)})
        finally:
            writer.close()
            self._to_warden = None
            for word in self._calls.values():
                if not word.done():
                    word.set_exception(Unavailable("the process that ran the tool was lost", may_have_begun=True))

    async def _end(self) -> None:
        if self._to_warden is not None:
            self._to_warden.close()
        if self._listening is not None:
            self._listening.cancel()
            await asyncio.wait({self._listening})
            self._listening = None
        if self._process is not None:
            try:
                async with asyncio.timeout(GRACE_S):
                    await self._process.wait()
            except TimeoutError:
                self._kill()
                await self._process.wait()
            self._process = None

    def _kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            if self._process is not None:
                self._process.kill()


def _environment() -> dict[str, str]:
    """Return what the warden and its workers see of the core's environment, and where they find the same modules (X3)."""
    kept = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    return {**kept, "PYTHONPATH": os.pathsep.join(str(Path(folder).absolute()) for folder in sys.path)}
