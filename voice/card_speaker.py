"""A sound card as loudspeaker: opened once, fed from a buffer by PortAudio's callback, silence while there is nothing to say."""

from __future__ import annotations

import threading
from typing import Any

from appliance.contracts.errors import Unavailable
from voice import sound_cards
from voice.sound import Sound

_AHEAD_S = 0.15  # kept in the buffer: enough for a busy machine, short enough to fall silent at once
_STALLED_S = 2.0  # a card that took nothing for so long is gone


class CardSpeaker:
    """Implements Output on PortAudio. The callback copies and returns; it never waits."""

    def __init__(self, device: str) -> None:
        self.name = device or "default sound card"
        self._device = device
        self._stream: Any = None
        self._rate_hz = 0
        self._buffer = bytearray()
        self._lock = threading.Lock()
        self._taken = threading.Event()
        sound_cards.register("output", self._suspend)

    def fit(self, sound: Sound) -> Sound:
        """Open the card if it is closed; return the sound at its rate.

        Raises:
            Unavailable: no such device now, or it is in use.
        """
        if self._stream is None:
            self._open()
        return sound.at(self._rate_hz)

    def play(self, piece: Sound) -> None:
        """Put a piece into the buffer and wait until the buffer runs low.

        Raises:
            Unavailable: the card has stopped taking sound.
        """
        with self._lock:
            self._buffer += piece.pcm
        self._wait_until_below(int(_AHEAD_S * self._rate_hz) * 2)

    def drain(self) -> None:
        """Wait until the card has taken the last sample.

        Raises:
            Unavailable: it has stopped taking sound.
        """
        self._wait_until_below(1)

    def cut(self) -> None:
        """Empty the buffer."""
        with self._lock:
            self._buffer.clear()
        self._taken.set()

    def close(self) -> None:
        """Give the card back."""
        if self._stream is not None:
            stream, self._stream = self._stream, None
            sound_cards.close_stream(stream)

    def _open(self) -> None:
        sound_cards.refresh()
        index, name, self._rate_hz = sound_cards.find("output", self._device)

        def wanted(out: Any, frames: int, time: Any, status: Any) -> None:
            with self._lock:  # held for microseconds by the other side
                piece = bytes(self._buffer[: len(out)])
                del self._buffer[: len(out)]
            out[:] = piece.ljust(len(out), b"\0")
            self._taken.set()

        self._stream = sound_cards.open_stream(
            lambda sounddevice: sounddevice.RawOutputStream(
                samplerate=self._rate_hz, device=index, channels=1, dtype="int16", callback=wanted
            )
        )
        self.name = name

    def _wait_until_below(self, size: int) -> None:
        while True:
            self._taken.clear()
            with self._lock:
                if len(self._buffer) < size or not self._buffer:
                    return
            if not self._taken.wait(_STALLED_S):
                self.cut()
                self.close()
                raise Unavailable(f"{self.name} takes no sound", may_have_played=True)

    def _suspend(self) -> bool:
        with self._lock:
            is_idle = not self._buffer
        if is_idle:
            self.close()
        return is_idle
