"""Keeps what breaks from taking the rest with it: services are restarted with backoff, a turn or a tool ends with a fault.

The one file that catches every exception: what was caught is logged with its traceback, and named.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TypeVar

from appliance.contracts.clock import Clock
from appliance.contracts.errors import Corrupt, Fault, FloorhandError, OwnedElsewhere
from appliance.foundation.backoff import delays_s

log = logging.getLogger(__name__)

T = TypeVar("T")

_LONGEST_WHY = 300  # characters of what a fault says of itself

_RECOVERED_AFTER_S = 10.0  # a service that was started again and still runs after this is no longer called degraded
_STEADY_S = 60.0  # a service that ran this long has recovered: its backoff starts anew


@dataclass(slots=True)
class Degraded:
    """Named reasons why the appliance is less than whole; shown by status and health.

    ``listeners`` are told of each change on the event loop: the part, and why (empty when it is whole again).
    """

    reasons: dict[str, str] = field(default_factory=dict)
    listeners: list[Callable[[str, str], None]] = field(default_factory=list)

    def mark(self, part: str, why: str) -> None:
        """Say that ``part`` is degraded, and why. Logged once per change."""
        if self.reasons.get(part) != why:
            self.reasons[part] = why
            log.warning("degraded", extra={"part": part, "why": why})
            self._tell(part, why)

    def clear(self, part: str) -> None:
        """Say that ``part`` is whole again."""
        if self.reasons.pop(part, None) is not None:
            log.info("recovered", extra={"part": part})
            self._tell(part, "")

    def _tell(self, part: str, why: str) -> None:
        for listener in self.listeners:
            listener(part, why)


async def supervise(name: str, run: Callable[[], Awaitable[None]], clock: Clock, degraded: Degraded) -> None:
    """Run an optional service for ever. When it fails or returns, mark it, wait (0.5 s doubling to 30 s), start it again.

    Cancellation passes through. This is the one place that catches every exception of a service.
    """
    waits = delays_s(0.5, 30.0)
    while True:
        started_ns = clock.monotonic_ns()
        recovering = asyncio.get_running_loop().call_later(_RECOVERED_AFTER_S, degraded.clear, name)
        try:
            await run()
            why = "ended"
        except Exception as error:  # a supervisor catches what it supervises, and says so
            log.exception("service.failed", extra={"service": name})
            why = f"{type(error).__name__}: {error}"
        finally:
            recovering.cancel()
        if clock.monotonic_ns() - started_ns > _STEADY_S * 1e9:
            waits = delays_s(0.5, 30.0)
        degraded.mark(name, why)
        await asyncio.sleep(next(waits))


def why_of(error: BaseException) -> str:
    """Return what broke, on one short line, whatever the error is made of."""
    if isinstance(error, SystemExit):
        return "it ends the process that loads it"
    try:
        said = str(error)
    except Exception:  # noqa: BLE001 - another package's error may break while it is read
        said = "it cannot even say why"
    line = f"{type(error).__name__}: {' '.join(said.split())}"[:_LONGEST_WHY].rstrip(": ")
    return line.encode("utf-8", "replace").decode()  # half a surrogate can be stored nowhere


async def contained(work: Awaitable[T], *, passing: tuple[type[BaseException], ...] = (), is_foreign: bool = False) -> T:
    """Return what ``work`` returns; whatever breaks in its program is a fault.

    The errors of the contracts pass, and ``passing``; so does what ends a task or the process, unless it is the program of
    another package (``is_foreign``), which has to end neither. Of several errors at once one of ours passes.

    Raises:
        Fault: a mistake in the program; it was logged with its traceback.
    """
    passes: tuple[type[BaseException], ...] = (FloorhandError, asyncio.CancelledError, *passing)
    try:
        return await work
    except passes:
        raise
    except Exception as error:
        raise _passed_or_fault(error) from error
    except BaseException as error:
        if not is_foreign:
            raise
        raise _fault(error) from error


def contained_call(
    work: Callable[[], T], *, passing: tuple[type[BaseException], ...] = (), is_foreign: bool = False, is_known: bool = False
) -> T:
    """Do as :func:`contained` with a plain call. ``is_known``: it broke before, and the log has it."""
    passes: tuple[type[BaseException], ...] = (FloorhandError, asyncio.CancelledError, *passing)
    try:
        return work()
    except passes:
        raise
    except Exception as error:
        raise _passed_or_fault(error, is_known=is_known) from error
    except BaseException as error:
        if not is_foreign:
            raise
        raise _fault(error, is_known=is_known) from error


class Faults:
    """Mistakes in our own program that turns met: how many there were. The first makes the appliance degraded until it is started
    again, since nothing but another program mends it."""

    PART = "program"

    def __init__(self, degraded: Degraded) -> None:
        self.count = 0
        self._degraded = degraded

    async def contained(self, work: Awaitable[T], *, passing: tuple[type[BaseException], ...] = ()) -> T:
        """Do as :func:`contained`, and count."""
        try:
            return await contained(work, passing=passing)
        except Fault as fault:
            self.note(fault)
            raise

    def note(self, fault: Fault) -> None:
        """Count a fault that was met elsewhere, once."""
        if not fault.is_counted:
            fault.is_counted = True
            self.count += 1
            if self.PART not in self._degraded.reasons:
                self._degraded.mark(self.PART, f"a fault in the program ended a turn or a step; the log has it: {fault.why}")

    async def contained_in_call(self, call: Callable[[], Awaitable[T]]) -> T:
        """Do as :meth:`contained` with a tool's call, which may end in a ``TimeoutError`` as well. It is begun in here: a task
        that is cancelled before it runs leaves nothing behind."""
        return await self.contained(call(), passing=(TimeoutError,))


def _passed_or_fault(error: Exception, *, is_known: bool = False) -> BaseException:
    """Return the error of ours in a group of several, what ends the process first; a fault if there is none."""
    ours = _leaves(error, FloorhandError) if isinstance(error, ExceptionGroup) else []
    ours.sort(key=lambda each: not isinstance(each, OwnedElsewhere | Corrupt))
    return ours[0] if ours else _fault(error, is_known=is_known)


def _leaves(group: BaseExceptionGroup[BaseException], kind: type[BaseException]) -> list[BaseException]:
    found: list[BaseException] = []
    for each in group.exceptions:
        found += _leaves(each, kind) if isinstance(each, BaseExceptionGroup) else [each] if isinstance(each, kind) else []
    return found


def _fault(error: BaseException, *, is_known: bool = False) -> Fault:
    why = why_of(error)
    if not is_known:
        log.error("fault", extra={"why": why}, exc_info=error)
    return Fault(why)
