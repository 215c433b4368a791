"""The kernel's word that wall time was set: a timer that is cancelled by it (timerfd_create(2), TFD_TIMER_CANCEL_ON_SET)."""

from __future__ import annotations

import asyncio
import ctypes
import errno
import logging
import os

log = logging.getLogger(__name__)

_CLOCK_REALTIME = 0
_TFD_TIMER_ABSTIME, _TFD_TIMER_CANCEL_ON_SET = 1, 2  # linux/timerfd.h
_TFD_FLAGS = os.O_NONBLOCK | os.O_CLOEXEC  # TFD_NONBLOCK and TFD_CLOEXEC are these
_NEVER_S = 1 << 33  # the year 2242: before the kernel's last moment, after anything a clock is set to


class _Timespec(ctypes.Structure):
    _fields_ = (("tv_sec", ctypes.c_long), ("tv_nsec", ctypes.c_long))


class _Itimerspec(ctypes.Structure):
    _fields_ = (("it_interval", _Timespec), ("it_value", _Timespec))


class ClockSteps:
    """Waits for steps of wall time. Where the kernel cannot tell, :meth:`wait` waits for ever: who uses it looks now and then.

    Python has timerfd from 3.13 on, and without this flag; hence by the C library.
    """

    def __init__(self) -> None:
        self._descriptor = _open()

    @property
    def is_told(self) -> bool:
        """Whether the kernel tells."""
        return self._descriptor >= 0

    async def wait(self) -> None:
        """Return once wall time was set since the last call returned (or since this was made)."""
        if self._descriptor < 0:
            await asyncio.Event().wait()
        readable = asyncio.Event()
        loop = asyncio.get_running_loop()
        loop.add_reader(self._descriptor, readable.set)
        try:
            await readable.wait()
        finally:
            loop.remove_reader(self._descriptor)
        try:
            os.read(self._descriptor, 8)
        except OSError as error:  # ECANCELED is the news itself
            if error.errno not in (errno.ECANCELED, errno.EAGAIN):
                raise
        if not _arm(self._descriptor):
            log.warning("clock.steps_not_told", extra={"why": os.strerror(ctypes.get_errno())})
            self.close()

    def close(self) -> None:
        """Wait no more; again is harmless."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def _open() -> int:
    libc = _libc()
    if not hasattr(libc, "timerfd_create"):
        return -1
    descriptor: int = libc.timerfd_create(_CLOCK_REALTIME, _TFD_FLAGS)
    if descriptor >= 0 and not _arm(descriptor):
        os.close(descriptor)
        return -1
    return descriptor


def _arm(descriptor: int) -> bool:
    when = _Itimerspec(_Timespec(0, 0), _Timespec(_NEVER_S, 0))
    flags = _TFD_TIMER_ABSTIME | _TFD_TIMER_CANCEL_ON_SET
    # ECANCELED: the clock was set once more before this; the timer is armed all the same (timerfd_create(2), BUGS).
    return _libc().timerfd_settime(descriptor, flags, ctypes.byref(when), None) == 0 or ctypes.get_errno() == errno.ECANCELED


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)
