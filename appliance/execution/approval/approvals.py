"""The one gate of every call: what may be made, what a person has to say yes to, what is never made (X2, X5, FC-A03).

Whatever path a call comes by, phrase, playbook, steer, example, model, schedule or a plan found after a crash, it is decided
here, in the transaction that would begin it. The order is fixed:

    hard floor    access level; a tag not declared writable or beyond its limits; a CRITICAL call without its read-back code
    deny          rules of the site
    breaker       three automatic denials in a row in this session
    rate          how often a tag may be written
    unattended    with nobody there, what would be asked is refused, unless the site lists it
    ask           rules of the site, all that a model wants changed, all that is CRITICAL, all that no rule knows
    allow

Interlocks are judged twice: before anybody is asked, and by values read directly before the call. Whether the appliance is on
hold is looked at beside this, by whoever begins the step, since that is said in words of its own.

In: a turn's step with its arguments. Out: a verdict, and a row of it. Nothing here is ever overridden by who asks how.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pydantic import BaseModel

from appliance.contracts.approval import Decision, Rule, Verdict
from appliance.contracts.clock import Clock
from appliance.contracts.errors import Refused, Unavailable
from appliance.contracts.plan import MODEL_SOURCE, Action, Plan, Step
from appliance.contracts.planning import Asked
from appliance.contracts.plant import Plant
from appliance.contracts.ports import FieldBus, Wording
from appliance.contracts.principal import UNATTENDED, AccessLevel, Principal, principal_of
from appliance.contracts.store import Ledger, Transaction
from appliance.contracts.tool import ToolCall
from appliance.contracts.turn import Turn
from appliance.execution.approval import writes
from appliance.execution.approval.consent import APPROVES, QUESTION_TOOL, Consent, consent_to, is_refused, lapse_of
from appliance.execution.approval.definitions import Definitions
from appliance.execution.approval.interlocks import Interlocks
from appliance.execution.approval.plan_approval import PlanApproval
from appliance.execution.approval.rulebook import Case, Rulebook, level_of
from appliance.execution.approval.settings import ApprovalSettings
from appliance.execution.followed import followed
from appliance.execution.sentences import Sentences
from appliance.execution.toolbox.toolbox import AnyTool, Toolbox
from appliance.store import actions, approvals, holds, turns
from appliance.store.approvals import Decided

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Judged:
    """A verdict with the consent it rests on."""

    verdict: Verdict
    consent: Consent | None = None
    is_automatic: bool = True


class Approvals:
    """Decides. One in a core; holds no state but settings."""

    def __init__(
        self,
        settings: ApprovalSettings,
        toolbox: Toolbox,
        plant: Plant,
        bus: FieldBus,
        ledger: Ledger,
        wording: Wording,
        clock: Clock,
    ) -> None:
        self._toolbox = toolbox
        self._plant = plant
        self._ledger = ledger
        self._wording = wording
        self._clock = clock
        self._rules = Rulebook(settings, plant, wording, clock)
        self._interlocks = Interlocks(settings, plant, bus, wording, clock)
        self._definitions = Definitions(plant, toolbox)
        self._plans = PlanApproval(self._rules, self._interlocks, toolbox, plant, ledger, wording, clock, self._definitions)

    def decide(
        self,
        tx: Transaction,
        turn: Turn,
        action: Action,
        call: ToolCall,
        tool: AnyTool,
        arguments: BaseModel,
        earlier: Sequence[Action],
    ) -> Verdict:
        """Return what becomes of a call, in the transaction that would begin it. ``earlier`` are the turn's steps before it.

        Every call that changes something leaves a row, and so does each that is denied; what only reads and speaks leaves none.
        An ASK is one that nobody was asked for: it is not made, and ``why`` says so.
        """
        case = Case(
            contract=tool.contract,
            level=self._level_of(tool, arguments),
            arguments=call.arguments,
            principal=call.principal,
            language=turn.language,
            session_id=turn.session_id,
            action_id=action.id,
            is_unattended=bool(turn.context.get(UNATTENDED)),
            is_of_model=is_of_model(turn.plan),
            turn_id=turn.id,
        )
        case = self._rules.found(tx, case)
        judged = self._judged(tx, case, action, earlier)
        if case.contract.name == QUESTION_TOOL and judged.verdict.decision is Decision.ALLOW:
            self._note_asked(tx, turn, action, case)
        elif case.changes_something or judged.verdict.decision is not Decision.ALLOW:
            playbooks = followed(turn, [*earlier, action], action.id)
            self._note(tx, turn.id, case, judged, playbooks[-1] if playbooks else "")
        return judged.verdict

    def lapsed(self, tx: Transaction, turn: Turn, asking: Action, target: Action) -> str:
        """Return why a person's yes to ``asking`` lets ``target``, which has not begun, no longer be done, as a sentence to say;
        empty while the yes counts. That it lapsed leaves a row."""
        if target.tool not in self._toolbox.contracts:
            return ""
        basis = self._definitions.basis_of(target.tool, target.arguments, turn.language)
        why = lapse_of(tx, self._clock, target, (asking,), basis)
        if not why:
            return ""
        tool, who = self._toolbox.find(target.tool), principal_of(turn.context)
        level = tool.contract.security.access_level
        case = Case(tool.contract, level, target.arguments, who, turn.language, turn.session_id, target.id)
        verdict = Verdict(Decision.DENY, Rule.CONSENT, self._wording.reply(why, turn.language))
        self._note(tx, turn.id, case, _Judged(verdict, is_automatic=False))
        return verdict.why

    def note_held(self, tx: Transaction, turn: Turn, action: Action, call: ToolCall, tool: AnyTool, why: str) -> None:
        """Note that a call is not made while the appliance is on hold. That counts for no later decision."""
        level = tool.contract.security.access_level
        case = Case(
            tool.contract, level, call.arguments, call.principal, turn.language, turn.session_id, action.id, turn_id=turn.id
        )
        verdict = Verdict(Decision.DENY, Rule.HARD_FLOOR, why)
        self._note(tx, turn.id, self._rules.found(tx, case), _Judged(verdict, is_automatic=False))

    async def note_nested(self, call: ToolCall, tool: str, why: str, *, is_hidden: bool = False) -> None:
        """Note that a call within another one was refused before it was decided about; see the port."""
        decided = Decided(
            call.action_id, call.turn_id, call.session_id, tool, "", Decision.DENY, Rule.HARD_FLOOR, why, call.principal,
            is_automatic=True, is_hidden=is_hidden,
        )  # fmt: skip
        await self._ledger.transaction(lambda tx: approvals.note(tx, self._clock, decided))

    async def decide_nested(self, call: ToolCall, tool: AnyTool, arguments: BaseModel) -> Verdict:
        """Return what becomes of a call that a tool makes within its own, by the same order; ``call`` is that one's with the
        inner tool and arguments.

        Nobody can be asked within a call, so what would be asked is denied: a step of its own can ask. It leaves a row, and is
        decided in a transaction, just as the call of a step; what plainly reads and is allowed costs neither.
        """
        case = Case(
            contract=tool.contract,
            level=self._level_of(tool, arguments),
            arguments=call.arguments,
            principal=call.principal,
            language=call.language,
            session_id=call.session_id,
            action_id=call.action_id,
            is_unattended=bool(call.context.get(UNATTENDED)),
            turn_id=call.turn_id,
        )
        at_once = self._rules.without_ledger(case) or self._rules.who_decides(case)
        if not case.changes_something and at_once.decision is Decision.ALLOW:
            return at_once

        def decided(tx: Transaction) -> Verdict:
            asked_for = self._rules.found(tx, replace(case, is_of_model=is_of_model(turns.by_id(tx, call.turn_id).plan)))
            verdict = self._rules.judge(tx, asked_for)
            if verdict.decision is Decision.ASK:
                verdict = Verdict(Decision.DENY, verdict.rule, self._wording.reply("needs_yes", call.language))
            self._note(tx, call.turn_id, asked_for, _Judged(verdict))
            return verdict

        return await self._ledger.transaction(decided)

    async def require_live(self, call: ToolCall, tool: AnyTool, arguments: BaseModel) -> None:
        """Judge the interlocks of a write by values read now, directly before it.

        Raises:
            Refused: one does not hold, or cannot be judged; the message is the sentence to say.
            Unavailable: the field cannot be asked.
        """
        write = writes.write_of(tool.contract.name, arguments.model_dump())
        if write is None:
            return
        try:
            await self._interlocks.require(write.key, call.language)
        except (Refused, Unavailable) as error:
            why = error.message
            log.warning("interlock.refused", extra={"action": call.action_id, "tag": write.key})
            level = self._level_of(tool, arguments)
            case = Case(tool.contract, level, call.arguments, call.principal, call.language, call.session_id, call.action_id)
            verdict = Verdict(Decision.DENY, Rule.INTERLOCK, why)
            await self._ledger.transaction(lambda tx: self._note(tx, call.turn_id, case, _Judged(verdict)))
            raise

    async def prepare(self, plan: Plan, asked: Asked) -> Plan:
        """Return a plan in which every step that needs a person's yes comes after a question that says exactly what will happen.

        A plan of an alarm is never refused here, since it has to be told: what may not be done is refused when it comes to it.

        Raises:
            Refused: a step would be refused anyway, or cannot be stated exactly; the message is the sentence to say.
            Malformed: a question of the plan is about no later step.
        """
        return await self._plans.prepare(plan, asked)

    async def require_visible(self, steps: Iterable[Step], asked: Asked, source: str = "") -> None:
        """Refuse, and note, what needs a tool above the asker's level. ``source`` is that of the plan. The work of alarms is told
        anyway.

        Raises:
            Refused: in the words for a tool that is not there.
        """
        await self._plans.require_visible(steps, asked, source)

    async def note_refused(self, refused: Refused, asked: Asked, steps: Iterable[Step] = ()) -> None:
        """Note what is refused before there is a plan to look at: ``steps``, or the tools that a planner named in ``refused``
        (``contracts.planning.needing``). What would only have told something leaves no record."""
        await self._plans.note_refused(refused, asked, steps)

    def with_questions(self, tx: Transaction, plan: Plan, asked: Asked) -> Plan:
        """Do of :meth:`prepare` what needs no field: for steps that are added while a turn runs, in the transaction that adds
        them. What it refuses is noted by who asked, whose transaction is undone.

        Raises:
            Refused, Malformed: as :meth:`prepare`.
        """
        return self._plans.with_questions(tx, plan, asked)

    async def standing(self, about: str, principal: Principal, language: str) -> Mapping[str, Any]:
        """Return what would become of a call now, hold and interlocks with it: the rules in the order they are asked, and which
        of them is about it.

        ``about`` is a tool's name, or a tag's key for a write to it. Answers ``{tool, subject, level, needs_code, outcome, rule,
        why, limits, rules: [{rule, about, applies}], interlocks: [{require, holds, why}]}``.

        Raises:
            Refused: neither a tool nor a tag.
        """
        if about in self._plant.tag_by_key:
            name, arguments = writes.WRITE_TOOL, {"key": about}
        elif about in self._toolbox.contracts:
            name, arguments = about, {}
        else:
            cure = "Tools: `floorhand tools list`. Tags: `floorhand tags list`."
            raise Refused(f"{about} is neither a tool nor a tag of this plant", about=about, cure=cure)
        key = arguments.get("key", "")
        contract = self._toolbox.find(name).contract
        level = max(contract.security.access_level, self._rules.settings.level_of(key) if key else AccessLevel.PUBLIC)
        case = Case(contract, level, arguments, principal, language)
        verdict = await self._ledger.transaction(lambda tx: self._held(tx, case) or self._rules.foreseen(tx, case))
        interlocks = await self._interlocks.standing(key, language) if key else []
        unmet = next((str(each["why"]) for each in interlocks if not each["holds"]), None)
        if unmet is not None and verdict.decision is not Decision.DENY:
            verdict = Verdict(Decision.DENY, Rule.INTERLOCK, unmet)
        return self._rules.standing(case, verdict) | {"interlocks": interlocks}

    def _held(self, tx: Transaction, case: Case) -> Verdict | None:
        """Return the denial of a call that a hold keeps from being made, None when none does. Who may not know of the tool does
        not learn of the hold."""
        is_held = case.contract.has_effect or case.contract.is_held
        if is_held and self._rules.hidden(case) is None and (found := holds.in_force(tx)):
            hold = {"source": found[0].source, "by": found[0].by, "reason": found[0].reason}
            return Verdict(Decision.DENY, Rule.HARD_FLOOR, Sentences(self._wording, case.language).on_hold(hold))
        return None

    def _level_of(self, tool: AnyTool, arguments: BaseModel) -> AccessLevel:
        """Return the level a call needs: its tool's, or a higher one that its arguments or the rules about a tag ask for."""
        write = writes.write_of(tool.contract.name, arguments.model_dump())
        return max(level_of(tool, arguments), AccessLevel.PUBLIC if write is None else self._rules.settings.level_of(write.key))

    # decisions ------------------------------------------------------------------------------------------------------
    def _judged(self, tx: Transaction, case: Case, action: Action, earlier: Sequence[Action]) -> _Judged:
        verdict = self._rules.judge(tx, case)
        if verdict.decision is not Decision.ASK:
            return _Judged(verdict)
        basis = self._definitions.basis_of(action.tool, action.arguments, case.language)
        consent = consent_to(tx, self._clock, action, case.contract.name, earlier, case.level, basis)
        if consent is not None:
            return _Judged(Verdict(Decision.ALLOW, Rule.CONSENT), consent, is_automatic=False)
        if why_lapsed := lapse_of(tx, self._clock, action, earlier, basis):
            why = self._wording.reply(why_lapsed, case.language)
            return _Judged(Verdict(Decision.DENY, Rule.CONSENT, why), is_automatic=False)
        if is_refused(tx, action, earlier):
            why = self._wording.reply("cancelled", case.language)
            return _Judged(Verdict(Decision.DENY, Rule.CONSENT, why), is_automatic=False)
        if case.level >= AccessLevel.CRITICAL:
            why = self._wording.reply("code_missing", case.language)
            return _Judged(Verdict(Decision.DENY, Rule.HARD_FLOOR, why, needs_code=True))
        return _Judged(replace(verdict, why=self._wording.reply("needs_yes", case.language)))

    # records --------------------------------------------------------------------------------------------------------
    def _note(self, tx: Transaction, turn_id: str, case: Case, judged: _Judged, playbook: str = "") -> None:
        verdict = judged.verdict
        is_refused = verdict.decision is not Decision.ALLOW  # an ASK without a question is a call that is not made
        facts = self._facts(case) | (judged.consent.facts() if judged.consent is not None else {})
        decided = Decided(
            action_id=case.action_id,
            turn_id=turn_id,
            session_id=case.session_id,
            tool=case.contract.name,
            subject=self._rules.subject_of(case),
            decision=Decision.DENY if is_refused else Decision.ALLOW,
            rule=verdict.rule,
            why=verdict.why,
            who=case.principal,
            is_automatic=is_refused and judged.is_automatic,
            is_hidden=verdict.is_hidden,
            facts=facts,
            playbook=playbook,
        )
        approvals.note(tx, self._clock, decided)

    def _note_asked(self, tx: Transaction, turn: Turn, action: Action, case: Case) -> None:
        """Note, with a question, that the call it is about is asked for."""
        about = str(action.arguments.get(APPROVES) or "")
        target = next((each for each in actions.of_turn(tx, turn.id) if each.step_id == about), None) if about else None
        if target is None:
            return
        asked_for = replace(
            case, contract=self._toolbox.find(target.tool).contract, arguments=target.arguments, action_id=target.id, about=None
        )
        asked_for = self._rules.found(tx, asked_for)
        decided = Decided(
            target.id, turn.id, turn.session_id, target.tool, self._rules.subject_of(asked_for), Decision.ASK, Rule.ASK, "",
            case.principal, facts=self._facts(asked_for),
        )  # fmt: skip
        approvals.note(tx, self._clock, decided)

    def _facts(self, case: Case) -> dict[str, Any]:
        write = writes.write_of(case.contract.name, case.arguments)
        return {} if write is None else write.facts(self._plant)


def is_of_model(plan: Mapping[str, Any] | None) -> bool:
    """Whether a model made a turn's plan, or added to it."""
    return str((plan or {}).get("source", "")).startswith(MODEL_SOURCE)
