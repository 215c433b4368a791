"""A sound card as microphone: opened once at its own rate, resampled once, outside the callback."""

from __future__ import annotations

from typing import Any

import numpy as np

from appliance.contracts.clock import Clock
from appliance.contracts.speech import FRAME_BYTES, FRAME_MS, SAMPLE_RATE_HZ
from voice import sound_cards
from voice.frames import Frame, FrameQueue

_QUEUED_FRAMES = 250  # 5 s: as long as the ear may be busy with something else
_NS_PER_BYTE = FRAME_MS * 1_000_000 // FRAME_BYTES


class CardMicrophone:
    """Implements Microphone on PortAudio. The callback copies and returns; it never waits."""

    def __init__(self, device: str, clock: Clock) -> None:
        self.name = device or "default sound card"
        self._device = device
        self._clock = clock
        self._raw = FrameQueue(_QUEUED_FRAMES)
        self._stream: Any = None
        self._resampler: Any = None
        self._pending = b""
        sound_cards.register("input", self._suspend)

    @property
    def dropped(self) -> int:
        """Blocks of the device that nobody was in time for."""
        return self._raw.dropped

    def open(self) -> None:
        """Find the device by name in a fresh list and start it.

        Raises:
            Unavailable: not there, in use, or PortAudio is missing.
        """
        self.close()
        sound_cards.refresh()
        index, name, rate_hz = sound_cards.find("input", self._device)
        self._raw = FrameQueue(_QUEUED_FRAMES)
        self._pending = b""
        self._resampler = None
        if rate_hz != SAMPLE_RATE_HZ:
            import soxr

            self._resampler = soxr.ResampleStream(rate_hz, SAMPLE_RATE_HZ, 1, dtype="int16")
        queue, clock = self._raw, self._clock

        def heard(data: Any, frames: int, time: Any, status: Any) -> None:
            queue.put(Frame(bytes(data), clock.monotonic_ns()))

        self._stream = sound_cards.open_stream(
            lambda sounddevice: sounddevice.RawInputStream(
                samplerate=rate_hz, blocksize=rate_hz * FRAME_MS // 1000, device=index, channels=1, dtype="int16", callback=heard
            )
        )
        self.name = name

    def read(self, timeout_s: float) -> Frame | None:
        """Return the next 20 ms at 16 kHz."""
        while len(self._pending) < FRAME_BYTES:
            block = self._raw.get(timeout_s)
            if block is None:
                return None
            self._pending += block.pcm if self._resampler is None else self._resampled(block.pcm)
            self._ended_mono_ns = block.ended_mono_ns
        pcm, self._pending = self._pending[:FRAME_BYTES], self._pending[FRAME_BYTES:]
        return Frame(pcm, self._ended_mono_ns - len(self._pending) * _NS_PER_BYTE)

    def close(self) -> None:
        """Give the card back."""
        if self._stream is not None:
            stream, self._stream = self._stream, None
            sound_cards.close_stream(stream)

    def _resampled(self, pcm: bytes) -> bytes:
        return bytes(self._resampler.resample_chunk(np.frombuffer(pcm, dtype="<i2")).astype("<i2").tobytes())

    def _suspend(self) -> bool:
        return self._stream is None
