"""Answers that could not be said while whoever asked still waited for them: given up, and told of in one sentence.

A value in an answer is of the moment it was read. Minutes later, with the loudspeaker back, nobody stands there any more, and
whoever does would take it for the present one.
"""

from __future__ import annotations

from appliance.contracts.admission import PRIORITY_CONSOLE, PRIORITY_UTTERANCE
from appliance.contracts.clock import Clock, IdSource
from appliance.contracts.delivery import PRIORITY_ANSWER, PRIORITY_HOLD, Delivery
from appliance.contracts.store import Transaction
from appliance.store import deliveries

PRESENT_FOR_S = 120.0
"""What could not be said for this long is not told as present, and an answer not at all: as long as a question counts as just
asked."""

TOO_LATE = "nobody waited for it any more when it could be said"
"""Why an answer was abandoned that was not said in time."""

# Words in the turn of an alarm or a flood are no answers: whether they still hold is asked of the alarm (``overtaken``).
_LATE = f"""SELECT id FROM delivery WHERE channel = 'speech' AND {deliveries.OPEN} AND status = 'pending' AND unsaid = 0
    AND (boot_id <> ?1 OR queued_mono_ns <= ?2)
    AND priority IN ({PRIORITY_ANSWER}, {PRIORITY_UTTERANCE}, {PRIORITY_CONSOLE})
    AND CASE WHEN turn_id IS NULL THEN priority = {PRIORITY_ANSWER} ELSE EXISTS (
        SELECT 1 FROM turn WHERE turn.id = delivery.turn_id
        AND context ->> '$.alarm' IS NULL AND context ->> '$.flood' IS NULL) END
    ORDER BY seq"""


def abandon_late(tx: Transaction, clock: Clock) -> list[Delivery]:
    """Abandon the answers that waited for too long, or since before this boot; return those of which nothing was heard."""
    until_ns = clock.monotonic_ns() - int(PRESENT_FOR_S * 1e9)
    late = tx.execute(_LATE, (clock.boot_id, until_ns)).fetchall()
    ended = [deliveries.abandon(tx, clock, row["id"], why=TOO_LATE) for row in late]
    return [each for each in ended if not each.may_be_repeat]


def is_old(delivery: Delivery, clock: Clock) -> bool:
    """Whether words have waited so long, or since before this boot, that what they tell is not of now. A notice is about then,
    and words about a hold are so for as long as they wait."""
    waited_ns = clock.monotonic_ns() - delivery.queued_mono_ns
    if delivery.unsaid or delivery.priority == PRIORITY_HOLD:
        return False
    return delivery.boot_id != clock.boot_id or waited_ns >= PRESENT_FOR_S * 1e9


def withdraw_notice(tx: Transaction, clock: Clock) -> int:
    """Abandon the sentence about unsaid answers that waits to be said; return of how many it tells, 0 without one."""
    notices = (
        f"SELECT id, unsaid FROM delivery WHERE channel = 'speech' AND {deliveries.OPEN} AND status = 'pending' AND unsaid > 0"
    )
    count = 0
    for row in tx.execute(notices).fetchall():
        deliveries.abandon(tx, clock, row["id"], why="a newer one tells of more")
        count += row["unsaid"]
    return count


def queue_notice(tx: Transaction, clock: Clock, ids: IdSource, *, language: str, text: str, count: int) -> Delivery:
    """Queue the one sentence that says that ``count`` answers were not said. It comes after what is urgent."""
    notice = deliveries.queue(tx, clock, ids, turn_id=None, language=language, text=text, priority=PRIORITY_UTTERANCE)
    tx.execute("UPDATE delivery SET unsaid = ? WHERE id = ?", (count, notice.id))
    return notice
