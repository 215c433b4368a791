"""The rows execution writes. A :class:`Page` is one transaction: what happened, the actions' states and what is said of it are
on disk together or not at all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TypeVar

from appliance.contracts.clock import Clock, IdSource
from appliance.contracts.effect import EffectStatus
from appliance.contracts.errors import Refused
from appliance.contracts.interrupt import Interrupt
from appliance.contracts.plan import Action, ActionState
from appliance.contracts.store import Ledger, Transaction
from appliance.contracts.tool import Record, ToolResult
from appliance.contracts.turn import Turn
from appliance.execution.results import stored
from appliance.execution.urgency import urgency_of
from appliance.foundation.moment import Moment
from appliance.store import actions, deliveries, effects, interrupts, leases, operations

T = TypeVar("T")

ANNOUNCED = "announced"
"""Field of an unknown action's result: the last thing that was said of it, so that nothing is said twice."""
CHECKING, GIVEN_UP = "checking", "given up"
"""What is said of an unknown effect: that it is being checked, and that it has to be settled by a person."""


@dataclass(frozen=True, slots=True)
class Saying:
    """A sentence to queue in the same transaction, for the turn it belongs to. ``tells_effect``: it is the last word on what
    became of an effect, and said whatever becomes of the turn."""

    turn: Turn
    text: str
    tells_effect: bool = False


class Page:
    """One open transaction, all of it at one moment. ``said`` tells whether words were queued, ``turn_fails`` whether the turn
    has failed on it; ``afterwards`` is called, in order, once it is on disk."""

    def __init__(self, tx: Transaction, clock: Clock, ids: IdSource, epoch: int) -> None:
        self.tx = tx
        self.said = False
        self.turn_fails = False
        self.afterwards: list[Callable[[], None]] = []
        self._clock = Moment(clock)
        self._ids = ids
        self._epoch = epoch

    def change(
        self, action: Action, state: ActionState, result: Mapping[str, Any] | None = None, saying: Saying | None = None
    ) -> Action:
        """Set the action's state, and say something about it."""
        actions.change(self.tx, action.id, state, result)
        self.say(saying)
        return action.become(state, result)

    def require_lease(self, turn_id: str) -> None:
        """Check that the turn may still work. Raises Refused: its lease is lost (R3)."""
        leases.require(self.tx, self._clock, turn_id, self._epoch)

    def intend(self, action: Action, arguments: Mapping[str, Any]) -> Action:
        """Record that the call is about to be made, with its arguments exactly as sent."""
        effects.intend(
            self.tx,
            self._clock,
            action_id=action.id,
            turn_id=action.turn_id,
            tool=action.tool,
            arguments=arguments,
            epoch=self._epoch,
        )
        return self.change(action, ActionState.STARTED)

    def conclude(
        self,
        action: Action,
        status: EffectStatus,
        result: ToolResult,
        *,
        by: str,
        state: ActionState | None = None,
        saying: Saying | None = None,
        record: Record | None = None,
        notes: Mapping[str, Any] = MappingProxyType({}),
    ) -> Action:
        """Record how the effect ended, and the action with it: ``state``, by default done if the result is ok, else failed.
        ``notes`` are kept with the action's result.

        When a person settled the effect meanwhile, theirs stands, nothing is said, and the action is returned as they left it.
        """
        try:
            effects.conclude(self.tx, self._clock, action.id, status, settled_by=by, result=result.value, note=result.error)
        except Refused:
            if self._is_settled(action):
                return actions.by_id(self.tx, action.id)
            raise
        if record is not None:
            self.record(record)
        ended = state or (ActionState.DONE if result.ok else ActionState.FAILED)
        return self.change(action, ended, {**stored(result), **notes}, saying)

    def unknown(self, action: Action, result: ToolResult, announcing: str, saying: Saying) -> Action:
        """Record that nobody knows whether the effect happened; say it unless ``announcing`` was said already.

        When a person settled it meanwhile, the action is returned as they left it.
        """
        if self._is_settled(action):
            return actions.by_id(self.tx, action.id)
        effect = effects.of_action(self.tx, action.id)
        if effect is not None and effect.status is EffectStatus.INTENDED:
            effects.conclude(
                self.tx, self._clock, action.id, EffectStatus.UNKNOWN, settled_by="reply", result=None, note=result.error
            )
        said_before = (action.result or {}).get(ANNOUNCED) == announcing
        kept = {**stored(result), ANNOUNCED: announcing}
        return self.change(action, ActionState.UNKNOWN, kept, None if said_before else saying)

    def record(self, record: Record) -> None:
        """Tell the coordinator of an effect."""
        operations.append(self.tx, self._clock, record.lane, record.kind, record.entity, record.payload)

    def wishes(self, turn_id: str) -> list[Interrupt]:
        """Return what somebody wants stopped of the turn and was not looked after yet."""
        return interrupts.open_of(self.tx, turn_id)

    def obeyed(self, wish: Interrupt) -> None:
        """Note that a wish is fulfilled; a turn that stops fulfils all there are about it."""
        interrupts.handle(self.tx, self._clock, wish.turn_id, wish.action_id)

    def _is_settled(self, action: Action) -> bool:
        effect = effects.of_action(self.tx, action.id)
        return effect is not None and effect.status in effects.SETTLED

    def say(self, saying: Saying | None) -> None:
        """Queue a sentence, if there is one."""
        if saying is None:
            return
        queued = deliveries.queue(
            self.tx,
            self._clock,
            self._ids,
            turn_id=saying.turn.id,
            language=saying.turn.language,
            text=saying.text,
            priority=urgency_of(saying.turn.context, is_first=not deliveries.has_words(self.tx, saying.turn.id)),
        )
        if saying.tells_effect:
            deliveries.keep(self.tx, queued.id)
        self.said = True


class Journal:
    """Writes pages. ``delivered`` is called after each commit that queued words."""

    def __init__(self, ledger: Ledger, clock: Clock, ids: IdSource, epoch: int, delivered: Callable[[], None]) -> None:
        self._ledger = ledger
        self._clock = clock
        self._ids = ids
        self._epoch = epoch
        self._delivered = delivered

    async def write(self, work: Callable[[Page], T]) -> T:
        """Run ``work`` on a page; return its value once the page is on disk. It may be run twice: only its last page counts.

        Raises:
            OwnedElsewhere: another process took the ledger over; nothing was written.
            StorageFullError: no room; nothing was written.
        """

        def paged(tx: Transaction) -> tuple[T, Page]:
            page = Page(tx, self._clock, self._ids, self._epoch)
            return work(page), page

        value, page = await self._ledger.transaction(paged)
        for call in page.afterwards:
            call()
        if page.said:
            self._delivered()
        return value

    async def wishes(self, turn_id: str) -> list[Interrupt]:
        """Return what somebody wants stopped of the turn and was not looked after yet."""
        return await self._ledger.transaction(lambda tx: interrupts.open_of(tx, turn_id))
