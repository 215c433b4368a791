"""What the person who started the demo sees while it runs."""

from __future__ import annotations

import time


class Progress:
    """Prints numbered chapters, notes and what was said, with seconds since the start."""

    def __init__(self) -> None:
        self._started_s = time.monotonic()
        self._chapter = 0
        self.shown: set[str] = set()

    @property
    def elapsed_s(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._started_s

    def chapter(self, title: str) -> None:
        """Begin the next chapter of the story."""
        self._chapter += 1
        print(f"\n[{self.elapsed_s:6.1f} s] {self._chapter}. {title}", flush=True)

    def note(self, text: str) -> None:
        """Say what was seen."""
        print(f"[{self.elapsed_s:6.1f} s]    {text}", flush=True)

    def said(self, who: str, text: str) -> None:
        """Show what a voice said."""
        print(f"[{self.elapsed_s:6.1f} s]    {who:>9}: {text}", flush=True)
