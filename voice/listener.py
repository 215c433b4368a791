"""From frames to utterances: waits for the wake word or the button, then follows one utterance to its end.

In: frames, in order, from one thread. Out: Wyoming events. It owns no thread and no device, so a recording can be played
through it as fast as the machine can.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Protocol

from wyoming.event import Event

from appliance.contracts.clock import Clock, IdSource
from appliance.contracts.speech import FRAME_MS, Utterance
from voice import wire
from voice.denoise import Denoiser
from voice.dialogue import DialogueEvent, DialogueState, Floor
from voice.endpointing import Endpointer, EndReason
from voice.frames import Frame
from voice.half_duplex import HalfDuplex
from voice.level import amplified, dbfs, power, snr_db, speech_level_dbfs
from voice.settings import VoiceSettings
from voice.transcriber import Hypothesis, Transcriber
from voice.voice_activity import VoiceActivity, VoiceDetector

_FLOOR_FRAMES = 3000 // FRAME_MS  # the level of the hall is told over the last 3 s
_BEFORE_FRAMES = 2000 // FRAME_MS  # the wake word takes one second, and the denoiser learns from the second before it
_PHRASE_FRAMES = 1000 // FRAME_MS  # the last second before the detection holds the wake word
_TARGET_DBFS = -16.2  # level of the wake word in the recordings the feature mean of the recogniser was measured on
_MOST_GAIN_DB = 20.0


class WakeWord(Protocol):
    """Hears one phrase."""

    phrase: str

    def hear(self, pcm: bytes) -> bool:
        """Return whether the phrase has just ended."""
        ...

    def forget(self) -> None:
        """Start anew."""
        ...


class Listener:
    """Hears one utterance at a time. ``expect``, ``press``, ``release`` and ``use`` may be called from other threads."""

    def __init__(
        self,
        settings: VoiceSettings,
        clock: Clock,
        ids: IdSource,
        *,
        floor: Floor,
        half_duplex: HalfDuplex,
        wake_word: WakeWord,
        detector: VoiceDetector,
        denoiser: Denoiser,
        emit: Callable[[Event], None],
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._ids = ids
        self._floor = floor
        self._half_duplex = half_duplex
        self._wake_word = wake_word
        self._activity = VoiceActivity(detector)
        self._denoiser = denoiser
        self._emit = emit
        self._before: deque[Frame] = deque(maxlen=_BEFORE_FRAMES)
        self._levels: deque[float] = deque(maxlen=_FLOOR_FRAMES)
        self._next_transcriber: Transcriber | None = None
        self._transcriber: Transcriber | None = None
        self._capture: _Capture | None = None
        self._gain_db = 0.0  # by the button nobody says the wake word: the gain of the last time it was said holds
        self._pressed = threading.Event()
        self._released = threading.Event()
        self.is_confirming = False
        self.is_ready = False

    # from other threads -----------------------------------------------------------------------------------------------
    def use(self, transcriber: Transcriber | None) -> None:
        """Recognise with this from the next utterance on; None when nothing can be recognised."""
        self._next_transcriber = transcriber
        self.is_ready = transcriber is not None

    def expect(self, is_confirming: bool) -> None:
        """Tell whether a yes/no question is open."""
        self.is_confirming = is_confirming

    def press(self) -> None:
        """Listen now, without the wake word."""
        self._released.clear()
        self._pressed.set()

    def release(self) -> None:
        """The button is up: what was said is complete."""
        self._released.set()

    @property
    def noise_dbfs(self) -> float | None:
        """Level of the hall over the last seconds, without those who speak (its quietest fifth)."""
        levels = sorted(self._levels)
        return dbfs(levels[len(levels) // 5]) if levels else None

    # from the ear -----------------------------------------------------------------------------------------------------
    def hear(self, frame: Frame) -> None:
        """Take the next frame."""
        if self._capture is not None and self._floor.state is not DialogueState.LISTENING:
            self._give_way(frame)
        if not self._half_duplex.is_open(frame.ended_mono_ns):
            self._before.clear()
            self._pressed.clear()
            return
        if self._capture is not None:
            self._follow(self._capture, frame)
            return
        self._levels.append(power(frame.pcm))
        self._before.append(frame)
        self._transcriber = self._next_transcriber
        by_word = self._wake_word.hear(frame.pcm)
        by_button = self._pressed.is_set()
        if (by_word or by_button) and self._transcriber is not None and self._floor.offer(DialogueEvent.WOKEN):
            self._pressed.clear()
            self._begin(self._transcriber, frame, by_button=by_button)
        elif by_word:
            self._wake_word.forget()

    def _begin(self, transcriber: Transcriber, frame: Frame, *, by_button: bool) -> None:
        name = "push-to-talk" if by_button else self._wake_word.phrase
        self._emit(Event(wire.DETECTION, {"name": name, "timestamp": frame.ended_mono_ns // 1_000_000}))
        self._wake_word.forget()
        self._activity.reset()
        capture = _Capture(
            transcriber, Endpointer(self._settings.endpointing, is_confirming=self.is_confirming), frame.ended_mono_ns, by_button
        )
        transcriber.begin(is_confirming=self.is_confirming)
        kept_ms = self._settings.button_pre_roll_ms if by_button else self._settings.wake_word.pre_roll_ms
        cleaned = self._denoiser.begin(earlier.pcm for earlier in self._before)
        if not by_button and (level_dbfs := speech_level_dbfs(cleaned[-_PHRASE_FRAMES:])) is not None:
            self._gain_db = max(-_MOST_GAIN_DB, min(_MOST_GAIN_DB, _TARGET_DBFS - level_dbfs))
        capture.gain_db = self._gain_db
        first_kept = len(self._before) - kept_ms // FRAME_MS
        for earlier, clean in list(zip(self._before, cleaned, strict=True))[max(0, first_kept) :]:
            capture.feed(earlier, clean)
        self._before.clear()
        self._capture = capture

    def _follow(self, capture: _Capture, frame: Frame) -> None:
        capture.feed(frame, self._denoiser.clean(frame.pcm))
        ended = EndReason.RELEASED if capture.by_button and self._released.is_set() else None
        for chunk in self._activity.hear(frame):
            had_begun = capture.endpointer.has_begun
            ended = ended or capture.endpointer.hear(chunk)
            capture.note_level(chunk.pcm, is_voiced=capture.endpointer.last_voiced_mono_ns == chunk.ended_mono_ns)
            if capture.endpointer.has_begun and not had_begun:
                self._emit(Event(wire.VOICE_STARTED, {"timestamp": chunk.ended_mono_ns // 1_000_000}))
        if ended is not None:
            self._end(capture, frame, ended)

    def _end(self, capture: _Capture, frame: Frame, why: EndReason) -> None:
        if not self._floor.offer(DialogueEvent.SPEECH_ENDED):
            return self._give_way(frame)
        spoken_until_mono_ns = capture.endpointer.last_voiced_mono_ns or frame.ended_mono_ns
        hypothesis = capture.transcriber.finish()
        if why is EndReason.SILENCE and not hypothesis.text and capture.endpointer.is_blip:
            self._floor.offer(DialogueEvent.TRANSCRIBED)
            if self._floor.offer(DialogueEvent.WOKEN):  # the end of the wake word, or a cough: the request is still to come
                capture.endpointer.begin_again()
                capture.transcriber.begin(is_confirming=self.is_confirming)
                return None
        if why is EndReason.NOTHING_SAID:
            hypothesis = Hypothesis("", None, hypothesis.facts)
        self._capture = None
        self._emit(Event(wire.VOICE_STOPPED, {"timestamp": spoken_until_mono_ns // 1_000_000, "why": why.value}))
        self._emit(wire.transcript_event(self._utterance(capture, hypothesis, why, spoken_until_mono_ns)))
        self._wake_word.forget()
        self._floor.offer(DialogueEvent.TRANSCRIBED)
        return None

    def _utterance(self, capture: _Capture, hypothesis: Hypothesis, why: EndReason, spoken_until_mono_ns: int) -> Utterance:
        return Utterance(
            id=self._ids.mint("ut"),
            text=hypothesis.text,
            language=capture.transcriber.language,
            engine=capture.transcriber.engine,
            confidence=hypothesis.confidence,
            wake_mono_ns=capture.woken_mono_ns,
            speech_ended_mono_ns=spoken_until_mono_ns,
            transcribed_mono_ns=self._clock.monotonic_ns(),
            facts={
                **hypothesis.facts,
                "end": why.value,
                "snr_db": snr_db(capture.voiced, capture.unvoiced),
                "speech_dbfs": dbfs(sum(capture.voiced) / len(capture.voiced)) if capture.voiced else None,
                "voiced_ms": capture.endpointer.voiced_ms,
                "by": "button" if capture.by_button else "wake word",
            },
        )

    def _give_way(self, frame: Frame) -> None:
        """Something urgent is being said: drop the utterance; a half heard one is worse than none."""
        capture, self._capture = self._capture, None
        if capture is not None:
            capture.transcriber.finish()
            self._wake_word.forget()
            why = EndReason.INTERRUPTED.value
            self._emit(Event(wire.VOICE_STOPPED, {"timestamp": frame.ended_mono_ns // 1_000_000, "why": why}))


class _Capture:
    """One utterance on its way: what it is recognised with, and the levels seen."""

    def __init__(self, transcriber: Transcriber, endpointer: Endpointer, woken_mono_ns: int, by_button: bool) -> None:
        self.transcriber = transcriber
        self.endpointer = endpointer
        self.woken_mono_ns = woken_mono_ns
        self.by_button = by_button
        self.voiced: list[float] = []
        self.unvoiced: list[float] = []
        self.gain_db = 0.0

    def feed(self, frame: Frame, clean: bytes) -> None:
        self.transcriber.feed(amplified(clean, self.gain_db) if self.transcriber.wants_denoised else frame.pcm)

    def note_level(self, pcm: bytes, *, is_voiced: bool) -> None:
        (self.voiced if is_voiced else self.unvoiced).append(power(pcm))
