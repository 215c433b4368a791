"""The thread that speaks: takes one delivery after the other, has it rendered, and plays it when the floor is ours."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass

from wyoming.event import Event

from appliance.contracts.admission import PRIORITY_ALARM
from appliance.contracts.clock import Clock
from appliance.contracts.errors import FloorhandError, Malformed
from appliance.foundation.backoff import delays_s
from voice import wire
from voice.dialogue import DialogueEvent, Floor
from voice.half_duplex import HalfDuplex
from voice.pronunciation import sentences
from voice.rendering import Rendering
from voice.settings import VoiceSettings
from voice.speaker import Speaker

log = logging.getLogger(__name__)

_RENDER_WITHIN_S = 30.0  # a sentence on the slowest machine, with the voice still being loaded


@dataclass(slots=True, eq=False)
class Speech:
    """One delivery to say. ``is_stopped`` is set from outside."""

    delivery: str
    lead: str
    text: str
    language: str
    priority: int
    is_stopped: bool = False


class Mouth:
    """Speaks deliveries in the order they come."""

    def __init__(
        self,
        settings: VoiceSettings,
        clock: Clock,
        *,
        floor: Floor,
        half_duplex: HalfDuplex,
        rendering: Rendering,
        speaker: Speaker,
        emit: Callable[[Event], None],
    ) -> None:
        self._clock = clock
        self._floor = floor
        self._half_duplex = half_duplex
        self._rendering = rendering
        self._speaker = speaker
        self._emit = emit
        self._longest_wait_s = settings.endpointing.hard_cap_s + settings.endpointing.silence_after_wake_s
        self._first_reopen_s, self._longest_reopen_s = settings.first_reopen_s, settings.longest_reopen_s
        self._queue: queue.Queue[Speech | None] = queue.Queue()
        self._unsaid: list[Speech] = []  # the one being said, and those in the queue
        self._thread = threading.Thread(target=self._run, name="mouth", daemon=True)

    @property
    def is_speaking(self) -> bool:
        """Whether a delivery is being said, or waits to be."""
        return bool(self._unsaid)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Fall silent and end the thread."""
        self.cut()
        self._queue.put(None)
        if self._thread.is_alive():
            self._thread.join(2.0)
        self._speaker.close()

    def say(self, speech: Speech) -> None:
        """Queue a delivery; how it went comes as ``played`` or ``error``."""
        self._unsaid.append(speech)
        self._queue.put(speech)

    def cut(self) -> None:
        """Stop what is being said and what waits. It counts as played: somebody who was there wanted no more of it."""
        for speech in list(self._unsaid):
            speech.is_stopped = True
        self._speaker.cut()

    def _next(self) -> Speech | None:
        """Wait for the next delivery; meanwhile look now and then for a loudspeaker that is missing."""
        waits = delays_s(self._first_reopen_s, self._longest_reopen_s)
        while True:
            try:
                return self._queue.get(timeout=None if self._speaker.is_whole else next(waits))
            except queue.Empty:
                self._speaker.probe()

    def _run(self) -> None:
        self._speaker.probe()
        while (speech := self._next()) is not None:
            first_mono_ns: list[int] = []
            try:
                self._speak(speech, first_mono_ns)
            except FloorhandError as error:
                self._fail(speech, error, may_have_played=bool(first_mono_ns))
            except TimeoutError:
                self._fail(speech, FloorhandError("the voice takes too long"), may_have_played=bool(first_mono_ns))
            finally:
                self._unsaid.remove(speech)

    def _speak(self, speech: Speech, first_mono_ns: list[int]) -> None:
        parts = sentences(speech.lead, speech.language) + sentences(speech.text, speech.language)
        if not parts:
            raise Malformed("there is nothing in it to say")
        self._speaker.begin()
        orders = [self._rendering.order(part, speech.language) for part in parts]
        orders[0].result(_RENDER_WITHIN_S)  # the microphone stays open until there is something to play
        self._floor.wait_for_ours(is_urgent=speech.priority >= PRIORITY_ALARM, timeout_s=self._longest_wait_s)
        self._half_duplex.begin_speaking(self._clock.monotonic_ns())
        try:
            for order in orders:
                if speech.is_stopped:
                    break
                for _ in self._speaker.play(order.result(_RENDER_WITHIN_S)):
                    if not first_mono_ns:
                        first_mono_ns.append(self._clock.monotonic_ns())
                        self._emit(Event(wire.FIRST_AUDIO, {"delivery": speech.delivery, "mono_ns": first_mono_ns[0]}))
                    if speech.is_stopped:
                        break
            self._speaker.drain()
        finally:
            for order in orders:
                order.cancel()
            finished_mono_ns = self._clock.monotonic_ns()
            self._half_duplex.end_speaking(finished_mono_ns)
            self._floor.offer(DialogueEvent.SPOKEN)
        self._emit(
            Event(
                wire.PLAYED,
                {
                    "delivery": speech.delivery,
                    "first_audio_mono_ns": first_mono_ns[0] if first_mono_ns else finished_mono_ns,
                    "finished_mono_ns": finished_mono_ns,
                    "is_cut": speech.is_stopped,
                },
            )
        )

    def _fail(self, speech: Speech, error: FloorhandError, *, may_have_played: bool) -> None:
        log.warning("voice.not_said", extra={"delivery": speech.delivery, "code": error.code, "why": error.message})
        may_have_played = may_have_played or bool(error.facts.get("may_have_played"))
        self._emit(wire.error_event(error.message, error.code, delivery=speech.delivery, may_have_played=may_have_played))
