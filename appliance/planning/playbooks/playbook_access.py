"""What of playbooks cannot be done by somebody whom they are for: tools and playbooks that need more than their ``access``. Pure.

Every step counts, an optional one as well: each time it is refused it would count as a denial of whoever asked. What needs more
because of its arguments (``writes: access`` of a tag) is not known here: it is refused when it is asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from appliance.contracts.principal import NOBODY, AccessLevel
from appliance.foundation.yaml_file import Fault
from appliance.planning.playbooks.playbook_steps import PlaybookStep, RunPlaybook, tool_of

if TYPE_CHECKING:
    from appliance.planning.playbooks.playbooks import Playbook


def access_faults(playbooks: Mapping[str, Playbook], levels: Mapping[str, AccessLevel]) -> Iterator[tuple[Playbook, Fault]]:
    """Yield each step that needs more than its playbook gives. ``levels``: what tools need, of those that are known here; nothing
    is said of others, which are no tools when they are called, either."""
    for playbook in playbooks.values():
        for step in playbook.steps:
            what, needed = _need(step, playbooks, levels)
            key, where = "access", f"its step {step.id} {what}, which needs {needed.word}"
            if needed > playbook.level:
                cure = f"Write `access: {needed.word}`, or leave the step out."
                yield playbook, (key, f"is {playbook.access}, and {where}", cure)
            elif playbook.triggers.faults and needed > NOBODY.level:
                said = f"{where}, and what an alarm has done is done as {NOBODY.level.word}"
                yield playbook, ("triggers.faults", said, "Leave the step out, or the faults.")


def _need(step: PlaybookStep, playbooks: Mapping[str, Playbook], levels: Mapping[str, AccessLevel]) -> tuple[str, AccessLevel]:
    """Return what a step does, and the level that needs."""
    if isinstance(step, RunPlaybook):
        other = playbooks.get(step.arguments.playbook)
        return f"runs {step.arguments.playbook}", AccessLevel.PUBLIC if other is None else other.level
    name = tool_of(step)
    return f"calls {name}", levels.get(name, AccessLevel.PUBLIC)
