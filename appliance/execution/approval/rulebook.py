"""The rules of a site and the hard floor, asked in their one order about a call. See ``approvals`` for the order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeGuard

from pydantic import BaseModel

from appliance.contracts.approval import Decision, Rule, Verdict
from appliance.contracts.clock import Clock
from appliance.contracts.errors import Refused
from appliance.contracts.plant import Plant
from appliance.contracts.ports import Wording
from appliance.contracts.principal import AccessLevel, Principal
from appliance.contracts.store import Transaction
from appliance.contracts.tool import LevelledTool, ToolContract
from appliance.execution.approval import writes
from appliance.execution.approval.consent import QUESTION_TOOL
from appliance.execution.approval.settings import ApprovalSettings, CallRule, MostWrites, named
from appliance.execution.approval.subjects import About, Subjects
from appliance.execution.toolbox.toolbox import AnyTool
from appliance.foundation.sentence import capital
from appliance.store import approvals

_ALLOWED = Verdict(Decision.ALLOW, Rule.ALLOW)


@dataclass(frozen=True, slots=True)
class Case:
    """A call that is to be decided. ``level`` is what it needs; ``arguments`` as far as they are known. ``about`` is what it is
    about as the ledger has it (:meth:`Rulebook.found`); None: as far as its arguments tell."""

    contract: ToolContract
    level: AccessLevel
    arguments: Mapping[str, Any]
    principal: Principal
    language: str
    session_id: str = ""
    action_id: str = ""
    is_unattended: bool = False
    is_of_model: bool = False
    turn_id: str = ""
    about: About | None = None

    @property
    def changes_something(self) -> bool:
        """Whether it does more than read and speak."""
        return self.contract.changes_something


def level_of(tool: AnyTool, arguments: BaseModel) -> AccessLevel:
    """Return the level a call needs: its tool's, or a higher one that its arguments ask for."""
    own = tool.contract.security.access_level
    return max(own, tool.level_of(arguments)) if _is_levelled(tool) else own


def _is_levelled(tool: object) -> TypeGuard[LevelledTool]:
    return hasattr(tool, "level_of")


