"""Which playbooks led to a step, as the ledger has it: what a caller says about it counts for nothing. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from appliance.contracts.plan import PLAYBOOK_SOURCE, Action, ActionState
from appliance.contracts.turn import Turn

_RUN_PLAYBOOK = "run_playbook"
"""The tool that adds the steps of a playbook."""


def followed(turn: Turn, steps: Sequence[Action], action_id: str) -> list[str]:
    """Return the names of the playbooks that led to a step, outermost first; ``steps`` are the turn's, with that one."""
    brought: dict[str, Action] = {}
    for step in steps:
        if step.tool == _RUN_PLAYBOOK and step.state is ActionState.DONE and step.result is not None:
            brought |= dict.fromkeys(step.result.get("steps", ()), step)  # none when only its beginning is kept
    at = next((step.step_id for step in steps if step.id == action_id), "")
    path: list[str] = []
    while (bringer := brought.pop(at, None)) is not None:  # each once: a damaged row may name itself
        path.insert(0, str((bringer.result or {})["playbook"]))
        at = bringer.step_id
    first = playbook_of(str((turn.plan or {}).get("source", "")))
    return [first, *path] if first else path


def playbook_of(source: str) -> str:
    """Return the playbook that a plan's source names, empty for none."""
    return source.removeprefix(PLAYBOOK_SOURCE).partition("@")[0] if source.startswith(PLAYBOOK_SOURCE) else ""
