"""What a child process asks of the kernel so that it does not outlive whoever started it."""

from __future__ import annotations

import ctypes
import signal

_PR_SET_PDEATHSIG = 1  # linux/prctl.h


def signal_on_parents_death(how: signal.Signals) -> None:
    """Have the kernel send this process ``how`` when the thread that started it ends. A parent gone already is not noticed."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, how, 0, 0, 0)
