"""The thread that owns the microphone: opens it, reads it, notices when it falls silent, and opens it again."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from appliance.contracts.clock import Clock
from appliance.contracts.errors import FloorhandError, Unavailable
from appliance.foundation.backoff import delays_s
from voice.listener import Listener
from voice.microphone import Microphone
from voice.settings import VoiceSettings

log = logging.getLogger(__name__)

PART = "microphone"


class Ear:
    """Runs a listener on a microphone. ``report(part, why)`` is told what is degraded; an empty ``why`` means whole again."""

    def __init__(
        self,
        settings: VoiceSettings,
        clock: Clock,
        microphone: Microphone,
        make_listener: Callable[[], Listener],
        report: Callable[[str, str], None],
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._microphone = microphone
        self._make_listener = make_listener
        self._report = report
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="ear", daemon=True)
        self.is_open = False
        self.frames_seen = 0
        self.last_seen_mono_ns = clock.monotonic_ns()
        self.alive_mono_ns = clock.monotonic_ns()

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread and give the device back."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(2.0)

    def _run(self) -> None:
        try:
            listener = self._make_listener()
        except FloorhandError as error:
            self._report(PART, error.message)
            return
        pauses = delays_s(self._settings.first_reopen_s, self._settings.longest_reopen_s)
        while not self._stopping.is_set():
            self.alive_mono_ns = self._clock.monotonic_ns()
            try:
                self._microphone.open()
            except Unavailable as error:
                self._report(PART, error.message)
                pause_s = max(next(pauses), error.retry_after_s if error.retry_after_s > 1.0 else 0.0)
                self._pause(pause_s)
                continue
            log.info("microphone.open", extra={"device": self._microphone.name})
            if self._listen(listener):
                pauses = delays_s(self._settings.first_reopen_s, self._settings.longest_reopen_s)
            self.is_open = False
            self._microphone.close()
            if not self._stopping.is_set():
                self._report(PART, f"{self._microphone.name} gives no sound")
                self._pause(next(pauses))

    def _pause(self, pause_s: float) -> None:
        """Wait before the next try. To wait is to be alive: the watchdog counts from the end of the pause."""
        self.alive_mono_ns = self._clock.monotonic_ns() + int(pause_s * 1e9)
        self._stopping.wait(pause_s)

    def _listen(self, listener: Listener) -> bool:
        """Read until told to stop or the device falls silent; return whether it ever gave a frame."""
        has_heard = False
        while not self._stopping.is_set():
            frame = self._microphone.read(self._settings.no_frames_s)
            self.alive_mono_ns = self._clock.monotonic_ns()
            if frame is None:
                log.warning("microphone.silent", extra={"device": self._microphone.name})
                return has_heard
            if not has_heard:
                has_heard = self.is_open = True
                self._report(PART, "")
            self.frames_seen += 1
            self.last_seen_mono_ns = frame.ended_mono_ns
            listener.hear(frame)
        return has_heard
