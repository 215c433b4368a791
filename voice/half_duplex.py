"""The microphone hears nothing of our own speech: frames captured while we speak, and shortly after, are dropped (FC-V05)."""

from __future__ import annotations

import threading


class HalfDuplex:
    """Tells whether a frame captured at a given time is the room's or ours. All times are CLOCK_MONOTONIC ns."""

    def __init__(self, tail_ms: int) -> None:
        self._tail_ns = tail_ms * 1_000_000
        self._lock = threading.Lock()
        self._closed_from_mono_ns = 0
        self._closed_until_mono_ns: int | None = 0  # None: for as long as speech goes on

    def begin_speaking(self, at_mono_ns: int) -> None:
        """Close before the first sample of ours sounds."""
        with self._lock:
            if self._closed_until_mono_ns is not None and at_mono_ns > self._closed_until_mono_ns:
                self._closed_from_mono_ns = at_mono_ns
            self._closed_until_mono_ns = None

    def end_speaking(self, at_mono_ns: int) -> None:
        """Open again a tail after the last sample."""
        with self._lock:
            self._closed_until_mono_ns = at_mono_ns + self._tail_ns

    def is_open(self, at_mono_ns: int) -> bool:
        """Whether a frame that ended at ``at_mono_ns`` may be heard."""
        with self._lock:
            until_mono_ns = self._closed_until_mono_ns
            if until_mono_ns is None:
                return at_mono_ns < self._closed_from_mono_ns
            return at_mono_ns < self._closed_from_mono_ns or at_mono_ns >= until_mono_ns
