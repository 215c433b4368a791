"""The rows execution writes. Every method is one transaction: what happened, the action's state and what is said of it
are on disk together or not at all. A process that no longer owns the ledger writes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from appliance.contracts.clock import Clock, IdSource
from appliance.contracts.effect import Confirmation, Effect, EffectStatus
from appliance.contracts.errors import Refused
from appliance.contracts.plan import Action, ActionState
from appliance.contracts.store import Ledger, Transaction
from appliance.contracts.tool import EffectDisposition, Record, ToolResult
from appliance.contracts.turn import Turn
from appliance.execution.results import stored, success
from appliance.execution.urgency import urgency_of
from appliance.store import actions, confirmations, deliveries, effects, operations, owners

T = TypeVar("T")

ANNOUNCED = "announced"
"""Field of an unknown action's result: the last thing that was said of it, so that nothing is said twice."""


@dataclass(frozen=True, slots=True)
class Saying:
    """A sentence to queue in the same transaction, for the turn it belongs to."""

    turn: Turn
    text: str


class Journal:
    """Writes the outcome of steps. ``delivered`` is called after each commit that queued words."""

    def __init__(self, ledger: Ledger, clock: Clock, ids: IdSource, epoch: int, delivered: Callable[[], None]) -> None:
        self._ledger = ledger
        self._clock = clock
        self._ids = ids
        self._epoch = epoch
        self._delivered = delivered

    async def actions(self, turn_id: str) -> list[Action]:
        """Return the turn's actions in order."""
        return await self._ledger.transaction(lambda tx: actions.of_turn(tx, turn_id))

    async def effect_of(self, action: Action) -> Effect | None:
        """Return the action's effect, if it has one."""
        return await self._ledger.transaction(lambda tx: effects.of_action(tx, action.id))

    async def question(self, confirmation_id: str) -> Confirmation:
        """Return a question as it stands."""
        return await self._ledger.transaction(lambda tx: confirmations.by_id(tx, confirmation_id))

    async def changed(
        self, action: Action, state: ActionState, result: Mapping[str, Any] | None = None, saying: Saying | None = None
    ) -> Action:
        """Set the action's state, and say something about it."""

        def write(tx: Transaction) -> None:
            actions.change(tx, action.id, state, result)
            self._say(tx, saying)

        await self._commit(write)
        self._told(saying)
        return replace(action, state=state, result=action.result if result is None else result)

    async def ledger_call(self, action: Action, state: ActionState, work: Callable[[Transaction], Mapping[str, Any]]) -> Action:
        """Do a ledger tool's work and set the action's state with the result it returns."""

        def write(tx: Transaction) -> Mapping[str, Any]:
            result = work(tx)
            actions.change(tx, action.id, state, result)
            return result

        result = await self._commit(write)
        self._delivered()  # the work may have queued words
        return replace(action, state=state, result=result)

    async def intend(self, action: Action, arguments: Mapping[str, Any]) -> None:
        """Record that the call is about to be made, with its arguments exactly as sent."""

        def write(tx: Transaction) -> None:
            effects.intend(
                tx,
                self._clock,
                action_id=action.id,
                turn_id=action.turn_id,
                tool=action.tool,
                arguments=arguments,
                epoch=self._epoch,
            )
            actions.change(tx, action.id, ActionState.STARTED)

        await self._commit(write)

    async def conclude(
        self,
        action: Action,
        status: EffectStatus,
        result: ToolResult,
        *,
        by: str,
        saying: Saying | None = None,
        record: Record | None = None,
    ) -> Action:
        """Record how the effect ended, and the action with it: done if the result is ok, else failed.

        When a person settled the effect meanwhile, theirs stands, nothing is said, and the action is returned as they left it.
        """
        state = ActionState.DONE if result.ok else ActionState.FAILED

        def write(tx: Transaction) -> Action:
            effect = effects.of_action(tx, action.id)
            if effect is not None and effect.status in (EffectStatus.APPLIED, EffectStatus.NONE):
                return next(a for a in actions.of_turn(tx, action.turn_id) if a.id == action.id)
            effects.conclude(tx, self._clock, action.id, status, settled_by=by, result=result.value, note=result.error)
            actions.change(tx, action.id, state, stored(result))
            if record is not None:
                operations.append(tx, self._clock, record.lane, record.kind, record.entity, record.payload)
            self._say(tx, saying)
            return replace(action, state=state, result=stored(result))

        ended = await self._commit(write)
        self._told(saying)
        return ended

    async def unknown(self, action: Action, result: ToolResult, announcing: str, saying: Saying) -> Action:
        """Record that nobody knows whether the effect happened; say it unless ``announcing`` was said already."""
        kept = {**stored(result), ANNOUNCED: announcing}
        said_before = (action.result or {}).get(ANNOUNCED) == announcing

        def write(tx: Transaction) -> None:
            effect = effects.of_action(tx, action.id)
            if effect is not None and effect.status is EffectStatus.INTENDED:
                effects.conclude(
                    tx, self._clock, action.id, EffectStatus.UNKNOWN, settled_by="reply", result=None, note=result.error
                )
            actions.change(tx, action.id, ActionState.UNKNOWN, kept)
            self._say(tx, None if said_before else saying)

        await self._commit(write)
        self._told(saying)
        return replace(action, state=ActionState.UNKNOWN, result=kept)

    async def settled_by_person(self, action_id: str, *, happened: bool, note: str, by: str) -> Effect:
        """Record a person's word on an unknown effect.

        Raises:
            Refused: there is no such unknown, or it is settled already.
        """

        def write(tx: Transaction) -> Effect:
            effect = effects.of_action(tx, action_id)
            if effect is None or effect.status is not EffectStatus.UNKNOWN:
                raise Refused(f"{action_id} is no unknown effect: {effect.status if effect else 'no effect at all'}")
            status, disposition, state = (
                (EffectStatus.APPLIED, EffectDisposition.APPLIED, ActionState.DONE)
                if happened
                else (EffectStatus.NONE, EffectDisposition.NONE, ActionState.FAILED)
            )
            result = stored(success({"settled_by": by, "note": note}, disposition))
            effects.conclude(tx, self._clock, action_id, status, settled_by=by, result=None, note=note)
            actions.change(tx, action_id, state, result)
            settled = effects.of_action(tx, action_id)
            assert settled is not None
            return settled

        return await self._commit(write)

    async def _commit(self, work: Callable[[Transaction], T]) -> T:
        def fenced(tx: Transaction) -> T:
            owners.require(tx, self._epoch)
            return work(tx)

        return await self._ledger.transaction(fenced)

    def _told(self, saying: Saying | None) -> None:
        if saying is not None:
            self._delivered()

    def _say(self, tx: Transaction, saying: Saying | None) -> None:
        if saying is not None:
            deliveries.queue(
                tx,
                self._clock,
                self._ids,
                turn_id=saying.turn.id,
                language=saying.turn.language,
                text=saying.text,
                priority=urgency_of(saying.turn.context, is_first=not deliveries.has_words(tx, saying.turn.id)),
            )
