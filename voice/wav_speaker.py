"""A WAV file as loudspeaker: grows in real time, is a valid file after every piece, and goes on after a restart."""

from __future__ import annotations

import logging
import threading
import wave
from pathlib import Path
from typing import BinaryIO

from appliance.contracts.clock import Clock
from appliance.contracts.errors import Unavailable
from voice.sound import Sound

log = logging.getLogger(__name__)

RATE_HZ = 22_050  # of Piper's medium voices: what is spoken most is kept as it was rendered
_HEADER_BYTES = 44  # RIFF, fmt and the head of data, as the wave module writes them for PCM
_RIFF_SIZE_AT, _DATA_SIZE_AT = 4, 40


class WavSpeaker:
    """Implements Output. Its pace is the clock's, so that a receipt means the same as with a sound card."""

    def __init__(self, path: Path, clock: Clock, *, limit_bytes: int) -> None:
        self.name = f"file {path}"
        self._path = path
        self._clock = clock
        self._limit_bytes = limit_bytes
        self._file: BinaryIO | None = None
        self._cut = threading.Event()
        self._played_until_mono_ns = 0

    def fit(self, sound: Sound) -> Sound:
        """Return it at the file's rate."""
        return sound.at(RATE_HZ)

    def play(self, piece: Sound) -> None:
        """Append a piece, then wait until the one before it is over.

        Raises:
            Unavailable: the file cannot be written.
        """
        try:
            file = self._opened()
            end = file.seek(0, 2)
            file.write(piece.pcm)
            _write_sizes(file, end + len(piece.pcm))
            file.flush()
        except OSError as error:
            self.close()
            raise Unavailable(f"speech cannot be recorded to {self._path}: {error}") from error
        now_mono_ns = self._clock.monotonic_ns()
        if self._played_until_mono_ns < now_mono_ns:
            self._cut.clear()  # a new beginning: what was cut before is over
        wait_ns = self._played_until_mono_ns - now_mono_ns  # the piece before this one is still sounding
        self._played_until_mono_ns = max(now_mono_ns, self._played_until_mono_ns) + int(piece.seconds * 1e9)
        if wait_ns > 0:
            self._cut.wait(wait_ns / 1e9)

    def drain(self) -> None:
        """Wait for the end of the last piece."""
        left_ns = self._played_until_mono_ns - self._clock.monotonic_ns()
        if left_ns > 0:
            self._cut.wait(left_ns / 1e9)
        self._cut.clear()

    def cut(self) -> None:
        """Stop waiting. The piece that was begun stays in the file: it was begun to be heard."""
        self._played_until_mono_ns = 0
        self._cut.set()

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _opened(self) -> BinaryIO:
        if self._file is not None and self._file.tell() > self._limit_bytes:
            self.close()
            self._path.replace(self._path.with_suffix(".old.wav"))
        if self._file is None:
            if self._path.exists() and not _can_go_on(self._path):
                log.warning("speaker.file_set_aside", extra={"file": self._path.name})
                self._path.replace(self._path.with_suffix(".old.wav"))
            if not self._path.exists():
                self._path.parent.mkdir(parents=True, exist_ok=True)
                _write_empty(self._path)
            self._file = self._path.open("r+b", buffering=0)
            whole = (self._file.seek(0, 2) - _HEADER_BYTES) // 2 * 2 + _HEADER_BYTES
            self._file.truncate(whole)  # a piece that a power cut left half written ends between two samples
            self._file.seek(whole)
        return self._file


def _write_sizes(file: BinaryIO, total: int) -> None:
    for at, size in ((_RIFF_SIZE_AT, total - 8), (_DATA_SIZE_AT, total - _HEADER_BYTES)):
        file.seek(at)
        file.write(size.to_bytes(4, "little"))
    file.seek(total)


def _write_empty(path: Path) -> None:
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(RATE_HZ)
        file.writeframes(b"")


def _can_go_on(path: Path) -> bool:
    """Whether it is one of ours: mono, 16 bit, our rate, with the plain header."""
    try:
        with wave.open(str(path), "rb") as file, path.open("rb") as raw:
            is_plain = raw.read(_HEADER_BYTES)[36:40] == b"data"
            return is_plain and (file.getnchannels(), file.getsampwidth(), file.getframerate()) == (1, 2, RATE_HZ)
    except (wave.Error, EOFError):
        return False
