"""What is left of a plan while the appliance is on hold (R10): nobody is asked "shall I?" for what would be refused. Pure."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import replace

from appliance.contracts.condition import condition_of
from appliance.contracts.plan import Plan
from appliance.store.step_names import without

_QUESTION = "ask"


def without_held(plan: Plan, held: Set[str]) -> Plan:
    """Return the plan without the steps that call a ``held`` tool, the questions that lead to them, and what depends on these."""
    gone = {step.id for step in plan.steps if step.tool in held}
    asked = {name for step in plan.steps if step.id in gone for name in condition_of(step.when).steps}
    questions = [step for step in plan.steps if step.tool == _QUESTION]
    leading = {step.id for step in questions if step.id in asked or step.arguments.get("approves") in gone}
    return replace(plan, steps=without(plan.steps, gone | leading))
