"""What a planner is asked, and the one Protocol behind which they are tried in order (A1)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from appliance.contracts.errors import Refused
from appliance.contracts.plan import Action, Intent, Plan, Step
from appliance.contracts.principal import NOBODY, Principal
from appliance.contracts.tool import ToolContract


@dataclass(frozen=True, slots=True)
class Asked:
    """What a plan is wanted for.

    ``intent`` is what the phrases took the words for (``not_understood`` when they know none); its ``text`` is what was said.
    ``facts`` is what planning may need besides: ``last_said``, ``pending``, ``online``. ``tools`` are those the asker may see: no
    planner learns of others (T3). ``earlier`` are the steps done so far when a plan that goes on is to be continued.
    ``passed_over`` is what planners found and will not do, and said nothing of since the next one was asked: whoever keeps the
    records takes it from there.
    """

    intent: Intent
    facts: Mapping[str, Any] = field(default_factory=dict)
    principal: Principal = NOBODY
    tools: Mapping[str, ToolContract] = field(default_factory=dict)
    session_id: str = ""
    turn_id: str = ""
    is_unattended: bool = False
    earlier: tuple[Action, ...] = ()
    passed_over: list[Refused] = field(default_factory=list)


_NEEDED = "needed"


def needing(refused: Refused, tools: Sequence[str]) -> None:
    """Name in a planner's refusal the tools without which it could not be done anyway."""
    refused.facts[_NEEDED] = tuple(tools)


def needed_by(refused: Refused) -> tuple[str, ...]:
    """Return the tools that :func:`needing` named."""
    tools = refused.facts.get(_NEEDED)
    return tools if isinstance(tools, tuple) else ()


class PlanMaker(Protocol):
    """A way to plans."""

    async def plan(self, asked: Asked) -> Plan | None:
        """Return the plan, or None when this planner has nothing to say to it and the next is to be asked. Nothing is done yet.

        Raises:
            Refused: understood, and it will not be done; the message is the sentence to say. No other planner is asked. It
                may name the tools that doing it would have needed (:func:`needing`).
            Malformed: the plan it made is none.
        """
        ...


class PlanGate(Protocol):
    """Looks at a plan before it is stored, so that nobody is asked to confirm what would be refused (X2)."""

    async def require_visible(self, steps: Iterable[Step], asked: Asked, source: str = "") -> None:
        """Note and refuse what needs a tool above the asker's level, before anything is told of what it is about (T3).

        Raises:
            Refused: in the words for a tool that is not there.
        """
        ...

    async def note_refused(self, refused: Refused, asked: Asked, steps: Iterable[Step] = ()) -> None:
        """Note what is refused before there is a plan to look at: ``steps``, or the tools that a planner named. What would only
        have told something leaves no record."""
        ...

    async def prepare(self, plan: Plan, asked: Asked) -> Plan:
        """Return the plan with a question before each step that needs a person's yes and has none.

        Raises:
            Refused: a step it cannot do without would be refused; the message is the sentence to say.
        """
        ...
