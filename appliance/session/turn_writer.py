"""How a turn's transactions are run: audited when illegal, with account kept of its lifespan, and under a lease."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

from appliance.contracts.clock import Clock
from appliance.contracts.errors import Refused, StateViolationError
from appliance.contracts.store import Ledger, Transaction
from appliance.contracts.turn import Turn, TurnEvent
from appliance.session.lifespan import remaining_s
from appliance.session.settings import SessionSettings
from appliance.session.stopwatches import Stopwatches
from appliance.store import audit, leases, turns
from appliance.store.savepoints import savepoint
from appliance.store.turns import Spending

T = TypeVar("T")

_SETS_TO_WORK = (TurnEvent.HEARD, TurnEvent.RESUMED, TurnEvent.ANSWERED)


class TurnWriter:
    """Runs works on turns for one epoch. Running time counts while a turn is active in this process and nowhere else."""

    def __init__(self, ledger: Ledger, clock: Clock, epoch: int, settings: SessionSettings) -> None:
        self.epoch = epoch
        self._ledger = ledger
        self._clock = clock
        self._settings = settings
        self._running = Stopwatches(clock)
        self.on_move: Callable[[str], None] = lambda _: None
        """Called with a turn's id after each transition of it is on disk."""

    async def write(self, work: Callable[[Transaction], T | Refused]) -> T:
        """Run a work in one transaction; raise the refusal it returns, if it returns one (what it wrote stays).

        An illegal transition takes back everything the work wrote and leaves one audit entry, in the same transaction.

        Raises:
            StateViolationError: the turn's table has no such transition.
            OwnedElsewhere: another process owns the ledger now.
        """

        def audited(tx: Transaction) -> T | Refused:
            try:
                with savepoint(tx):
                    return work(tx)
            except StateViolationError as violation:
                facts = {name: str(fact) for name, fact in violation.facts.items()}
                audit.note(tx, self._clock, "state_violation", facts.pop("turn", ""), facts)
                return violation

        answer = await self._ledger.transaction(audited)
        if isinstance(answer, Refused):
            raise answer
        return answer

    async def write_turn(self, work: Callable[[Transaction], Turn | Refused]) -> Turn:
        """Run a work that returns its turn as stored, and count running time from here on if it is active."""
        turn = await self.write(work)
        if turn.state in turns.ACTIVE:
            self._running.restart(turn.id)
        else:
            self._running.stop(turn.id)
        self.on_move(turn.id)
        return turn

    def move(
        self,
        tx: Transaction,
        turn_id: str,
        event: TurnEvent,
        *,
        admission_id: str | None = None,
        reason: str = "",
        intent: str | None = None,
        plan: Mapping[str, Any] | None = None,
        context: Mapping[str, Any] | None = None,
    ) -> Turn:
        """Take one transition and store what is left of the turn's lifespan with it. A turn has a lease while it works."""
        spent_s, left_s = self._account_s(tx, turn_id)
        turn = turns.move(
            tx,
            self._clock,
            turn_id,
            event,
            admission_id=admission_id,
            reason=reason,
            intent=intent,
            plan=plan,
            context=context,
            lifespan_s=left_s,
            spent_s=spent_s,
        )
        if turn.state not in turns.ACTIVE:
            leases.release(tx, turn_id)
        elif event in _SETS_TO_WORK:
            leases.take(tx, self._clock, turn_id, turn.lane, self.epoch)
        return turn

    def left_s(self, tx: Transaction, turn_id: str) -> float:
        """Return what is left of the turn's lifespan now."""
        return self._account_s(tx, turn_id)[1]

    @contextmanager
    def unhurried(self, turn_id: str) -> Iterator[None]:
        """Let the turn's running time stand still."""
        self._running.pause(turn_id)
        try:
            yield
        finally:
            self._running.go_on(turn_id)

    @property
    def paused(self) -> frozenset[str]:
        """Ids of the turns whose running time stands still."""
        return self._running.paused

    @property
    def working(self) -> frozenset[str]:
        """Ids of the turns that work in this process now."""
        return self._running.keys

    def _account_s(self, tx: Transaction, turn_id: str) -> tuple[float, float]:
        used = turns.spending(tx, turn_id)
        return used.spent_s + self._running.read_s(turn_id), self.left_of(turn_id, used)

    def left_of(self, turn_id: str, used: Spending) -> float:
        """Return what is left of the turn's lifespan now, given what it has used as stored."""
        return remaining_s(
            self._settings,
            tool_calls=used.tool_calls,
            pending_confirmations=used.pending_confirmations,
            spent_s=used.spent_s + self._running.read_s(turn_id),
        )
