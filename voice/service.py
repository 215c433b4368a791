"""The voice process put together: which part runs in which thread, and what each event from the core does.

    thread     owns
    main       the socket, this object
    ear        the microphone, wake word, endpointing, denoiser, recogniser
    mouth      the loudspeaker
    rendering  the synthesizers and the prepared audio

Threads talk back through ``emit``, which may be called from any of them.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Mapping
from typing import Any

from wyoming.event import Event
from wyoming.info import AsrProgram, Attribution, Describe, Info, TtsProgram, WakeProgram

from appliance.contracts.clock import Clock, IdSource
from appliance.contracts.errors import FloorhandError
from appliance.contracts.speech import Grammar
from appliance.version import VERSION
from voice import wire
from voice.dialogue import Floor
from voice.ear import Ear
from voice.half_duplex import HalfDuplex
from voice.listener import Listener
from voice.microphone import choose_microphone
from voice.mouth import Mouth, Speech
from voice.rendering import Rendering
from voice.settings import VoiceSettings
from voice.speaker import choose_speaker
from voice.transcriber import Transcriber, UnknownWord, load_transcriber

log = logging.getLogger(__name__)

PART = "recogniser"
_ATTRIBUTION = Attribution(name="Floorhand", url="")


class VoiceService:
    """Hears and speaks for one client."""

    def __init__(self, settings: VoiceSettings, clock: Clock, ids: IdSource, emit: Callable[[Event], None]) -> None:
        self._settings = settings
        self._clock = clock
        self._ids = ids
        self._emit = emit
        self._degraded: dict[str, str] = {}
        self._degraded_lock = threading.Lock()
        self._floor = Floor()
        self._half_duplex = HalfDuplex(settings.half_duplex_tail_ms)
        self._listener: Listener | None = None
        self._transcriber: Transcriber | None = None
        self._is_confirming = False
        self._loading = asyncio.Lock()
        self._rendering = Rendering(settings, self._report)
        self._speaker = choose_speaker(settings, clock, self._report)
        self._mouth = Mouth(
            settings, clock,
            floor=self._floor, half_duplex=self._half_duplex, rendering=self._rendering, speaker=self._speaker, emit=emit,
        )  # fmt: skip
        self._microphone = choose_microphone(settings, clock, self._half_duplex.is_open)
        self._ear = Ear(settings, clock, self._microphone, self._make_listener, self._report)

    def start(self) -> None:
        """Start the threads; each loads what it owns."""
        self._rendering.start()
        self._mouth.start()
        self._ear.start()

    def stop(self) -> None:
        """End the threads and give the devices back."""
        self._ear.stop()
        self._mouth.stop()
        self._rendering.stop()

    async def handle(self, event: Event) -> None:
        """Do what the core asks. Unknown events are ignored, as Wyoming has it."""
        data = event.data
        match event.type:
            case wire.PING:
                self._emit(Event(wire.PONG, {"text": data.get("text"), "state": self.state()}))
            case wire.SYNTHESIZE:
                self._mouth.say(self._speech(data))
            case wire.STOP:
                self._mouth.cut()
            case wire.EXPECT:
                self._is_confirming = bool(data["pending"])
                if self._listener is not None:
                    self._listener.expect(self._is_confirming)
            case wire.LISTEN:
                self._button(is_down=bool(data.get("pressed", True)))
            case wire.PREPARE:
                self._rendering.prepare(data["sentences"], data["language"])
            case wire.GRAMMAR:
                await self._load_grammar(wire.read_grammar(event))
            case _ if Describe.is_type(event.type):
                self._emit(self._info().event())

    def forget_client(self) -> None:
        """The core is gone: say no more for it."""
        self._mouth.cut()
        self._is_confirming = False
        if self._listener is not None:
            self._listener.expect(False)

    def state(self) -> Mapping[str, Any]:
        """What is heard, spoken and degraded now."""
        ear, listener = self._ear, self._listener
        with self._degraded_lock:
            degraded = dict(self._degraded)
        return {
            "hearing": ear.is_open and listener is not None and listener.is_ready,
            "dialogue": self._floor.state.value,
            "microphone": self._microphone.name,
            "frames_seen": ear.frames_seen,
            "frames_dropped": self._microphone.dropped,
            "ear_still_s": max(0.0, (self._clock.monotonic_ns() - ear.alive_mono_ns) / 1e9),
            "noise_dbfs": listener.noise_dbfs if listener is not None else None,
            "speaker": self._speaker.name,
            "recogniser": self._transcriber.engine if self._transcriber is not None else "",
            "synthesizer": self._rendering.engine,
            "prepared": self._rendering.prepared,
            "to_prepare": self._rendering.waiting_to_prepare,
            "degraded": degraded,
        }

    # ------------------------------------------------------------------------------------------------------------------
    def _report(self, part: str, why: str) -> None:
        with self._degraded_lock:
            if self._degraded.get(part, "") == why:
                return
            if why:
                self._degraded[part] = why
            else:
                self._degraded.pop(part, None)
        if why:
            log.warning("voice.degraded", extra={"part": part, "why": why})
        else:
            log.info("voice.recovered", extra={"part": part})

    def _make_listener(self) -> Listener:
        """Load what hears; runs in the ear's thread, which alone uses it."""
        from voice.denoise import choose_denoiser
        from voice.voice_activity import SileroDetector
        from voice.wake_word import MicroWakeWord

        listener = Listener(
            self._settings, self._clock, self._ids,
            floor=self._floor, half_duplex=self._half_duplex, wake_word=MicroWakeWord(self._settings),
            detector=SileroDetector(), denoiser=choose_denoiser(), emit=self._emit,
        )  # fmt: skip
        listener.expect(self._is_confirming)
        listener.use(self._transcriber)
        self._listener = listener
        return listener

    async def _load_grammar(self, grammar: Grammar) -> None:
        async with self._loading:
            try:
                transcriber = await asyncio.to_thread(load_transcriber, self._settings, grammar)
            except FloorhandError as error:
                self._report(PART, error.message)
                self._emit(wire.error_event(error.message, error.code, part=PART))
                return
            why = ""
            if transcriber.unknown:
                why = "these words cannot be heard: " + ", ".join(map(_with_alternatives, transcriber.unknown))
                unknown = [{"word": u.word, "alternatives": list(u.alternatives)} for u in transcriber.unknown]
                self._emit(wire.error_event(why, "config", part=PART, unknown_words=unknown))
            self._report(PART, why)
            self._transcriber = transcriber
            if self._listener is not None:
                self._listener.use(transcriber)

    def _button(self, *, is_down: bool) -> None:
        if self._listener is not None:
            (self._listener.press if is_down else self._listener.release)()

    def _speech(self, data: Mapping[str, Any]) -> Speech:
        language = (data.get("voice") or {}).get("language") or self._settings.language
        return Speech(
            delivery=str(data.get("delivery", "")),
            lead=str(data.get("lead") or ""),
            text=str(data["text"]),
            language=str(language),
            priority=int(data.get("priority", 0)),
        )

    def _info(self) -> Info:
        def described(name: str, what: str) -> dict[str, Any]:
            return {"name": name, "description": what, "attribution": _ATTRIBUTION, "installed": True, "version": VERSION}

        return Info(
            asr=[AsrProgram(**described("floorhand", "commands of this plant"), models=[])],
            tts=[TtsProgram(**described("floorhand", "this appliance's voice"), voices=[])],
            wake=[WakeProgram(**described("floorhand", self._settings.wake_word.model), models=[])],
        )


def _with_alternatives(unknown: UnknownWord) -> str:
    near = ", ".join(unknown.alternatives)
    return f"“{unknown.word}” (near: {near})" if near else f"“{unknown.word}”"
