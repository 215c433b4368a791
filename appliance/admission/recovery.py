"""A new process takes over: nothing started is run again, what should go on gets a successor (R2, R4, R6).

In one transaction a new epoch begins, what the dead process had started becomes unknown and is settled as interrupted, the
turn that was under way is continued by a new admission with the door RECOVERY, and every effect intended but not concluded
becomes unknown. A crash before its commit changes nothing; one after it is an ordinary restart.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

from appliance.contracts.admission import PRIORITY_RESUME, Admission, Door, Outcome, Request, RequestKind
from appliance.contracts.clock import Clock, IdSource
from appliance.contracts.effect import Effect
from appliance.contracts.store import Ledger, Transaction
from appliance.contracts.turn import Turn, TurnEvent
from appliance.foundation.canonical import digest
from appliance.store import admissions, audit, effects, owners, turns
from appliance.store.owners import Ownership

log = logging.getLogger(__name__)

RESTARTS_LIMIT = 3  # requirements R4: this many restarts in a row with the same turn active suspend it
RESUME_WITHIN_S = 3600.0  # requirements R4: an order given longer ago is not carried out after a power cut; alarms go on


@dataclass(frozen=True, slots=True)
class Recovered:
    """What the new owner found. ``resumed`` are the successors, still queued; ``suspended`` turns are FAILED, with why."""

    ownership: Ownership
    resumed: list[Admission]
    unknown_effects: list[Effect]
    suspended: list[Turn]


async def take_over(
    ledger: Ledger,
    clock: Clock,
    ids: IdSource,
    instance: str,
    pid: int,
    *,
    restarts_limit: int = RESTARTS_LIMIT,
    resume_within_s: float = RESUME_WITHIN_S,
) -> Recovered:
    """Begin a new epoch for process ``pid`` and account for everything the one before left. Needs the log's origin set.

    Raises:
        OwnedElsewhere: the previous owner is another living process.
    """

    def work(tx: Transaction) -> Recovered:
        ownership = owners.take_ownership(tx, clock, instance, pid)
        resumed: list[Admission] = []
        suspended: list[Turn] = []
        for left in admissions.started(tx):
            admissions.doubt(tx, clock, left.id)
            admissions.settle(tx, clock, left.id, Outcome.INTERRUPTED)
            turn = turns.by_id(tx, str(left.turn_id))
            if turn.state not in turns.ACTIVE:
                continue
            why = _why_not(tx, clock, left, turn, restarts_limit, resume_within_s)
            if why:
                audit.note(tx, clock, "turn_suspended", turn.id, {"admission": left.id, "why": why})
                suspended.append(turns.move(tx, clock, turn.id, TurnEvent.FAILED, admission_id=left.id, reason=why))
            else:
                resumed.append(_continue(tx, clock, ids, left, turn, ownership.epoch))
        return Recovered(ownership, resumed, effects.orphan(tx, clock, ownership.epoch), suspended)

    recovered = await ledger.transaction(work)
    log.info(
        "ledger.taken_over",
        extra={
            "epoch": recovered.ownership.epoch,
            "previous_clean": recovered.ownership.previous_clean,
            "resumed": len(recovered.resumed),
            "suspended": len(recovered.suspended),
            "unknown_effects": len(recovered.unknown_effects),
        },
    )
    return recovered


def _why_not(tx: Transaction, clock: Clock, left: Admission, turn: Turn, restarts_limit: int, resume_within_s: float) -> str:
    """Return why a turn is not continued, empty if it is."""
    restarts = admissions.restarts_of(tx, left.id) + 1
    if restarts >= restarts_limit:
        return f"interrupted by {restarts} restarts in a row"
    # Only wall time spans a power cut. A clock that is behind makes work look young, which is the ordinary case.
    age_s = (clock.utc() - turn.opened_utc).total_seconds()
    is_alarm = admissions.by_id(tx, turn.admission_id).kind in (RequestKind.ALARM, RequestKind.FLOOD)
    if age_s > resume_within_s and not is_alarm:
        return f"interrupted {age_s / 60:.0f} minutes after it was asked for"
    return ""


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
