"""The voice process ends with the core, however the core ends: an orphan would hold the sound card."""

from __future__ import annotations

import os
import signal
import sys
import threading

from appliance.foundation.parent import signal_on_parents_death


def die_with_parent(parent_pid: int) -> None:
    """End with SIGKILL when the parent dies; end also when the other end of standard input is closed.

    The kernel's signal is tied to the thread that started us; the pipe is not, and holds when the signal is lost.
    """
    signal_on_parents_death(signal.SIGKILL)
    if os.getppid() != parent_pid:  # it died before we asked
        os._exit(0)
    threading.Thread(target=_wait_for_end_of_input, name="parent", daemon=True).start()


def _wait_for_end_of_input() -> None:
    while os.read(sys.stdin.fileno(), 4096):
        pass
    os._exit(0)
