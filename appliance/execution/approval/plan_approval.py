"""The gate at planning: nobody is asked to confirm what would be refused, and whoever is asked hears exactly what will happen.

In: a plan, and for whom. Out: the plan with its questions, or Refused with the sentence to say. What is decided here is decided
again when the step begins; here it only saves people a question.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace

from appliance.contracts.approval import Decision, Rule, Verdict
from appliance.contracts.clock import Clock
from appliance.contracts.condition import Done, condition_of
from appliance.contracts.errors import Refused
from appliance.contracts.plan import MODEL_SOURCE, PHRASE_SOURCE, PLAYBOOK_SOURCE, Plan, Step
from appliance.contracts.planning import Asked, needed_by
from appliance.contracts.plant import Plant
from appliance.contracts.ports import Wording
from appliance.contracts.principal import AccessLevel
from appliance.contracts.store import Ledger, Transaction
from appliance.execution.approval import writes
from appliance.execution.approval.asking import Need, Questions, has_placeholder
from appliance.execution.approval.consent import APPROVES, QUESTION_TOOL
from appliance.execution.approval.definitions import Definitions
from appliance.execution.approval.interlocks import Interlocks
from appliance.execution.approval.rulebook import Case, Rulebook, level_of
from appliance.execution.followed import playbook_of
from appliance.execution.toolbox.toolbox import Toolbox
from appliance.store import approvals
from appliance.store.approvals import Decided
from appliance.store.step_names import without

log = logging.getLogger(__name__)

_SAYING = "say"
_OF_THE_MOMENT = (Rule.HARD_FLOOR, Rule.RATE, Rule.INTERLOCK)  # what a person's own sentence may meet, and hear


@dataclass(frozen=True, slots=True)
class PlanApproval:
    """Looks at plans before they are stored."""

    rules: Rulebook
    interlocks: Interlocks
    toolbox: Toolbox
    plant: Plant
    ledger: Ledger
    wording: Wording
    clock: Clock
    definitions: Definitions

    async def prepare(self, plan: Plan, asked: Asked) -> Plan:
        """See ``Approvals.prepare``."""
        cases = self._cases(plan, asked)
        verdicts = self._pure(cases)
        if self._is_for_the_ledger(cases, verdicts):
            verdicts = await self.ledger.transaction(lambda tx: self._judged(tx, plan, asked, cases))
        self._refuse(plan, asked, verdicts)
        for step in plan.steps:
            if step.id in cases and verdicts[step.id].decision is not Decision.DENY:
                unmet = await self._require_live(plan, asked, step, cases[step.id])
                verdicts = verdicts if unmet is None else {**verdicts, step.id: unmet}
        try:
            return self._with_questions(self._without_denied(plan, cases, verdicts), asked, cases, verdicts)
        except Refused as refused:  # what cannot be said exactly is not asked for
            about = cases.get(str(refused.facts.get("step")))
            if about is not None:
                verdict = Verdict(Decision.DENY, Rule.HARD_FLOOR, refused.message)
                await self._note_early(asked, [about], verdict, plan.source)
            raise

    async def require_visible(self, steps: Iterable[Step], asked: Asked, source: str) -> None:
        """See ``Approvals.require_visible``."""
        for step in steps if not _is_told_anyway(asked) else ():
            if step.tool not in self.toolbox.contracts:
                continue
            own = self.toolbox.contracts[step.tool].security.access_level
            case = self._case_of(step, asked, own, is_of_model=False)
            verdict = self.rules.hidden(case)
            if verdict is not None:
                await self._note_early(asked, [case], verdict, source)
                raise Refused(verdict.why, tool=step.tool, rule=str(verdict.rule))

    async def note_refused(self, refused: Refused, asked: Asked, steps: Iterable[Step]) -> None:
        """See ``Approvals.note_refused``."""
        told = refused.facts
        of_tag = {"key": told["tag"], "value": asked.intent.slots.get("amount")} if "tag" in told else {}
        of_slots = {name: asked.intent.slots[name] for name in ("alarm", "asset") if name in asked.intent.slots}
        named = [Step(tool, tool, of_tag or of_slots) for tool in needed_by(refused)]
        found = [step for step in (tuple(steps) or named) if step.tool in self.toolbox.contracts]
        cases = [self._case_of(step, asked, AccessLevel.PUBLIC, is_of_model=False) for step in found]
        verdict = Verdict(Decision.DENY, Rule.HARD_FLOOR, refused.message, is_hidden=bool(told.get("is_hidden")))
        source = str(told.get("source") or f"{PHRASE_SOURCE}{asked.intent.name}")
        if cases:
            playbook, is_counted = str(told.get("playbook") or ""), bool(told.get("is_counted", True))
            await self._note_early(asked, cases, verdict, source, playbook, is_counted=is_counted)

    async def _note_early(
        self, asked: Asked, cases: Sequence[Case], verdict: Verdict, source: str, playbook: str = "", *, is_counted: bool = True
    ) -> None:
        plan = Plan(asked.intent.name, source, ())

        def work(tx: Transaction) -> None:
            for case in cases:
                self._note(tx, plan, asked, case, verdict, playbook, is_counted=is_counted)

        await self.ledger.transaction(work)

    def with_questions(self, tx: Transaction, plan: Plan, asked: Asked) -> Plan:
        """See ``Approvals.with_questions``."""
        cases = self._cases(plan, asked)
        verdicts = self._pure(cases)
        self._refuse(plan, asked, verdicts)
        self._note_gone(tx, plan, asked, cases, verdicts, str(asked.intent.slots.get("playbook") or ""))
        plan = self._without_denied(plan, cases, verdicts)
        # People wrote these steps, whoever wanted them: what they are made of is theirs, and so are their questions. Whether one
        # needs a yes is not: what a model wants changed always does.
        return self._questions(asked, plan).put_into(plan, self._needs(plan, cases, verdicts), is_own=True, all_after=False)

    # cases ----------------------------------------------------------------------------------------------------------
    def _cases(self, plan: Plan, asked: Asked) -> dict[str, Case]:
        is_of_model = plan.source.startswith(MODEL_SOURCE)
        known = [step for step in plan.steps if step.tool in self.toolbox.contracts]  # of others the plan's own check says so
        return {step.id: self._case(step, asked, is_of_model) for step in known}

    def _case(self, step: Step, asked: Asked, is_of_model: bool) -> Case:
        return self._case_of(step, asked, self._level(step), is_of_model=is_of_model)

    def _case_of(self, step: Step, asked: Asked, level: AccessLevel, *, is_of_model: bool) -> Case:
        return Case(
            contract=self.toolbox.contracts[step.tool],
            level=level,
            arguments={name: told for name, told in step.arguments.items() if not has_placeholder(told)},
            principal=asked.principal,
            language=asked.intent.language,
            session_id=asked.session_id,
            is_unattended=asked.is_unattended,
            is_of_model=is_of_model,
            turn_id=asked.turn_id,
        )

    def _level(self, step: Step) -> AccessLevel:
        tool = self.toolbox.find(step.tool)
        own = tool.contract.security.access_level
        write = writes.write_of(step.tool, step.arguments)
        if write is not None and not has_placeholder(write.key):
            return max(own, self.rules.settings.level_of(write.key))
        if not hasattr(tool, "level_of"):
            return own
        if has_placeholder(step.arguments):  # not known before the step runs: then it is asked for, and judged, as the highest
            return AccessLevel.CRITICAL
        return level_of(tool, self.toolbox.check_arguments(step.tool, step.arguments))

    # verdicts -------------------------------------------------------------------------------------------------------
    def _pure(self, cases: Mapping[str, Case]) -> dict[str, Verdict]:
        return {name: self.rules.without_ledger(case) or self.rules.who_decides(case) for name, case in cases.items()}

    def _is_for_the_ledger(self, cases: Mapping[str, Case], verdicts: Mapping[str, Verdict]) -> bool:
        """Whether something is to be looked up or noted there; what will only be asked about is not."""
        is_denied = any(verdict.decision is Decision.DENY for verdict in verdicts.values())
        return is_denied or any(self.rules.asks_ledger(case) for case in cases.values())

    def _judged(self, tx: Transaction, plan: Plan, asked: Asked, cases: Mapping[str, Case]) -> dict[str, Verdict]:
        cases = {name: self.rules.found(tx, case) for name, case in cases.items()}
        verdicts = {name: self.rules.judge(tx, case, may_ask=True) for name, case in cases.items()}
        self._note_gone(tx, plan, asked, cases, verdicts)
        return verdicts

    def _note_gone(
        self,
        tx: Transaction,
        plan: Plan,
        asked: Asked,
        cases: Mapping[str, Case],
        verdicts: Mapping[str, Verdict],
        playbook: str = "",
    ) -> None:
        """Note what is denied here; of what stays in the plan all the same the gate of calls keeps the record."""
        is_refused = self._refusing(plan, asked, verdicts) is not None
        kept = set() if is_refused else {step.id for step in self._kept(plan, cases, verdicts)}
        for name, verdict in verdicts.items():
            if verdict.decision is Decision.DENY and name not in kept:
                self._note(tx, plan, asked, cases[name], verdict, playbook)

    def _note(
        self,
        tx: Transaction,
        plan: Plan,
        asked: Asked,
        case: Case,
        verdict: Verdict,
        playbook: str = "",
        *,
        is_counted: bool = True,
    ) -> None:
        is_own_sentence = plan.source.startswith(PHRASE_SOURCE) and asked.principal.is_person and not verdict.is_hidden
        is_of_the_moment = is_own_sentence and verdict.rule in _OF_THE_MOMENT
        write = writes.write_of(case.contract.name, case.arguments)
        decided = Decided(
            "", asked.turn_id, asked.session_id, case.contract.name, self.rules.subject_of(case), verdict.decision, verdict.rule,
            verdict.why, asked.principal, is_automatic=is_counted and not is_of_the_moment,
            is_hidden=verdict.is_hidden, facts={} if write is None else write.facts(self.plant),
            playbook=playbook or playbook_of(plan.source),
        )  # fmt: skip
        write_down = approvals.tell_denied if _is_told_anyway(asked) else approvals.note
        write_down(tx, self.clock, decided)

    def _refuse(self, plan: Plan, asked: Asked, verdicts: Mapping[str, Verdict]) -> None:
        step = self._refusing(plan, asked, verdicts)
        if step is not None:
            verdict = verdicts[step.id]
            raise Refused(verdict.why, step=step.id, rule=str(verdict.rule), tool=step.tool, is_hidden=verdict.is_hidden)

    def _refusing(self, plan: Plan, asked: Asked, verdicts: Mapping[str, Verdict]) -> Step | None:
        """Return the first step without which there is no plan and that is denied."""
        denied = {name for name, verdict in verdicts.items() if verdict.decision is Decision.DENY}
        required = (step for step in plan.steps if step.id in denied and not step.optional)
        return None if _is_told_anyway(asked) else next(required, None)

    def _without_denied(self, plan: Plan, cases: Mapping[str, Case], verdicts: Mapping[str, Verdict]) -> Plan:
        """Return a plan that is not refused although some of it is denied, without that: nobody is asked "shall I?" for what is
        denied anyway, and nothing is said of it. A question goes if it is about that, or if its yes would let nothing be done. A
        plan that would not say anything any more stays as it is: an alarm is told, whatever may not be done about it."""
        kept = self._kept(plan, cases, verdicts)
        if len(kept) < len(plan.steps):
            left = {step.id for step in kept}
            log.info("plan.denied_left_out", extra={"steps": [step.id for step in plan.steps if step.id not in left]})
        return replace(plan, steps=kept)

    def _kept(self, plan: Plan, cases: Mapping[str, Case], verdicts: Mapping[str, Verdict]) -> tuple[Step, ...]:
        acting = {name for name, case in cases.items() if case.changes_something}
        denied = {name for name in acting if verdicts[name].decision is Decision.DENY}
        if not denied:
            return plan.steps
        vain = {step.id for step in plan.steps if step.tool == QUESTION_TOOL and self._is_vain(step, plan, acting, denied)}
        kept = without(plan.steps, denied | vain)
        return kept if any(step.tool == _SAYING for step in kept) else plan.steps

    def _is_vain(self, asking: Step, plan: Plan, acting: Set[str], denied: Set[str]) -> bool:
        if about := str(asking.arguments.get(APPROVES) or ""):
            return about in denied
        behind = {other.id for other in plan.steps if other.id in acting and Done(asking.id) in condition_of(other.when).terms}
        return bool(behind) and behind <= denied

    async def _require_live(self, plan: Plan, asked: Asked, step: Step, case: Case) -> Verdict | None:
        """Return the denial of a step that the plan can do without and whose interlock does not hold now."""
        write = writes.write_of(step.tool, step.arguments)
        if write is None or has_placeholder(write.key) or _is_told_anyway(asked):
            return None
        try:
            await self.interlocks.require(write.key, case.language)
        except Refused as refused:
            verdict = Verdict(Decision.DENY, Rule.INTERLOCK, refused.message)
            await self._note_early(asked, [case], verdict, plan.source)
            if not step.optional:
                raise
            return verdict
        return None

    # questions ------------------------------------------------------------------------------------------------------
    def _with_questions(self, plan: Plan, asked: Asked, cases: Mapping[str, Case], verdicts: Mapping[str, Verdict]) -> Plan:
        is_own = not plan.source.startswith(MODEL_SOURCE)
        needs = self._needs(plan, cases, verdicts)
        for step in plan.steps if not is_own else ():
            if step.id in needs and cases[step.id].changes_something and has_placeholder(step.arguments):
                raise Refused(self.wording.reply("not_stated", asked.intent.language), step=step.id)
        all_after = not plan.source.startswith(PLAYBOOK_SOURCE)
        return self._questions(asked, plan).put_into(plan, needs, is_own=is_own, all_after=all_after)

    def _needs(self, plan: Plan, cases: Mapping[str, Case], verdicts: Mapping[str, Verdict]) -> dict[str, Need]:
        needs: dict[str, Need] = {}
        for step in plan.steps:
            case = cases.get(step.id)
            if case is None or (verdict := verdicts[step.id]).decision is Decision.DENY:
                continue
            if case.changes_something or verdict.decision is Decision.ASK:
                needs[step.id] = Need(verdict.decision is Decision.ASK, verdict.needs_code, case.level.word)
        return needs

    def _questions(self, asked: Asked, plan: Plan) -> Questions:
        is_of_model = plan.source.startswith(MODEL_SOURCE)
        language, basis_of = asked.intent.language, self.definitions.basis_of
        return Questions(self.plant, self.wording, self.toolbox.contracts, language, basis_of, is_of_model=is_of_model)


def _is_told_anyway(asked: Asked) -> bool:
    """Whether it is the work of an alarm: people have to hear of it whatever may not be done about it."""
    return not asked.principal.is_person and not asked.is_unattended
