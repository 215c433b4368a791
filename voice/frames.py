"""Frames: what every source of sound is cut into, and the bounded queue they wait in."""

from __future__ import annotations

import queue
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Frame:
    """20 ms of 16 kHz mono s16le, and when its last sample was captured (CLOCK_MONOTONIC ns)."""

    pcm: bytes
    ended_mono_ns: int


class FrameQueue:
    """Between a device and the ear. When the ear is late the newest frame is dropped and counted: a device never waits."""

    def __init__(self, capacity: int) -> None:
        self._queue: queue.Queue[Frame] = queue.Queue(capacity)
        self.dropped = 0
        self.seen = 0

    def put(self, frame: Frame) -> None:
        """Hand a frame over without ever waiting."""
        self.seen += 1
        try:
            self._queue.put_nowait(frame)
        except queue.Full:
            self.dropped += 1

    def get(self, timeout_s: float) -> Frame | None:
        """Return the next frame, or None when none came in time."""
        try:
            return self._queue.get(timeout=timeout_s)
        except queue.Empty:
            return None
