"""A person's yes, bound to exactly one call: which question was about it, who answered, and whether that suffices.

An ``ask`` step carries ``approves`` (the id of the step it is for), ``digest`` (of that step's tool and stored arguments),
``needs_code`` and ``level``. Only our own code makes such steps. A yes to anything else, by somebody whose level is too low, or
without the code that was read out, is no consent to the call.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from appliance.contracts.effect import Confirmation, ConfirmationStatus
from appliance.contracts.plan import Action
from appliance.contracts.principal import AccessLevel, Principal
from appliance.contracts.store import Transaction
from appliance.store import confirmations
from appliance.store.step_names import step_digest

QUESTION_TOOL = "ask"
"""The tool that asks."""
APPROVES, DIGEST, NEEDS_CODE, LEVEL = "approves", "digest", "needs_code", "level"
"""Arguments of an ``ask`` step that make a person's yes count for a call."""
BINDING = frozenset({APPROVES, DIGEST, NEEDS_CODE, LEVEL})
"""All of them: what a model hands in may have none."""


@dataclass(frozen=True, slots=True)
class Consent:
    """Whose yes it was, and whether it came with the code."""

    question: Confirmation
    who: Principal
    with_code: bool

    def facts(self) -> dict[str, Any]:
        """Return it for records."""
        return {"confirmation": self.question.id, "yes_of": self.who.to_json(), "with_code": self.with_code}


def consent_to(tx: Transaction, action: Action, earlier: Sequence[Action], level: AccessLevel) -> Consent | None:
    """Return the consent to a call that needs ``level``, None when there is none that suffices."""
    wanted = step_digest(action.tool, action.arguments)
    for asking in reversed(earlier):
        bound = asking.arguments
        if asking.tool != QUESTION_TOOL or bound.get(APPROVES) != action.step_id or bound.get(DIGEST) != wanted:
            continue
        question = confirmations.of_action(tx, asking.id)
        if question is None or question.status is not ConfirmationStatus.YES or question.answered_who is None:
            continue
        who = Principal.from_json(question.answered_who)
        is_read_back = bool(question.code) and question.code_read_by == question.answered_by
        needs_code = level >= AccessLevel.CRITICAL or bool(question.code)
        if who.is_person and who.level >= level and (is_read_back or not needs_code):
            return Consent(question, who, is_read_back)
    return None


def is_refused(tx: Transaction, action: Action, earlier: Sequence[Action]) -> bool:
    """Whether a person said no to the call."""
    asked = [a for a in earlier if a.tool == QUESTION_TOOL and a.arguments.get(APPROVES) == action.step_id]
    questions = [confirmations.of_action(tx, asking.id) for asking in asked]
    return any(question is not None and question.status is ConfirmationStatus.NO for question in questions)
