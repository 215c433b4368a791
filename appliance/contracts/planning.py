"""What a planner is asked, and the one Protocol behind which they are tried in order (A1)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from appliance.contracts.plan import Action, Intent, Plan
from appliance.contracts.principal import NOBODY, Principal
from appliance.contracts.tool import ToolContract


@dataclass(frozen=True, slots=True)
class Asked:
    """What a plan is wanted for.

    ``intent`` is what the phrases took the words for (``not_understood`` when they know none); its ``text`` is what was said.
    ``facts`` is what planning may need besides: ``last_said``, ``pending``, ``online``. ``tools`` are those the asker may see: no
    planner learns of others (T3). ``earlier`` are the steps done so far when a plan that goes on is to be continued.
    """

    intent: Intent
    facts: Mapping[str, Any] = field(default_factory=dict)
    principal: Principal = NOBODY
    tools: Mapping[str, ToolContract] = field(default_factory=dict)
    session_id: str = ""
    turn_id: str = ""
    is_unattended: bool = False
    earlier: tuple[Action, ...] = ()


class PlanMaker(Protocol):
    """A way to plans."""

    async def plan(self, asked: Asked) -> Plan | None:
        """Return the plan, or None when this planner has nothing to say to it and the next is to be asked. Nothing is done yet.

        Raises:
            Refused: understood, and it will not be done; the message is the sentence to say. No other planner is asked.
            Malformed: the plan it made is none.
        """
        ...


class PlanGate(Protocol):
    """Looks at a plan before it is stored, so that nobody is asked to confirm what would be refused (X2)."""

    async def prepare(self, plan: Plan, asked: Asked) -> Plan:
        """Return the plan with a question before each step that needs a person's yes and has none.

        Raises:
            Refused: a step it cannot do without would be refused; the message is the sentence to say.
        """
        ...
