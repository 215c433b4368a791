"""The core's end of the voice: starts the voice process, keeps it running, and is the mouth and the ears of the core.

No audio and no model library is imported here: what crashes or hangs in them takes the voice process down, never the core.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from wyoming.event import Event, async_read_event, async_write_event

from appliance.contracts.clock import Clock, IdSource
from appliance.contracts.delivery import Delivery
from appliance.contracts.errors import FloorhandError, Malformed, Refused, Unavailable
from appliance.contracts.speech import Grammar, SpeechReceipt, Utterance
from appliance.foundation.backoff import delays_s
from appliance.foundation.supervisor import Degraded
from voice import wire
from voice.settings import VoiceSettings

log = logging.getLogger(__name__)

PART = "voice"
_ROOT = str(Path(__file__).resolve().parents[1])  # where the package is, installed or not, whatever folder the core runs in
_CONNECT_WITHIN_S = 30.0  # importing the libraries on a slow card
_PING_EVERY_S = 1.0
_PING_EVERY_UNTIL_HEARING_S = 0.2
_END_WITHIN_S = 3.0
_STEADY_S = 60.0  # a process that ran this long has recovered: its backoff starts anew
_UTTERANCES = 64  # waiting for the core; the oldest goes, because what was said long ago must not act now
_REFUSALS: Mapping[str, type[FloorhandError]] = {"malformed": Malformed, "refused": Refused, "config": Refused}


class VoiceLink:
    """Implements the ports Mouth and Ears on a voice process of its own.

    ``silent_s`` is how long the process may give no answer, or its ear not move, before it is started anew.
    """

    silent_s = 10.0

    def __init__(self, settings: VoiceSettings, runtime_dir: Path, clock: Clock, ids: IdSource, degraded: Degraded) -> None:
        """``runtime_dir`` gets the socket and the settings of the process. ``ready_listeners`` are told when it can speak."""
        self._settings = settings
        self._socket = runtime_dir / "voice.sock"
        self._settings_file = runtime_dir / "voice.json"
        self._clock = clock
        self._ids = ids
        self._degraded = degraded
        self._outbound: asyncio.Queue[Event] | None = None
        self._saying: dict[str, asyncio.Future[SpeechReceipt]] = {}
        self._first_audio_mono_ns: dict[str, int] = {}
        self._heard: asyncio.Queue[Utterance] = asyncio.Queue()
        self._grammar: Grammar | None = None
        self._prepared: tuple[str, ...] = ()
        self._is_pending = False
        self._state: Mapping[str, Any] = {}
        self._answered_mono_ns = 0
        self._pid: int | None = None
        self._starts = 0
        self.ready_listeners: list[Callable[[], None]] = []

    # service ----------------------------------------------------------------------------------------------------------
    async def run(self) -> None:
        """Keep a voice process running for ever; on cancellation it is ended (SIGTERM, then SIGKILL after 3 s)."""
        waits = delays_s(0.5, 30.0)
        while True:
            started_mono_ns = self._clock.monotonic_ns()
            self._degraded.mark(PART, "starting")
            why = await self._run_once()
            if self._clock.monotonic_ns() - started_mono_ns > _STEADY_S * 1e9:
                waits = delays_s(0.5, 30.0)
            self._degraded.mark(PART, why)
            await asyncio.sleep(next(waits))

    async def _run_once(self) -> str:
        """Start one process, serve it until it is lost, and return why it was."""
        try:
            process = await self._spawn()
        except OSError as error:
            return f"the voice process cannot be started: {error}"
        self._pid = process.pid
        self._starts += 1
        try:
            reader, writer = await self._connect(process)
        except Unavailable as error:
            return error.message
        else:
            try:
                await self._serve(reader, writer)
            finally:
                writer.close()
            code = process.returncode
            return "the voice process was lost" if code is None else f"the voice process ended ({code})"
        finally:
            self._lose()
            await _end(process)

    async def _spawn(self) -> asyncio.subprocess.Process:
        await asyncio.to_thread(self._write_settings)
        path = os.pathsep.join(filter(None, (_ROOT, os.environ.get("PYTHONPATH"))))
        return await asyncio.create_subprocess_exec(
            sys.executable, "-m", "voice", "--socket", str(self._socket), "--settings", str(self._settings_file),
            "--parent", str(os.getpid()), "--log-level", logging.getLevelName(log.getEffectiveLevel()),
            stdin=asyncio.subprocess.PIPE, env={**os.environ, "PYTHONPATH": path},
        )  # fmt: skip

    def _write_settings(self) -> None:
        self._socket.parent.mkdir(parents=True, exist_ok=True)
        self._socket.unlink(missing_ok=True)
        self._settings_file.write_text(self._settings.model_dump_json(), encoding="utf-8")

    async def _connect(self, process: asyncio.subprocess.Process) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        deadline_mono_ns = self._clock.monotonic_ns() + int(_CONNECT_WITHIN_S * 1e9)
        while self._clock.monotonic_ns() < deadline_mono_ns:
            if process.returncode is not None:
                raise Unavailable(f"the voice process ended while starting ({process.returncode})")
            with contextlib.suppress(FileNotFoundError, ConnectionRefusedError):
                return await asyncio.open_unix_connection(self._socket)
            await asyncio.sleep(0.02)  # a socket that does not exist yet cannot be waited for
        raise Unavailable("the voice process does not open its socket")

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        outbound: asyncio.Queue[Event] = asyncio.Queue()
        self._outbound = outbound
        self._answered_mono_ns = self._clock.monotonic_ns()
        if self._grammar is not None:
            self._send_grammar(self._grammar)
        self._send(Event(wire.EXPECT, {"pending": self._is_pending}))
        self._send(Event(wire.RUN))
        tasks = [
            asyncio.create_task(self._receive(reader), name="voice receive"),
            asyncio.create_task(_write(outbound, writer), name="voice send"),
            asyncio.create_task(self._watch(), name="voice watch"),
        ]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        for task in done:
            if (error := task.exception()) is not None and not isinstance(error, ConnectionError | asyncio.IncompleteReadError):
                raise error

    async def _receive(self, reader: asyncio.StreamReader) -> None:
        while (event := await async_read_event(reader)) is not None:
            self._take(event)

    async def _watch(self) -> None:
        """Ask for the state, and return when it does not come or the ear stands still (FC-V04)."""
        while True:
            self._send(Event(wire.PING))
            await asyncio.sleep(_PING_EVERY_S if self._state.get("hearing") else _PING_EVERY_UNTIL_HEARING_S)
            silent_s = (self._clock.monotonic_ns() - self._answered_mono_ns) / 1e9
            if max(silent_s, float(self._state.get("ear_still_s", 0.0))) > self.silent_s:
                log.warning("voice.stuck", extra={"silent_s": round(silent_s, 1), "state": dict(self._state)})
                return

    # events from the process ------------------------------------------------------------------------------------------
    def _take(self, event: Event) -> None:
        data = event.data
        delivery = str(data.get("delivery") or "")
        match event.type:
            case wire.PONG:
                self._take_state(data["state"])
            case wire.TRANSCRIPT:
                if self._heard.qsize() >= _UTTERANCES:
                    log.warning("voice.utterance_dropped", extra={"utterance": self._heard.get_nowait().id})
                self._heard.put_nowait(wire.read_utterance(data))
            case wire.FIRST_AUDIO:
                self._first_audio_mono_ns[delivery] = int(data["mono_ns"])
            case wire.PLAYED:
                self._settle(delivery, SpeechReceipt(delivery, int(data["first_audio_mono_ns"]), int(data["finished_mono_ns"])))
            case wire.ERROR if delivery:
                kind = _REFUSALS.get(str(data.get("code")), Unavailable)
                self._settle(delivery, kind(str(data["text"]), may_have_played=bool(data.get("may_have_played"))))
            case wire.ERROR:
                log.error("voice.fault", extra={key: data.get(key) for key in ("text", "code", "part")})
            case wire.DETECTION | wire.VOICE_STARTED | wire.VOICE_STOPPED:
                log.info("voice.heard_something", extra={"what": event.type, "why": data.get("why", "")})

    def _take_state(self, state: Mapping[str, Any]) -> None:
        could_speak = bool(self._state.get("synthesizer"))
        self._state = state
        self._answered_mono_ns = self._clock.monotonic_ns()
        reasons = dict(state["degraded"])
        if not state["hearing"] and not reasons:
            reasons["microphone" if state["recogniser"] else "recogniser"] = "starting"
        if reasons:
            self._degraded.mark(PART, "; ".join(f"{part}: {why}" for part, why in sorted(reasons.items())))
        else:
            self._degraded.clear(PART)
        if state["synthesizer"] and not could_speak:
            for listener in self.ready_listeners:
                listener()

    def _settle(self, delivery: str, outcome: SpeechReceipt | FloorhandError) -> None:
        self._first_audio_mono_ns.pop(delivery, None)
        future = self._saying.pop(delivery, None)
        if future is None or future.done():
            return
        if isinstance(outcome, FloorhandError):
            future.set_exception(outcome)
        else:
            future.set_result(outcome)

    def _lose(self) -> None:
        """The process is gone: whoever waits for it is told."""
        self._outbound = None
        self._state = {}
        self._pid = None
        for delivery in list(self._saying):
            may_have_played = delivery in self._first_audio_mono_ns
            self._settle(delivery, Unavailable("the voice process was lost", may_have_played=may_have_played))

    # mouth ------------------------------------------------------------------------------------------------------------
    async def say(self, delivery: Delivery) -> SpeechReceipt:
        """See Mouth. Cancelling it stops the speech."""
        if self._outbound is None:
            raise Unavailable("no voice process", may_have_played=False)
        future: asyncio.Future[SpeechReceipt] = asyncio.get_running_loop().create_future()
        self._saying[delivery.id] = future
        self._send(wire.synthesize_event(delivery))
        try:
            return await future
        except asyncio.CancelledError:
            self._saying.pop(delivery.id, None)
            self._send(Event(wire.STOP))
            raise

    async def stop_speaking(self) -> None:
        """Cut what is being said; its receipt comes as if it had been played."""
        self._send(Event(wire.STOP))

    # ears -------------------------------------------------------------------------------------------------------------
    async def utterances(self) -> AsyncIterator[Utterance]:
        """See Ears."""
        while True:
            yield await self._heard.get()

    async def load_grammar(self, grammar: Grammar, prepared: Sequence[str]) -> None:
        """See Ears. Kept, and given to every process that is started. Words that cannot be heard are named as degraded."""
        self._grammar = grammar
        self._prepared = tuple(prepared)
        self._send_grammar(grammar)

    async def expect_answer(self, pending: bool) -> None:
        """See Ears."""
        self._is_pending = pending
        self._send(Event(wire.EXPECT, {"pending": pending}))

    async def listen(self, pressed: bool = True) -> None:
        """Push-to-talk: the button went down, or up again (which ends the utterance at once).

        Raises:
            Unavailable: no voice process.
        """
        if self._outbound is None:
            raise Unavailable("no voice process")
        self._send(Event(wire.LISTEN, {"pressed": pressed}))

    def facts(self) -> Mapping[str, Any]:
        """State for people: ``hearing``, ``speaking``, ``pid``, ``starts`` and what the process tells of itself."""
        state = dict(self._state)
        return {
            **state,
            "hearing": bool(state.get("hearing")),
            "speaking": bool(state.get("synthesizer")),
            "pid": self._pid,
            "starts": self._starts,
        }

    def _send(self, event: Event) -> None:
        if self._outbound is not None:
            self._outbound.put_nowait(event)

    def _send_grammar(self, grammar: Grammar) -> None:
        self._send(wire.grammar_event(grammar))
        self._send(wire.prepare_event(self._prepared, grammar.language))


async def _write(outbound: asyncio.Queue[Event], writer: asyncio.StreamWriter) -> None:
    while True:
        await async_write_event(await outbound.get(), writer)


async def _end(process: asyncio.subprocess.Process) -> None:
    """End the process and reap it."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        try:
            async with asyncio.timeout(_END_WITHIN_S):
                await process.wait()
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
    if process.stdin is not None:
        process.stdin.close()
    await process.wait()