class Rulebook:
    """Judges cases. Holds no state but settings."""

    def __init__(self, settings: ApprovalSettings, plant: Plant, wording: Wording, clock: Clock) -> None:
        self.settings = settings
        self._plant = plant
        self._subjects = Subjects(plant)
        self._wording = wording
        self._clock = clock

    def judge(self, tx: Transaction, case: Case, *, may_ask: bool = False) -> Verdict:
        """Return the verdict on a case, before any consent is looked for. ``may_ask``: it is being planned, so a person can still
        be asked, whose yes lets a session that the breaker stopped go on."""
        case = self.found(tx, case)
        return self.without_ledger(case) or self._with_ledger(tx, case, may_ask=may_ask) or self.who_decides(case)

    def found(self, tx: Transaction, case: Case) -> Case:
        """Return a case with what the call is about, looked up where its arguments do not tell."""
        if case.about is not None:
            return case
        return replace(case, about=self._subjects.found(tx, case.contract.name, case.arguments, case.turn_id))

    def without_ledger(self, case: Case) -> Verdict | None:
        """Return the denial of the hard floor or of a deny rule, None when there is none. A call of which only the ledger knows
        what it is about is denied for that in :meth:`judge`."""
        return self._floor(case) or self._denied(case)

    def asks_ledger(self, case: Case) -> bool:
        """Whether a verdict on a case that is being planned depends on what was decided before."""
        write = writes.write_of(case.contract.name, case.arguments)
        has_limits = write is not None and bool(self._limits_of(write.key))
        is_open = not self.about(case).is_known and any(rule.subjects for rule in self.settings.approvals.deny)
        return case.changes_something and (is_open or has_limits or case.is_unattended or not self._has_to_ask(case))

    def who_decides(self, case: Case) -> Verdict:
        """Return whether a call that nothing forbids is made, asked for, or not made since nobody is there to be asked."""
        asks = self._has_to_ask(case) or (case.is_unattended and case.contract.name == QUESTION_TOOL)
        if asks and case.is_unattended:
            is_listed = self._permits(self.settings.approvals.unattended, case) is not None
            if is_listed and not case.is_of_model and case.level < AccessLevel.CRITICAL:
                return Verdict(Decision.ALLOW, Rule.UNATTENDED)
            return Verdict(Decision.DENY, Rule.UNATTENDED, self._wording.reply("nobody_there", case.language))
        return Verdict(Decision.ASK, Rule.ASK, needs_code=case.level >= AccessLevel.CRITICAL) if asks else _ALLOWED

    def about(self, case: Case) -> About:
        """Return what a call is about, as far as that is known."""
        return case.about or self._subjects.of(case.contract.name, case.arguments)

    def subject_of(self, case: Case) -> str:
        """Return what a call is about, for its record; empty when that is nothing in particular."""
        return self.about(case).first

    # the order ------------------------------------------------------------------------------------------------------
    def hidden(self, case: Case) -> Verdict | None:
        """Return the denial of a tool above the asker's level, in the words for one that is not there; None of any other."""
        if case.contract.security.access_level <= case.principal.level:
            return None
        return Verdict(Decision.DENY, Rule.HARD_FLOOR, f"there is no tool {case.contract.name}", is_hidden=True)

    def _floor(self, case: Case) -> Verdict | None:
        if (hidden := self.hidden(case)) is not None:
            return hidden
        write = writes.write_of(case.contract.name, case.arguments)
        if write is not None and write.value is not None:
            try:
                writes.require_permitted(write, self._plant, self._wording, case.language)
            except Refused as refused:
                return Verdict(Decision.DENY, Rule.HARD_FLOOR, refused.message)
        if case.level > case.principal.level:
            return Verdict(Decision.DENY, Rule.HARD_FLOOR, self._wording.reply("needs_level", case.language))
        return None

    def _denied(self, case: Case) -> Verdict | None:
        rules = self.settings.approvals.deny
        if not self.about(case).is_known:
            rules = [rule for rule in rules if not rule.subjects]
        rule = self._forbids(rules, case)
        if rule is None:
            return None
        why = named(rule.why, case.language) or self._wording.reply("not_permitted", case.language)
        return Verdict(Decision.DENY, Rule.DENY, why)

    def _with_ledger(self, tx: Transaction, case: Case, *, may_ask: bool) -> Verdict | None:
        if not case.changes_something:
            return None
        lets_ask = may_ask and not case.is_unattended and self._has_to_ask(case)
        if not lets_ask and approvals.denials_in_a_row(tx, case.session_id) >= approvals.BREAKS_AT:
            return Verdict(Decision.DENY, Rule.BREAKER, self._wording.reply("breaker_open", case.language))
        write = writes.write_of(case.contract.name, case.arguments)
        for most in self._limits_of(write.key) if write is not None else ():
            subject = self.subject_of(case)
            done = approvals.writes_since(tx, self._clock, writes.WRITE_TOOL, subject, most.within_s, case.action_id)
            if done >= most.count:
                return Verdict(Decision.DENY, Rule.RATE, self._too_often(case, most))
        return None

    def _has_to_ask(self, case: Case) -> bool:
        if case.level >= AccessLevel.CRITICAL and case.changes_something:
            return True
        if case.is_of_model and case.changes_something:
            return True
        if self._forbids(self.settings.approvals.ask, case) is not None:
            return True
        return case.changes_something and self._permits(self.settings.approvals.allow, case) is None

    def _too_often(self, case: Case, most: MostWrites) -> str:
        key = str(case.arguments["key"])
        asset = key if key not in self._plant.tag_by_key else self._plant.tag_by_key[key].asset
        told = {"count": most.count, "within": {"value": round(most.within_s), "unit": "s", "decimals": 0}}
        return capital(self._wording.reply("too_often", case.language, asset=asset, quantity=key, **told))

    def _limits_of(self, key: str) -> list[MostWrites]:
        return [rule.most for rule in self.settings.writes_of(key) if rule.most is not None]

    # matching -------------------------------------------------------------------------------------------------------
    def _forbids(self, rules: list[CallRule], case: Case) -> CallRule | None:
        """Return the first rule that keeps a call from being made at once: one about anything that the call is about."""
        return next((rule for rule in rules if self._touches(rule, case)), None)

    def _permits(self, rules: list[CallRule], case: Case) -> CallRule | None:
        """Return the first rule that lets a call be made: one about all that the call is about, which has to be known."""
        return next((rule for rule in rules if self._covers(rule, case)), None)

    def _touches(self, rule: CallRule, case: Case) -> bool:
        return any(self._matches(rule, case, names) for names in self.about(case).things or ((),))

    def _covers(self, rule: CallRule, case: Case) -> bool:
        about = self.about(case)
        is_known = about.is_known or not rule.subjects
        return is_known and all(self._matches(rule, case, names) for names in about.things or ((),))

    def _matches(self, rule: CallRule, case: Case, names: Iterable[str]) -> bool:
        return rule.matches(case.contract.name, names, case.principal.role)

    # for people -----------------------------------------------------------------------------------------------------
    def foreseen(self, tx: Transaction, case: Case) -> Verdict:
        """Return the verdict on a call whose other arguments are not known yet, if a person asked for it now."""
        write = writes.write_of(case.contract.name, case.arguments)
        tag = None if write is None else self._plant.tag_by_key.get(write.key)
        if tag is not None and not tag.writable and self.hidden(case) is None:
            why = capital(self._wording.reply("not_settable", case.language, asset=tag.asset, quantity=tag.key))
            return Verdict(Decision.DENY, Rule.HARD_FLOOR, why)
        return self.judge(tx, case, may_ask=True)

    def standing(self, case: Case, verdict: Verdict) -> dict[str, Any]:
        """Return what would become of a call, which the verdict on it says, and the rules that are about it."""
        approving = self.settings.approvals
        lists = {
            Rule.DENY: approving.deny, Rule.UNATTENDED: approving.unattended, Rule.ASK: approving.ask, Rule.ALLOW: approving.allow
        }  # fmt: skip
        permitting = {Rule.UNATTENDED, Rule.ALLOW}
        rules = [
            {"rule": str(name), "about": rule.model_dump(exclude_defaults=True), "applies": applies(rule, case)}
            for name, listed in lists.items()
            for applies in [self._covers if name in permitting else self._touches]
            for rule in listed
        ]
        write = writes.write_of(case.contract.name, case.arguments)
        limits: dict[str, Any] = {}
        if write is not None and (tag := self._plant.tag_by_key.get(write.key)) is not None:
            most = [each.model_dump() for each in self._limits_of(write.key)]
            limits = {"writable": tag.writable, "low": tag.low, "high": tag.high, "unit": tag.unit, "most": most}
        return {
            "tool": case.contract.name, "subject": self.subject_of(case), "level": case.level.word,
            "needs_code": verdict.needs_code, "outcome": str(verdict.decision), "rule": str(verdict.rule), "why": verdict.why,
            "limits": limits, "rules": rules,
        }  # fmt: skip
