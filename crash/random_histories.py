"""Runs the random histories of :mod:`crash.machine`, few for the tests and many for ``make crash``."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any

from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from appliance.contracts.errors import FloorhandError
from crash.machine import RuntimeMachine

_STEPS = 20
_FAULTS = (AssertionError, FloorhandError, TimeoutError, ExceptionGroup)
"""What a history may break with; anything else is a mistake of the campaign."""

QUICK = settings(
    max_examples=80, stateful_step_count=_STEPS, deadline=None, database=None, derandomize=True, print_blob=False,
    suppress_health_check=list(HealthCheck), phases=[Phase.generate, Phase.shrink],
)  # fmt: skip
"""The same histories each time."""
FULL = settings(QUICK, max_examples=600, derandomize=False)
"""Others each time."""


def run(how: settings, machine: type[RuntimeMachine] = RuntimeMachine) -> None:
    """Run histories; the smallest one that shows a fault is raised."""
    was_disabled = logging.root.manager.disable
    logging.disable(logging.CRITICAL)  # what goes wrong here goes wrong on purpose
    try:
        run_state_machine_as_test(machine, settings=how)
    finally:
        logging.disable(was_disabled)


def campaign(quick: bool, tell: Callable[[str], None]) -> dict[str, Any]:
    """Run random histories. ``ok``, ``histories`` at most tried, and ``faults``: each with the smallest ``history`` that shows
    it.

    One that did not come to rest in time is no less a failure of the campaign, but named for what it is: on a busy machine nobody
    can tell whether the product hung.
    """
    how = QUICK if quick else FULL
    tell(f"{how.max_examples} random histories of up to {_STEPS} events")
    try:
        run(how)
    except _FAULTS as fault:
        found = list(each_fault(fault))
        for each in found:
            tell("\n".join([each["fault"], *each["history"]]))
        return {"ok": False, "histories": how.max_examples, "faults": found}
    return {"ok": True, "histories": how.max_examples}


def each_fault(fault: BaseException) -> Iterator[dict[str, Any]]:
    """Yield every fault of what was raised, however deep in groups, with its own notes: Hypothesis puts the history there."""
    notes = "\n".join(getattr(fault, "__notes__", ())).splitlines()
    if isinstance(fault, BaseExceptionGroup):
        if notes:
            yield {"fault": f"of {fault}", "history": notes}
        for each in fault.exceptions:
            yield from each_fault(each)
    elif isinstance(fault, TimeoutError):
        yield {"fault": f"TOO SLOW TO TELL: it did not come to rest in time: it hung, or the machine is busy {fault}".rstrip(),
               "history": notes}  # fmt: skip
    else:
        yield {"fault": f"FAULT {type(fault).__name__}: {fault}", "history": notes}
