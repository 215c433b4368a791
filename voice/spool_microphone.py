"""A folder as microphone: WAV files put into it are heard, in real time, one after the other, and silence in between.

The oldest ``*.wav`` is taken as soon as the microphone would be heard (a worker waits for us to finish), played to its end
whatever happens meanwhile (a worker does not stop in the middle). It is renamed to ``*.wav.heard`` before its first frame: what
was said while this process died is not said again. What is not a WAV file is renamed to ``*.wav.refused``. Put files in by
renaming them, so that they are whole when they appear.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from pathlib import Path

from appliance.contracts.clock import Clock
from appliance.contracts.errors import Malformed, Unavailable
from appliance.contracts.speech import FRAME_BYTES, FRAME_MS
from voice.frames import Frame
from voice.wav_file import read_as_microphone

log = logging.getLogger(__name__)

_FRAME_NS = FRAME_MS * 1_000_000
_SILENCE = bytes(FRAME_BYTES)
_LATEST_NS = 500_000_000  # later than this the schedule starts anew, as a sound card that was stopped would
_LOOK_EVERY_FRAMES = 10  # looking into the folder 5 times a second is soon enough and costs nothing


class SpoolMicrophone:
    """Implements Microphone without a thread: ``read`` waits until the frame's time has come."""

    def __init__(self, folder: Path, clock: Clock, is_open: Callable[[int], bool]) -> None:
        self.name = f"folder {folder}"
        self.dropped = 0
        self._folder = folder
        self._clock = clock
        self._is_open = is_open
        self._pause = threading.Event()
        self._due_mono_ns = 0
        self._count = 0
        self._left = b""

    def open(self) -> None:
        """Start the schedule.

        Raises:
            Unavailable: the folder is not there.
        """
        if not self._folder.is_dir():
            raise Unavailable(f"the microphone's folder {self._folder} is not there")
        self._due_mono_ns = self._clock.monotonic_ns() + _FRAME_NS

    def read(self, timeout_s: float) -> Frame | None:
        """Return the frame that is due now."""
        late_ns = self._clock.monotonic_ns() - self._due_mono_ns
        if late_ns < 0:
            self._pause.wait(min(timeout_s, -late_ns / 1e9))
        elif late_ns > _LATEST_NS:
            self._due_mono_ns += late_ns
        ended_mono_ns = self._due_mono_ns
        self._due_mono_ns += _FRAME_NS
        return Frame(self._next(ended_mono_ns), ended_mono_ns)

    def close(self) -> None:
        """Nothing is held."""

    def _next(self, at_mono_ns: int) -> bytes:
        if not self._left:
            self._count += 1
            if self._count % _LOOK_EVERY_FRAMES or not self._is_open(at_mono_ns) or not self._take():
                return _SILENCE
        pcm, self._left = self._left[:FRAME_BYTES], self._left[FRAME_BYTES:]
        return pcm.ljust(FRAME_BYTES, b"\0")

    def _take(self) -> bool:
        """Take the oldest recording; return whether there is one."""
        waiting = sorted((_age_key(path), path) for path in self._folder.glob("*.wav"))
        for _, path in waiting:
            try:
                self._left = read_as_microphone(path)
            except Malformed as error:
                log.warning("microphone.file_refused", extra={"file": path.name, "why": error.message})
                self._set_aside(path, "refused")
                continue
            except OSError as error:
                log.warning("microphone.file_unreadable", extra={"file": path.name, "why": str(error)})
                continue
            self._set_aside(path, "heard")
            log.info("microphone.file", extra={"file": path.name, "seconds": round(len(self._left) / 32_000, 2)})
            return True
        return False

    def _set_aside(self, path: Path, how: str) -> None:
        try:
            path.rename(path.with_name(f"{path.name}.{how}"))
        except OSError as error:  # somebody took it away meanwhile: it will not be heard twice either way
            log.warning("microphone.file_gone", extra={"file": path.name, "why": str(error)})


def _age_key(path: Path) -> tuple[int, str]:
    try:
        return path.stat().st_mtime_ns, path.name
    except OSError:
        return 0, path.name
