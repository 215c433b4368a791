"""A new process takes over: nothing started is run again, what should go on gets a successor (R2, R4, R6).

In one transaction a new epoch begins, what the dead process had started becomes unknown and is settled as interrupted, the
turn that was under way is continued by a new admission with the door RECOVERY, every effect intended but not concluded becomes
unknown, and the leases of the dead are dropped. A turn that somebody wanted to stop is ended instead. A crash before its commit
changes nothing; one after it is an ordinary restart.

What cannot be accounted for, because of what is in its rows, ends as failed by itself: it must not keep the appliance from
starting, now and at every start to come.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from appliance.contracts.admission import PRIORITY_RESUME, Admission, Door, Outcome, Request, RequestKind
from appliance.contracts.clock import Clock, IdSource
from appliance.contracts.errors import Fault
from appliance.contracts.store import Ledger, Transaction
from appliance.contracts.turn import Turn, TurnEvent
from appliance.foundation.canonical import digest
from appliance.store import (
    actions,
    admissions,
    audit,
    deliveries,
    effects,
    interrupts,
    leases,
    owners,
    stopping,
    turns,
    unreadable,
)
from appliance.store.owners import Ownership

log = logging.getLogger(__name__)

RESTARTS_LIMIT = 3  # requirements R4: this many restarts in a row with the same turn active suspend it
RESUME_WITHIN_S = 3600.0  # requirements R4: an order given longer ago is not carried out after a power cut; alarms go on


@dataclass(frozen=True, slots=True)
class Recovered:
    """What the new owner found. ``resumed`` are the successors, still queued; ``suspended`` turns are FAILED, with why;
    ``stopped`` ones were ended because somebody had wanted that, ``broken`` ones because of what is in their rows.
    ``unknown_effects`` names actions."""

    ownership: Ownership
    resumed: list[Admission]
    unknown_effects: list[str]
    suspended: list[Turn]
    stopped: list[Turn] = field(default_factory=list)
    broken: list[Fault] = field(default_factory=list)


async def take_over(
    ledger: Ledger,
    clock: Clock,
    ids: IdSource,
    instance: str,
    pid: int,
    *,
    restarts_limit: int = RESTARTS_LIMIT,
    turn_limit_s: float = 0.0,
) -> Recovered:
    """Begin a new epoch for process ``pid`` and account for everything the one before left. Needs the log's origin set.

    ``turn_limit_s`` is the longest lifespan a turn can have: one that was asked for longer than twice that ago, and longer than
    an hour, is not gone on with. An alarm's conversation always is.

    Raises:
        OwnedElsewhere: the previous owner is another living process.
    """

    resume_within_s = max(RESUME_WITHIN_S, 2 * turn_limit_s)

    def work(tx: Transaction) -> Recovered:
        ownership = owners.take_ownership(tx, clock, instance, pid)
        leases.drop_before(tx, ownership.epoch)
        unknown_effects = effects.orphan(tx, clock, ownership.epoch)
        found = Recovered(ownership, [], unknown_effects, [], broken=unreadable.end_deliveries(tx, clock))

        def account_for(left_id: str) -> None:
            left = admissions.by_id(tx, left_id)
            admissions.doubt(tx, clock, left.id)
            admissions.settle(tx, clock, left.id, Outcome.INTERRUPTED)
            turn = turns.by_id(tx, str(left.turn_id))
            if turn.state not in turns.ACTIVE:
                return
            if interrupts.stop_of(tx, turn.id) is not None:
                found.stopped.append(_stop(tx, clock, turn, left.id))
            elif why := _why_not(tx, clock, left, turn, restarts_limit, resume_within_s):
                _put_aside(tx, clock, turn, why)
                audit.note(tx, clock, "turn_suspended", turn.id, {"admission": left.id, "why": why})
                found.suspended.append(turns.move(tx, clock, turn.id, TurnEvent.FAILED, admission_id=left.id, reason=why))
            else:
                found.resumed.append(_continue(tx, clock, ids, left, turn, ownership.epoch))

        def stop_waiting(turn_id: str, successor: str) -> None:
            turn = turns.by_id(tx, turn_id)
            if interrupts.stop_of(tx, turn_id) is not None:
                admissions.settle(tx, clock, successor, Outcome.INTERRUPTED)
                found.stopped.append(_stop(tx, clock, turn, successor))

        def by_itself(admission_id: str, work: Callable[[], None]) -> None:
            fault = unreadable.fault_of(tx, work)
            if fault is not None:
                unreadable.end(tx, clock, admission_id, fault.message)
                found.broken.append(fault)

        for left_id in admissions.started(tx):
            by_itself(left_id, partial(account_for, left_id))
        for row in tx.execute(interrupts.OPEN_TURNS).fetchall():  # whose successor still waits since an earlier restart
            for successor in admissions.resuming(tx, row["turn_id"]):
                by_itself(successor, partial(stop_waiting, row["turn_id"], successor))
        return found

    recovered = await ledger.transaction(work)
    log.info(
        "ledger.taken_over",
        extra={
            "epoch": recovered.ownership.epoch,
            "previous_clean": recovered.ownership.previous_clean,
            "resumed": len(recovered.resumed),
            "suspended": len(recovered.suspended),
            "stopped": len(recovered.stopped),
            "broken": len(recovered.broken),
            "unknown_effects": len(recovered.unknown_effects),
        },
    )
    return recovered


def _put_aside(tx: Transaction, clock: Clock, turn: Turn, why: str) -> None:
    """Skip what a turn has not begun. What it wanted to say is of work that nobody does any more ("I am checking"); what tells of
    an alarm is said all the same."""
    actions.skip_rest(tx, turn.id, {"suspended": why})
    if not turn.is_about_alarms:
        deliveries.supersede(tx, clock, turn.id, why="its turn was put aside before it could be said")


def _why_not(tx: Transaction, clock: Clock, left: Admission, turn: Turn, restarts_limit: int, resume_within_s: float) -> str:
    """Return why a turn is not continued, empty if it is."""
    restarts = admissions.restarts_of(tx, left.id) + 1
    if restarts >= restarts_limit:
        return f"interrupted by {restarts} restarts in a row"
    asked = admissions.by_id(tx, turn.admission_id)
    age_s = _age_s(clock, asked)
    if age_s > resume_within_s and asked.kind not in (RequestKind.ALARM, RequestKind.FLOOD):
        return f"interrupted {age_s / 60:.0f} minutes after it was asked for"
    return ""


def _age_s(clock: Clock, asked: Admission) -> float:
    """Return how long ago something was asked for. Only wall time spans a power cut, and only if it was disciplined at both ends:
    else nobody knows, and it counts as young, which is the ordinary case."""
    if asked.boot_id == clock.boot_id:
        return (clock.monotonic_ns() - asked.admitted_mono_ns) / 1e9
    return (clock.utc() - asked.admitted_utc).total_seconds() if asked.clock_synced and clock.is_synced else 0.0


def _stop(tx: Transaction, clock: Clock, turn: Turn, admission_id: str) -> Turn:
    """End a turn as whoever wanted it stopped wished; nobody has to be told, they were when they asked."""
    wish = interrupts.stop_of(tx, turn.id)
    assert wish is not None
    stopping.clear_away(tx, clock, turn.id, wish.reason)
    return turns.move(tx, clock, turn.id, stopping.event_of(wish.cause), admission_id=admission_id, reason=wish.reason)


def _continue(tx: Transaction, clock: Clock, ids: IdSource, left: Admission, turn: Turn, epoch: int) -> Admission:
    payload = {"turn_id": turn.id}
    request = Request(
        door=Door.RECOVERY,
        kind=RequestKind.RESUME,
        lane=turn.lane,  # the turn's, not the answer's that may have been leading it: one turn a lane
        dedupe_key=f"resume:{left.id}:{epoch}",
        payload=payload,
        priority=max(PRIORITY_RESUME, left.priority),
    )
    return admissions.insert(tx, clock, ids, request, digest(payload), resumes=left.id)
