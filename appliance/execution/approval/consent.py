"""A person's yes, bound to exactly one call: which question was about it, who answered, and whether that suffices.

An ``ask`` step carries ``approves`` (the id of the step it is for), ``digest`` (of that step's tool and stored arguments),
``needs_code``, ``level`` and ``basis`` (of what the question rested on). Only our own code makes such steps. A yes to anything
else, by somebody whose level is too low, or without the code that was read out, is no consent to the call. Nor is one that is
minutes old, of another boot, or to what was defined differently then (``definitions``): it was meant for that moment.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from appliance.contracts.clock import Clock
from appliance.contracts.effect import Confirmation, ConfirmationStatus
from appliance.contracts.plan import Action
from appliance.contracts.principal import AccessLevel, Principal
from appliance.contracts.store import Transaction
from appliance.store import confirmations
from appliance.store.step_names import step_digest

QUESTION_TOOL = "ask"
"""The tool that asks."""
APPROVES, DIGEST, NEEDS_CODE, LEVEL, BASIS = "approves", "digest", "needs_code", "level", "basis"
"""Arguments of an ``ask`` step that make a person's yes count for a call."""
BINDING = frozenset({APPROVES, DIGEST, NEEDS_CODE, LEVEL, BASIS})
"""All of them: what a model hands in may have none."""
CONSENT_S = 300.0
"""A yes counts for this long, in s, and only in the boot it was given in: longer than what comes between it and its call, shorter
than people remember what they agreed to."""


@dataclass(frozen=True, slots=True)
class Consent:
    """Whose yes it was, and whether it came with the code."""

    question: Confirmation
    who: Principal
    with_code: bool

    def facts(self) -> dict[str, Any]:
        """Return it for records."""
        return {"confirmation": self.question.id, "yes_of": self.who.to_json(), "with_code": self.with_code}


def consent_to(
    tx: Transaction, clock: Clock, action: Action, tool: str, earlier: Sequence[Action], level: AccessLevel, basis: str
) -> Consent | None:
    """Return the consent to a call of ``tool`` that needs ``level`` and rests on ``basis``, None when there is none that
    suffices."""
    wanted = step_digest(tool, action.arguments)
    for asking in reversed(earlier):
        bound = asking.arguments
        if asking.tool != QUESTION_TOOL or bound.get(APPROVES) != action.step_id or bound.get(DIGEST) != wanted:
            continue
        question = _yes_to(tx, asking)
        if question is None or question.answered_who is None or why_lapsed(clock, asking, question, basis):
            continue
        who = Principal.from_json(question.answered_who)
        is_read_back = bool(question.code) and question.code_read_by == question.answered_by
        needs_code = level >= AccessLevel.CRITICAL or bool(question.code)
        if who.is_person and who.level >= level and (is_read_back or not needs_code):
            return Consent(question, who, is_read_back)
    return None


def lapse_of(tx: Transaction, clock: Clock, action: Action, earlier: Sequence[Action], basis: str) -> str:
    """Return the name of the reply that says why a yes to a call does not count any more; empty when none was given, or it
    does."""
    asked = [a for a in earlier if a.tool == QUESTION_TOOL and a.arguments.get(APPROVES) == action.step_id]
    found = ((asking, _yes_to(tx, asking)) for asking in asked)
    return next((why for a, yes in found if yes is not None and (why := why_lapsed(clock, a, yes, basis))), "")


def why_lapsed(clock: Clock, asking: Action, yes: Confirmation, basis: str) -> str:
    """Return the name of the reply that says why a yes does not count any more; empty when it does."""
    if yes.answered_boot_id != clock.boot_id or yes.answered_mono_ns is None:
        return "consent_before_off"
    if (clock.monotonic_ns() - yes.answered_mono_ns) / 1e9 > CONSENT_S:
        return "consent_too_old"
    return "" if asking.arguments.get(BASIS, "") == basis else "changed_since"


def _yes_to(tx: Transaction, asking: Action) -> Confirmation | None:
    question = confirmations.of_action(tx, asking.id)
    return question if question is not None and question.status is ConfirmationStatus.YES else None


def is_refused(tx: Transaction, action: Action, earlier: Sequence[Action]) -> bool:
    """Whether a person said no to the call."""
    asked = [a for a in earlier if a.tool == QUESTION_TOOL and a.arguments.get(APPROVES) == action.step_id]
    questions = [confirmations.of_action(tx, asking.id) for asking in asked]
    return any(question is not None and question.status is ConfirmationStatus.NO for question in questions)
