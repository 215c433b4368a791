"""A plan is data: steps with dependencies and conditions, made before anything runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

MODEL_SOURCE, PLAYBOOK_SOURCE, PHRASE_SOURCE = "model:", "playbook:", "phrase:"
"""How the sources of plans begin: whoever made them."""


class ActionState(StrEnum):
    """State of an action node. WAITING is a question not yet answered; SKIPPED had a false condition."""

    PENDING = "pending"
    STARTED = "started"
    WAITING = "waiting"
    DONE = "done"
    SKIPPED = "skipped"
    FAILED = "failed"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Step:
    """One call of a tool.

    ``arguments`` may hold templates ``{alarm.value}`` or ``{steps.log.count}``, resolved when the step runs.
    ``when`` names a step whose result decides: ``confirm`` runs only if step ``confirm`` was answered yes,
    ``not confirm`` only if answered no, ``log.count > 0`` only if that holds of the field of a step's result. ``optional`` steps
    may fail without failing the turn.

    ``after`` names steps it needs besides those its ``when`` and its templates name; steps that need nothing of each other may
    run at the same time. ``expects`` says the effect that is wanted, in words ("fan speed of motor 3 is 80 percent").
    """

    id: str
    tool: str
    arguments: Mapping[str, Any]
    when: str = ""
    optional: bool = False
    after: tuple[str, ...] = ()
    expects: str = ""


@dataclass(frozen=True, slots=True)
class Plan:
    """Ordered steps. ``source`` is ``phrase:NAME``, ``playbook:NAME@COMMIT``, ``example:INTENT`` or ``model:PROVIDER/MODEL``;
    ``estimate_s`` is their summed bound. ``goes_on``: whoever made it wants to see the results and may add steps."""

    intent: str
    source: str
    steps: tuple[Step, ...]
    estimate_s: float = 0.0
    goes_on: bool = False

    def to_json(self) -> dict[str, Any]:
        """Return the stored form."""
        return asdict(self)

    @staticmethod
    def from_json(stored: Mapping[str, Any]) -> Plan:
        """Rebuild a plan from :meth:`to_json`."""
        steps = tuple(Step(**{**s, "after": tuple(s.get("after", ()))}) for s in stored["steps"])
        return Plan(stored["intent"], stored["source"], steps, stored.get("estimate_s", 0.0), stored.get("goes_on", False))


@dataclass(frozen=True, slots=True)
class Intent:
    """What an utterance means. ``slots`` are list values (``tag`` -> ``motor_3.temperature``), not words."""

    name: str
    language: str
    text: str
    slots: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Action:
    """A step of a turn as stored: addressable, with its own state and result."""

    id: str
    turn_id: str
    position: int
    step_id: str
    tool: str
    arguments: Mapping[str, Any]
    when: str
    optional: bool
    state: ActionState
    result: Mapping[str, Any] | None
    after: tuple[str, ...] = ()
    expects: str = ""

    def become(self, state: ActionState, result: Mapping[str, Any] | None = None) -> Action:
        """Return it in another state; a result it has is kept when none is given."""
        kept = self.result if result is None else result
        return Action(  # every step does this twice, and ``replace`` takes four times as long
            self.id, self.turn_id, self.position, self.step_id, self.tool, self.arguments, self.when, self.optional, state, kept,
            self.after, self.expects,
        )  # fmt: skip
