"""Stopping a turn: the wish as a row, and in the same transaction whatever of it nobody else has to do (R7)."""

from __future__ import annotations

from functools import partial

from appliance.contracts.admission import Outcome, RequestKind
from appliance.contracts.clock import Clock, IdSource
from appliance.contracts.interrupt import Cause
from appliance.contracts.store import Transaction
from appliance.contracts.turn import Turn, TurnEvent, TurnState
from appliance.store import actions, admissions, audit, deliveries, interrupts, turns, unreadable

COPIED = "these records may be a copy: what came of this after the copy was made is not in them; ask again if it is still wanted"
_UNDER_WAY = (TurnState.LISTENING, TurnState.PLANNING, TurnState.EXECUTING, TurnState.CONFIRMING)


def stop(tx: Transaction, clock: Clock, ids: IdSource, turn_id: str, *, cause: Cause, by: str, reason: str) -> Turn:
    """Want a turn to stop; return it as it is now.

    One that works is told by whoever rings its bell after the commit, and ends itself. One that waits for an answer has nobody
    who could: its question is closed and it is ended here. Of one that has ended only the wish is kept.

    Raises:
        Refused: no such turn.
    """
    turn = turns.by_id(tx, turn_id)
    interrupts.ask(tx, clock, ids, turn_id, cause=cause, by=by, reason=reason)
    if turn.state in turns.ACTIVE:
        return turn
    if turn.state is TurnState.CONFIRMING:
        clear_away(tx, clock, turn_id, reason)
        return turns.move(tx, clock, turn_id, event_of(cause), reason=reason)
    interrupts.handle(tx, clock, turn_id)
    return turn


def clear_away(tx: Transaction, clock: Clock, turn_id: str, reason: str) -> None:
    """Skip what the turn has not begun, and abandon what it wanted to say and nobody has begun to say; what tells of an alarm is
    said whoever wants what is done about it stopped."""
    actions.skip_rest(tx, turn_id, {"stopped": reason})
    if not turns.by_id(tx, turn_id).is_about_alarms:
        deliveries.supersede(tx, clock, turn_id, why="its turn was stopped before it could be said")


def stop_all(tx: Transaction, clock: Clock, reason: str) -> list[Turn]:
    """End every turn that is not over, as failed: the ledger does not know all that was done for them. Returns those that can be
    read."""
    marks = ", ".join("?" * len(_UNDER_WAY))
    left = tx.execute(f"SELECT id FROM turn WHERE state IN ({marks}) ORDER BY seq", _UNDER_WAY).fetchall()
    stopped: list[Turn] = []

    def end(turn_id: str) -> None:
        clear_away(tx, clock, turn_id, reason)
        stopped.append(turns.move(tx, clock, turn_id, TurnEvent.FAILED, reason=reason))

    for row in left:
        if unreadable.fault_of(tx, partial(end, row["id"])) is not None:
            unreadable.end_turn(tx, clock, row["id"], reason)
    return stopped


def stop_what_a_copy_had_under_way(tx: Transaction, clock: Clock) -> None:
    """End the turns that a ledger which may be a copy shows as under way, and the inputs it shows as waiting, as interrupted.

    Whatever came of them after the copy was made is in another ledger, or in none. Alarms stay: told twice is better than never.
    Call before ownership is taken; intents of theirs become unknown when it is. ``audit.copy_stopped`` names all.
    """
    ended = [turn.id for turn in stop_all(tx, clock, COPIED)]
    kinds = (RequestKind.UTTERANCE, RequestKind.INTERJECTION, RequestKind.RESUME)
    waiting = [admission.id for kind in kinds for admission in admissions.waiting_of(tx, kind)]
    for admission_id in waiting:
        admissions.settle(tx, clock, admission_id, Outcome.INTERRUPTED)
    if ended or waiting:
        audit.note(tx, clock, "copy_stopped", "identity", {"turns": ended, "inputs": waiting, "why": COPIED})


def event_of(cause: Cause) -> TurnEvent:
    """Return what a stop is to its turn: a person put it aside, or one of our watchdogs found it failing."""
    return TurnEvent.STOPPED if cause is Cause.USER else TurnEvent.FAILED


def hush(tx: Transaction, clock: Clock, lane: str) -> None:
    """Abandon what was going to be said about a lane's turns and nobody has begun to say. Open questions stay asked."""
    rows = tx.execute(
        """SELECT DISTINCT turn.id FROM delivery JOIN turn ON turn.id = delivery.turn_id
           WHERE delivery.status IN ('pending', 'attempting') AND delivery.status = 'pending' AND delivery.channel = 'speech'
             AND turn.lane = ? AND turn.state <> 'confirming'""",
        (lane,),
    )
    for row in rows.fetchall():
        deliveries.supersede(tx, clock, row["id"], why="the person wanted to hear nothing more")
