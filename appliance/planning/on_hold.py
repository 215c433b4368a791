"""What is left of a plan while the appliance is on hold (R10): nobody is asked "shall I?" for what would be refused. Pure."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import replace

from appliance.contracts.plan import Plan, Step

_NOT = "not "
_QUESTION = "ask"


def without_held(plan: Plan, held: Set[str]) -> Plan:
    """Return the plan without the steps that call a ``held`` tool, the questions that lead to them, and what depends on these."""
    gone: set[str] = set()
    for step in plan.steps:
        if step.tool in held:
            gone.add(step.id)
            gone |= {asking.id for asking in plan.steps if asking.tool == _QUESTION and asking.id == _asked(step)}
    kept: list[Step] = []
    for step in plan.steps:
        if step.id in gone or _asked(step) in gone or _reads(step, gone):
            gone.add(step.id)
        else:
            kept.append(step)
    return replace(plan, steps=tuple(kept))


def _asked(step: Step) -> str:
    return step.when.removeprefix(_NOT)


def _reads(step: Step, gone: Set[str]) -> bool:
    text = repr(step.arguments)
    return any(f"{{steps.{name}." in text for name in gone)
