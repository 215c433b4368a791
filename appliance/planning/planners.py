"""The ways to plans, tried in order (A1): each says what it makes of an utterance, or leaves it to the next.

    phrases and playbooks    what was said is one of the sentences we know
    examples                 it is near one that people labelled (``examples.py``)
    a model                  if there is one
    not understood           says so

In: what was asked, by whom. Out: a plan, which the caller checks, has approved and stores. Nothing is done here.
"""

from __future__ import annotations

from collections.abc import Sequence

from appliance.contracts.errors import Refused
from appliance.contracts.plan import Intent, Plan
from appliance.contracts.planning import Asked, PlanMaker, needing
from appliance.planning.answers import needed_for
from appliance.planning.planner import Planner
from appliance.planning.playbooks.asked_for import RUN

NOT_UNDERSTOOD = "not_understood"
"""Name of the intent of words that no phrase matches."""


class Planners:
    """Asks the makers one after the other. The first that has something to say is the one that is heard."""

    def __init__(self, makers: Sequence[PlanMaker]) -> None:
        """``makers``: the last one should answer everything, as :class:`NotUnderstood` does."""
        self._makers = tuple(makers)

    async def plan(self, asked: Asked) -> Plan | None:
        """Return the first plan there is; None when nobody has one, which for a plan that goes on means that it is done.

        Raises:
            Refused: understood, and it will not be done; the message is the sentence to say.
            Malformed: a planner made something that is no plan.
        """
        for maker in self._makers:
            plan = await maker.plan(asked)
            if plan is not None:
                return plan
        return None


class PhrasePlanner:
    """Phrases and playbooks: deterministic, and without anything that could be away."""

    def __init__(self, planner: Planner) -> None:
        self._planner = planner

    async def plan(self, asked: Asked) -> Plan | None:
        """Return the plan of a sentence we know. A playbook above the asker's level is a sentence nobody knows (T3).

        Raises:
            Refused: it will not be done; the message is the sentence to say, and it names the tools it would have needed.
            Malformed: a language without phrases.
        """
        intent = asked.intent
        if intent.name == NOT_UNDERSTOOD or asked.earlier:
            return None
        if "playbook" in intent.slots:
            level, language = asked.principal.level, intent.language
            try:
                self._planner.procedures.find(str(intent.slots["playbook"]), language, level)
            except Refused as refused:
                needing(refused, (intent.name,))
                asked.passed_over.append(refused)
                return None
        try:
            return self._planner.plan(intent, asked.facts, asked.principal.level)
        except Refused as refused:
            needing(refused, self._needed(intent, refused))
            raise

    @staticmethod
    def _needed(intent: Intent, refused: Refused) -> tuple[str, ...]:
        """Return the tools it would have needed. A playbook is refused as a whole, or for what one of its writes would write."""
        if intent.name != RUN:
            return needed_for(intent.name)
        refused.facts["playbook"] = str(intent.slots["playbook"])
        return ("write_tag",) if "tag" in refused.facts else (RUN,)


class NotUnderstood:
    """The last one: says that it was not understood."""

    def __init__(self, planner: Planner) -> None:
        self._planner = planner

    async def plan(self, asked: Asked) -> Plan | None:
        """Return the plan that says so; None for one that goes on, whose asker has been understood.

        Raises:
            Malformed: a language without phrases.
        """
        if asked.earlier:
            return None
        intent = asked.intent
        plain = type(intent)(NOT_UNDERSTOOD, intent.language, intent.text)
        return self._planner.plan(plain, asked.facts, asked.principal.level)
