"""What a process asks of the kernel about those that started it and those it started, so that nobody is left over."""

from __future__ import annotations

import ctypes
import signal

_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h


def signal_on_parents_death(how: signal.Signals) -> None:
    """Have the kernel send this process ``how`` when the thread that started it ends. A parent gone already is not noticed."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, how, 0, 0, 0)


def adopt_orphans() -> None:
    """Become the parent of whatever descendants lose theirs, instead of the system's first process."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
