"""Delegation as a port (A5): bounded child tasks. Nothing implements it yet, since nobody needs it on one machine.

What an implementation has to keep: a child never has more access than its parent, it has a budget of its own, a stop of the
parent stops it even before it starts, and what it found comes back as new input, through admission, never as a result in the
parent's hands.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from appliance.contracts.principal import Principal


@dataclass(frozen=True, slots=True)
class ChildTask:
    """``principal`` is the parent's or lower; ``budget_s`` and ``budget_tokens`` are the child's own."""

    parent_turn_id: str
    goal: str
    principal: Principal
    budget_s: float
    budget_tokens: int


class Delegation(Protocol):
    """Hands tasks to others."""

    async def delegate(self, task: ChildTask) -> str:
        """Return the task's id once it is durable. Its outcome is admitted later, with this id.

        Raises:
            Refused: more access than the parent has, or too many children.
        """
        ...

    async def stop_children(self, parent_turn_id: str, reason: str) -> int:
        """Stop every child of a turn, begun or not; return how many."""
        ...
