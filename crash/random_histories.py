"""Runs the random histories of :mod:`crash.machine`, few for the tests and many for ``make crash``."""

from __future__ import annotations

import logging
from collections.abc import Callable
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
    """Run random histories. ``ok``, ``histories`` at most tried, and of a fault its ``fault`` and the smallest ``history``."""
    how = QUICK if quick else FULL
    tell(f"{how.max_examples} random histories of up to {_STEPS} events")
    try:
        run(how)
    except _FAULTS as fault:
        history = "\n".join(getattr(fault, "__notes__", ()))
        tell(f"FAULT {fault}\n{history}")
        return {"ok": False, "histories": how.max_examples, "fault": str(fault), "history": history.splitlines()}
    return {"ok": True, "histories": how.max_examples}
