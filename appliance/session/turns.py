"""The life of a turn: opened with its admission, planned, led from state to state, ended with its admission.

Every method is one transaction: a turn's state, what caused it and the log of it are on disk together or not at all.
In: admissions and plans from the conductor. Out: turns as stored.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from typing import Any

from appliance.contracts.admission import Admission, Outcome
from appliance.contracts.clock import Clock, IdSource
from appliance.contracts.errors import Refused
from appliance.contracts.interrupt import Cause
from appliance.contracts.plan import ActionState, Plan
from appliance.contracts.principal import Principal, principal_of
from appliance.contracts.store import Ledger, Transaction
from appliance.contracts.turn import Turn, TurnEvent, TurnState
from appliance.session.joins import Joins, stored_plan
from appliance.session.lifespan import allowance_s, shortfall
from appliance.session.settings import SessionSettings
from appliance.session.stopwatches import Stopwatches
from appliance.session.turn_writer import TurnWriter
from appliance.store import actions, admissions, approvals, confirmations, deliveries, interrupts, sessions, stopping, turns
from appliance.store.columns import utc_text

Also = Callable[[Transaction], None]
"""Further work for the same transaction."""


def both(first: Also | None, second: Also) -> Also:
    """Return the work that does both, in this order."""

    def work(tx: Transaction) -> None:
        _run(first, tx)
        second(tx)

    return work


class Turns:
    """Opens, moves and ends turns for one epoch. Used from one event loop."""

    def __init__(self, ledger: Ledger, clock: Clock, ids: IdSource, epoch: int, settings: SessionSettings) -> None:
        """``epoch`` is this process' ownership: once there is a newer one, every method raises OwnedElsewhere."""
        self._ledger = ledger
        self._clock = clock
        self._ids = ids
        self._settings = settings
        self._writer = TurnWriter(ledger, clock, epoch, settings)
        self._waiting = Stopwatches(clock)
        self.joins = Joins(self._writer, clock, ids, settings)
        """What joins a turn that works: steers and redirects."""

    async def open(
        self,
        admission: Admission,
        *,
        language: str,
        intent: str,
        context: Mapping[str, Any],
        offline: bool,
        asset: str | None = None,
        also: Callable[[Transaction, Turn], None] | None = None,
    ) -> Turn:
        """Start an admission and open its turn, in PLANNING. The lane's session is joined, or opened for ``asset``.

        Raises:
            Refused: the admission is not queued any more, or its lane is busy.
        """

        def work(tx: Transaction) -> Turn:
            now = self._clock.utc()
            born = Turn(
                id=_new_id(tx, admission),
                session_id=sessions.open_for(tx, self._clock, self._ids, admission.lane, asset),
                admission_id=admission.id,
                lane=admission.lane,
                language=language,
                state=TurnState.IDLE,
                intent=intent,
                plan=None,
                context=context,
                blocking_reason="",
                failure="",
                state_hash="",
                lifespan_s=allowance_s(self._settings, tool_calls=0, pending_confirmations=0),
                offline=offline,
                opened_utc=now,
                updated_utc=now,
            )
            turns.insert(tx, born)
            admissions.start(tx, self._clock, admission.id, self._writer.epoch, born.id)
            turn = self._writer.move(tx, born.id, TurnEvent.HEARD, admission_id=admission.id)
            if also is not None:
                also(tx, turn)
            return turn

        return await self._writer.write_turn(work)

    async def resume(self, admission: Admission, also: Also | None = None) -> Turn:
        """Start a successor admission and go on with the turn it names. A turn that is not under way is returned as it is; one
        that somebody wanted to stop meanwhile is ended, and the admission with it.

        Raises:
            Refused: no such turn, the admission is not queued any more, or a lane is busy.
        """

        def work(tx: Transaction) -> Turn:
            turn = turns.by_id(tx, str(admission.payload["turn_id"]))
            admissions.start(tx, self._clock, admission.id, self._writer.epoch, turn.id)
            if turn.state in turns.ACTIVE:
                wish = interrupts.stop_of(tx, turn.id)
                if wish is not None:
                    return self._stopped(tx, turn.id, admission.id, wish.cause, wish.reason)
                turn = self._writer.move(tx, turn.id, TurnEvent.RESUMED, admission_id=admission.id)
            _run(also, tx)
            return turn

        return await self._writer.write_turn(work)

    async def plan(self, turn: Turn, plan: Plan, also: Also | None = None) -> Turn:
        """Store the plan and its actions and begin executing, if enough of the lifespan is left (S8).

        Raises:
            Refused: too little is left; the message names the numbers. The rejection is recorded and the turn stays in
                PLANNING: the caller plans again, or ends it together with what it says about it.
            StateViolationError: the turn is not in PLANNING; it is in the audit log.
        """

        def work(tx: Transaction) -> Turn | Refused:
            lack = shortfall(self._settings, plan.estimate_s, self._writer.left_s(tx, turn.id))
            if lack is not None and turns.by_id(tx, turn.id).state is TurnState.PLANNING:
                self._writer.move(tx, turn.id, TurnEvent.PLAN_REJECTED, reason=lack.message)
                return lack
            added = actions.append_plan(tx, self._ids, turn.id, plan.steps)  # behind what a redirect left of an earlier plan
            planned = self._writer.move(tx, turn.id, TurnEvent.PLANNED, plan=stored_plan(plan, (), added))
            _run(also, tx)
            return planned

        return await self._writer.write_turn(work)

    async def move(self, turn_id: str, event: TurnEvent, *, reason: str = "", also: Also | None = None) -> Turn:
        """Take one transition. ``reason`` says why a turn fails, or what blocks it.

        Raises:
            StateViolationError: the table has no such transition; it is in the audit log.
        """

        def work(tx: Transaction) -> Turn:
            turn = self._writer.move(tx, turn_id, event, reason=reason)
            _run(also, tx)
            return turn

        return await self._writer.write_turn(work)

    async def end(
        self,
        turn_id: str,
        event: TurnEvent,
        admission_id: str,
        outcome: Outcome,
        *,
        reason: str = "",
        also: Also | None = None,
    ) -> Turn:
        """Take a transition after which nothing runs, and close the admission with it. ASKED is one: the lane is free (S7). A
        turn that somebody wanted to stop is stopped instead of waiting.

        Raises:
            StateViolationError: the table has no such transition; it is in the audit log.
            Refused: the admission has ended already.
        """

        def work(tx: Transaction) -> Turn:
            if event is TurnEvent.ASKED and (wish := interrupts.stop_of(tx, turn_id)) is not None:
                return self._stopped(tx, turn_id, admission_id, wish.cause, wish.reason)
            turn = self._writer.move(tx, turn_id, event, admission_id=admission_id, reason=reason)
            admissions.settle(tx, self._clock, admission_id, outcome)
            if event is TurnEvent.ASKED:
                self._supersede_older_writes(tx, turn)
            _run(also, tx)
            return turn

        return await self._writer.write_turn(work)

    async def stop(self, turn_id: str, admission_id: str, cause: Cause, reason: str, *, also: Also | None = None) -> Turn:
        """End a turn that obeyed a stop, with its admission: what it had not begun is skipped, what it had not said is not said.

        Raises:
            StateViolationError: the turn does not work; it is in the audit log.
            Refused: the admission has ended already.
        """

        def work(tx: Transaction) -> Turn:
            turn = self._stopped(tx, turn_id, admission_id, cause, reason)
            _run(also, tx)
            return turn

        return await self._writer.write_turn(work)

    def _stopped(self, tx: Transaction, turn_id: str, admission_id: str, cause: Cause, reason: str) -> Turn:
        stopping.clear_away(tx, self._clock, turn_id, reason)
        turn = self._writer.move(tx, turn_id, stopping.event_of(cause), admission_id=admission_id, reason=reason)
        admissions.settle(tx, self._clock, admission_id, Outcome.INTERRUPTED)
        return turn

    def _supersede_older_writes(self, tx: Transaction, turn: Turn) -> None:
        """Abandon what the same person wanted written before: a newer wish replaces it, and one yes must not do both."""
        asking = confirmations.writes_asked_in(tx, turn.lane)
        if any(other == turn.id for other in asking):
            for other in asking:
                if other != turn.id:
                    self._writer.move(tx, other, TurnEvent.UNANSWERED, reason="replaced by a newer wish")

    async def close_admission(self, admission: Admission, outcome: Outcome, also: Also | None = None) -> None:
        """End an admission that has no turn to end with it, whether it was started or not.

        Raises:
            Refused: it has ended already.
        """

        def work(tx: Transaction) -> None:
            admissions.settle(tx, self._clock, admission.id, outcome)
            _run(also, tx)

        await self._writer.write(work)

    async def answer(
        self,
        confirmation_id: str,
        yes: bool,
        admission: Admission,
        *,
        heard: Mapping[str, Any] | None = None,
        also: Also | None = None,
        who: Principal | None = None,
    ) -> Turn:
        """Give a question a person's answer and go on with its turn, which from now on runs under ``admission``.

        The question's action is done with ``{"confirmed": yes}``; ``heard`` is appended to the context's ``answers``. ``who``
        answers (None: whom the admission names); a yes lets a session that the breaker stopped go on.

        Raises:
            Refused: the question is closed already or needs a code that was not read back, the admission is not queued any more,
                or a lane is busy.
            StateViolationError: the turn does not wait; it is in the audit log.
        """

        def work(tx: Transaction) -> Turn:
            answerer = principal_of(admission.payload) if who is None else who
            asked = confirmations.answer(tx, self._clock, confirmation_id, yes, admission.id, answerer.to_json())
            actions.change(tx, asked.action_id, ActionState.DONE, {"confirmed": yes})
            context = dict(turns.by_id(tx, asked.turn_id).context)
            if heard is not None:
                context["answers"] = [*context.get("answers", []), dict(heard)]
            turn = self._writer.move(tx, asked.turn_id, TurnEvent.ANSWERED, admission_id=admission.id, context=context)
            admissions.start(tx, self._clock, admission.id, self._writer.epoch, asked.turn_id)
            if yes and answerer.is_person:
                approvals.reset(tx, self._clock, turn.session_id, answerer, "a person said yes")
            _run(also, tx)
            return turn

        return await self._writer.write_turn(work)

    async def load(self, turn_id: str) -> Turn:
        """Return a turn as stored.

        Raises:
            Refused: no such turn.
        """
        rows = await self._ledger.fetch(turns.BY_ID, (turn_id,))
        if not rows:
            raise Refused(f"there is no turn {turn_id}", turn=turn_id)
        return turns.to_turn(rows[0])

    @property
    def working(self) -> frozenset[str]:
        """Ids of the turns that work in this process now: their lifespan runs."""
        return self._writer.working

    def thinking(self, turn_id: str) -> AbstractContextManager[None]:
        """While a plan is made for a turn its lifespan stands still: a model may think for longer than is left once tools have
        run. That has limits of its own (``language_model.within_s``), and R3 holds. One at a time for each turn."""
        return self._writer.unhurried(turn_id)

    @property
    def thought_about(self) -> frozenset[str]:
        """Ids of the turns that a plan is made for now."""
        return self._writer.paused

    def on_move(self, listener: Callable[[str], None]) -> None:
        """Call ``listener`` with a turn's id after each transition of it is on disk. There is one listener."""
        self._writer.on_move = listener

    async def left_s(self, turn_ids: Iterable[str]) -> dict[str, float]:
        """Return what is left of the lifespan of each of these turns now, in s."""
        rows = await self._ledger.fetch(turns.SPENDING, (json.dumps(sorted(turn_ids)),))
        return {row["id"]: self._writer.left_of(row["id"], turns.to_spending(row)) for row in rows}

    async def abandon_unanswered(self, also: Callable[[Transaction, Turn], None] | None = None) -> list[Turn]:
        """Abandon every turn that waited for an answer longer than the limit (S7), and return them. Call it now and then.

        A wait counts from the first call that sees it, on the monotonic clock: wall time may jump, and nobody can answer an
        appliance that is down, so a restart gives people the whole limit again. What was over before it could be asked is
        abandoned at once, without ``also``: nobody misses it, and until then it can be answered.
        """
        for row in await self._ledger.fetch(confirmations.UNASKED_TURNS, (deliveries.STALE,)):
            await self._abandon(row["turn_id"], None, reason=deliveries.STALE)
        waiting = {row["turn_id"] for row in await self._ledger.fetch(confirmations.WAITING_TURNS)}
        self._waiting.keep_only(waiting)
        abandoned = []
        for turn_id in sorted(waiting):
            self._waiting.start(turn_id)
            if self._waiting.read_s(turn_id) >= self._settings.confirm_limit_s:
                limit_min = self._settings.confirm_limit_s / 60
                turn = await self._abandon(turn_id, also, reason=f"no answer within {limit_min:g} minutes", is_denied=True)
                if turn.state is TurnState.ABANDONED:
                    abandoned.append(turn)
        return abandoned

    async def _abandon(
        self, turn_id: str, also: Callable[[Transaction, Turn], None] | None, *, reason: str, is_denied: bool = False
    ) -> Turn:
        def work(tx: Transaction) -> Turn:
            turn = turns.by_id(tx, turn_id)
            if turn.state is TurnState.CONFIRMING:  # still: an answer may have come since it was looked at
                if is_denied:
                    asker = principal_of(turn.context)
                    approvals.unanswered(tx, self._clock, turn_id, turn.session_id, asker)
                turn = self._writer.move(tx, turn_id, TurnEvent.UNANSWERED, reason=reason)
                if also is not None:
                    also(tx, turn)
            return turn

        return await self._writer.write_turn(work)


def _run(also: Also | None, tx: Transaction) -> None:
    if also is not None:
        also(tx)


def _new_id(tx: Transaction, admission: Admission) -> str:
    """Return ``tr_`` and the first hex digits of a hash over the admission: the same admission, the same turn.

    Five digits (S1) are used up within a few thousand turns, so it starts at eight and grows where they are taken.
    """
    hashed = hashlib.sha256(f"{utc_text(admission.admitted_utc)} {admission.id}".encode()).hexdigest()
    return next(name for digits in range(8, 65) if not turns.exists(tx, name := f"tr_{hashed[:digits]}"))
