"""The conductor's part that leads a turn from PLANNING to EXECUTING: a plan that passes every guard, or a reason that is said.

Every guard of requirements S8 is asked here: the plan passes its schema, its tools are READY, and enough of the lifespan is left
(asked by ``session``, in the transaction that stores the plan). A plan that fails one is made again, twice (S5); an alarm's is
made with less each time, and in the end only tells it: an alarm is told whatever is wrong with its playbook. What needs a
person's yes gets its question here (X2); whether it may be done at all is decided again when it is done.

In: a turn in PLANNING. Out: the turn in EXECUTING, or FAILED; None when somebody rang for it meanwhile. A plan whose maker wants
to see what came of it goes on: :meth:`TurnPlanning.go_on`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from appliance.alarm_turns import AlarmTurns
from appliance.contracts.admission import Admission, Outcome
from appliance.contracts.errors import Malformed, OwnedElsewhere, Refused, StateViolationError
from appliance.contracts.plan import PLAYBOOK_SOURCE, Action, Intent, Plan, Step
from appliance.contracts.planning import Asked, PlanGate, PlanMaker, needed_by
from appliance.contracts.principal import UNATTENDED, principal_of
from appliance.contracts.store import Ledger
from appliance.contracts.turn import Turn, TurnEvent
from appliance.coordination.availability import Availability
from appliance.execution.sentences import Sentences
from appliance.execution.toolbox.toolbox import Toolbox
from appliance.execution.turn_signal import TurnSignal
from appliance.execution.urgency import urgency_of
from appliance.foundation.sentence import joined
from appliance.planning.on_hold import without_held
from appliance.planning.plan_check import check
from appliance.session.turns import Also, Turns, both
from appliance.store import actions, confirmations, deliveries, holds
from appliance.words import Words

log = logging.getLogger(__name__)

T = TypeVar("T")

_TRIES = 3  # requirements S5: a bad plan is made again twice
_MOST_ROUNDS = 4  # plans of one turn, each made from what the ones before found
_ROUNDS = "rounds"
"""Member of the context of a turn whose plan has gone on: how many plans it has had."""


@dataclass(frozen=True, slots=True)
class TurnPlanning:
    """Makes and guards plans."""

    ledger: Ledger
    turns: Turns
    alarms: AlarmTurns
    planners: PlanMaker
    gate: PlanGate
    toolbox: Toolbox
    availability: Availability
    words: Words

    async def plan(self, turn: Turn, admission: Admission, signal: TurnSignal) -> Turn | None:
        """Plan a turn and store what is done next; a turn that cannot be planned is ended, and it is said why."""
        why: Refused | Malformed = Refused("")
        for rejected in range(_TRIES):
            try:
                made = await _unless_rung(self._make(turn, rejected), signal)
                if made is None:
                    return None
                plan, also = made
            except OwnedElsewhere:
                raise
            except (Refused, Malformed) as error:
                if isinstance(error, Refused) and not turn.is_about_alarms:  # understood, and it will not be done
                    return await self._give_up(turn, admission, error)
                why = error
                await self._rejected(turn, error.message)
                continue
            try:
                planned = await self.turns.plan(turn, plan, also)
            except (OwnedElsewhere, StateViolationError):
                raise
            except Refused as error:  # the rejection is on disk already
                why = error
                continue
            if also is not None:
                self.alarms.announced()
            return planned
        return await self._give_up(turn, admission, why)

    async def plan_for(self, intent: Intent, turn: Turn, earlier: Sequence[Action] = ()) -> Plan:
        """Return the plan of an utterance for a turn, guarded but for the lifespan that is left.

        Raises:
            Refused: it will not be done; the message is the sentence to say.
            Malformed: no such intent, a language without phrases, or a plan that is none.
        """
        asked = self._asked(intent, turn, await self._surroundings(intent), earlier)
        try:
            plan = await self.planners.plan(asked)
        except Refused as refused:  # whoever may not do it does not learn why it could not be done either
            await self._note_passed_over(asked)
            await self.gate.require_visible([Step(name, name, {}) for name in needed_by(refused)], asked)
            await self.gate.note_refused(refused, asked)
            raise
        if plan is None:
            raise Malformed(f"no planner has a plan for {intent.name!r}", intent=intent.name)
        await self.gate.require_visible((step for step in plan.steps if not step.optional), asked, plan.source)
        if (held := self._held_in(plan)) and (hold := await self._hold()):
            on_hold = Refused(Sentences(self.words.wording, intent.language).on_hold(hold), is_counted=False)
            await self.gate.note_refused(on_hold, asked, held)
            raise on_hold
        self.require_ready(plan)
        await self._note_passed_over(asked)
        return await self.gate.prepare(plan, asked)

    async def _note_passed_over(self, asked: Asked) -> None:
        for refused in asked.passed_over:
            await self.gate.note_refused(refused, asked)

    async def go_on(self, turn: Turn, signal: TurnSignal) -> Turn | None:
        """Add further steps to a turn that has done all it had, if the maker of its plan wanted to see the results; None if that
        was all. A turn somebody rang for meanwhile is returned as it is."""
        rounds = int(turn.context.get(_ROUNDS, 1))
        if not (turn.plan or {}).get("goes_on") or rounds >= _MOST_ROUNDS:
            return None
        done = await self.ledger.transaction(lambda tx: actions.of_turn(tx, turn.id))
        try:
            with self.turns.thinking(turn.id):
                plan = await _unless_rung(self.plan_for(_intent_of(turn), turn, done), signal)
            return turn if plan is None else await self.turns.joins.extend(turn.id, plan, {_ROUNDS: rounds + 1})
        except (OwnedElsewhere, StateViolationError):
            raise
        except (Refused, Malformed) as error:  # what was done is done; why it does not go on is said
            log.warning("plan.not_continued", extra={"why": error.message})
            urgency = urgency_of(turn.context, is_first=False)
            said = self.words.why_unplanned(error, turn.language)
            await self.ledger.transaction(self.words.saying("refused", turn, turn.language, urgency, why=said))
            return None

    def require_ready(self, plan: Plan) -> None:
        """Check a plan's form, and that each tool it cannot do without is READY.

        Raises:
            Malformed: it is no plan, or a tool is not READY; the message names what and why.
        """
        try:
            check(plan, self.toolbox.contracts)
        except Malformed as error:
            if plan.source.startswith(PLAYBOOK_SOURCE):  # to put it another way would not help: somebody has to mend it
                lacking = [step.tool for step in plan.steps if not step.optional and step.tool not in self.toolbox.contracts]
                if lacking:
                    error.worded("procedure_lacks", key=lacking[0].replace("_", " "))
                else:
                    error.worded("procedure_wrong")
            raise
        missing = self.toolbox.not_ready(dict.fromkeys(step.tool for step in plan.steps if not step.optional))
        if missing:
            told = ", ".join(f"{name} is not ready: {why}" for name, why in missing.items())
            first, why = next(iter(missing.items()))
            raise Malformed(told, tools=list(missing)).worded("tool_not_ready", tool=first, why=why.rstrip(" ."))

    def untold(self, turn: Turn) -> Also | None:
        """Return the work that tells the alarm of a turn which ends, if its plan has not; None for other turns."""
        text = self.alarms.announcement(turn)
        return self.words.unless_said(turn, text) if text else None

    async def _make(self, turn: Turn, rejected: int) -> tuple[Plan, Also | None]:
        """Ask planning for the turn's plan, and what is to be written with it. All it reads is on disk: it can be asked again."""
        if not turn.is_about_alarms:
            with self.turns.thinking(turn.id):
                return await self.plan_for(_intent_of(turn), turn), None
        plan, also = await self.alarms.plan(turn, rejected)
        held, asked = self._held_in(plan), self._asked(_intent_of(turn), turn, {})
        hold = await self._hold() if held else None
        if hold is not None:  # it is told of, and nobody is asked for what would be refused
            plan = without_held(plan, self._held)
        self.require_ready(plan)
        if hold is not None:
            why = Sentences(self.words.wording, turn.language).on_hold(hold)
            await self.gate.note_refused(Refused(why, is_counted=False), asked, held)
        try:
            return await self.gate.prepare(plan, asked), also
        except Refused as error:  # that something must not be done costs no alarm its words
            log.warning("plan.alarm_cut", extra={"why": error.message})
            return without_held(plan, self._held), also

    def _asked(self, intent: Intent, turn: Turn, facts: Mapping[str, Any], earlier: Sequence[Action] = ()) -> Asked:
        principal = principal_of(turn.context)
        return Asked(
            intent,
            facts,
            principal,
            self.toolbox.visible_to(principal.level),
            turn.session_id,
            turn.id,
            is_unattended=bool(turn.context.get(UNATTENDED)),
            earlier=tuple(earlier),
        )

    async def _surroundings(self, intent: Intent) -> Mapping[str, Any]:
        """What an answer may need to know besides the sentence; what was said last and what is open only if it is about that."""
        last = await self.ledger.fetch(deliveries.LAST_SAID) if intent.name == "repeat" else []
        pending = await self.ledger.transaction(confirmations.pending) if intent.name == "what_pending" else []
        return {
            "last_said": joined(last[0]["lead"], last[0]["text"]) if last else "",
            "pending": [question.question for question in pending],
            "online": self.availability.is_online,
        }

    @property
    def _held(self) -> frozenset[str]:
        contracts = self.toolbox.contracts
        return frozenset(name for name, contract in contracts.items() if contract.has_effect or contract.is_held)

    def _held_in(self, plan: Plan) -> list[Step]:
        return [step for step in plan.steps if step.tool in self._held]

    async def _hold(self) -> Mapping[str, Any] | None:
        """Return the oldest hold in force, None when work goes on."""
        rows = await self.ledger.fetch(holds.IN_FORCE)
        return {name: rows[0][name] for name in ("source", "by", "reason")} if rows else None

    async def _rejected(self, turn: Turn, why: str) -> None:
        log.warning("plan.rejected", extra={"why": why})
        await self.turns.move(turn.id, TurnEvent.PLAN_REJECTED, reason=why)

    async def _give_up(self, turn: Turn, admission: Admission, why: Refused | Malformed) -> Turn:
        urgency = urgency_of(turn.context, is_first=True)
        refused = self.words.saying("refused", turn, turn.language, urgency, why=self.words.why_unplanned(why, turn.language))
        also = both(self.untold(turn), refused)
        return await self.turns.end(turn.id, TurnEvent.FAILED, admission.id, Outcome.REFUSED, reason=why.message, also=also)


def _intent_of(turn: Turn) -> Intent:
    return Intent(turn.intent, turn.language, str(turn.context.get("said", "")), turn.context.get("slots", {}))


async def _unless_rung(work: Coroutine[Any, Any, T], signal: TurnSignal) -> T | None:
    """Return what ``work`` returns; cancel it and return None if the bell rings first."""
    working = asyncio.ensure_future(work)
    ringing = asyncio.ensure_future(signal.rings())
    try:
        await asyncio.wait({working, ringing}, return_when=asyncio.FIRST_COMPLETED)
        return working.result() if working.done() else None
    finally:
        for task in (working, ringing):
            task.cancel()
        await asyncio.gather(working, ringing, return_exceptions=True)
