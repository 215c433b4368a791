"""Who reports alarms: how much came in from each, and which of its running numbers never came."""

from __future__ import annotations

import json
from dataclasses import dataclass

from appliance.contracts.clock import Clock
from appliance.contracts.errors import Refused
from appliance.contracts.operation import OperationLane
from appliance.contracts.store import Transaction
from appliance.store import operations
from appliance.store.columns import utc_text

_HOLES_KEPT = 64  # ranges of missing numbers that may still be filled; older ones stay counted as missing
_LATE_BY = 16  # numbers by which one may be overtaken: more than a gateway has under way at a time
_LATELY = 256  # newest events of all sources among which a number is looked for


@dataclass(frozen=True, slots=True)
class Source:
    """Account of one source. ``unseen`` are missing numbers nobody has looked into yet."""

    name: str
    seen: int
    missing: int
    unseen: int
    restarts: int


def note_seen(tx: Transaction, clock: Clock, source: str) -> None:
    """Count one event handed in, whatever becomes of it."""
    now = utc_text(clock.utc())
    tx.execute(
        "INSERT INTO alarm_source (source, seen, since_utc, last_utc) VALUES (?1, 1, ?2, ?2)"
        " ON CONFLICT (source) DO UPDATE SET seen = seen + 1, last_utc = excluded.last_utc",
        (source, now),
    )


def note_conflict(tx: Transaction, source: str) -> None:
    """Count an event that was refused: known, with other content."""
    tx.execute("UPDATE alarm_source SET conflicts = conflicts + 1 WHERE source = ?", (source,))


def note_sequence(
    tx: Transaction, clock: Clock, source: str, sequence: int, *, is_state: bool = False, is_again: bool = False
) -> Source | None:
    """Take in the running number of an event, before it is journalled; None when nothing is known of the source.

    A gap appends ``alarm.missing`` (P0); a number that was missing is not any more. A smaller one is the source's restart, or its
    counter's wrap, and no loss; but one that is a little smaller and was not seen lately came late. ``is_state``: it was true
    before, so what lies between it and the newest need not have been sent to us. ``is_again``: the event came before, as state.
    """
    row = tx.execute("SELECT * FROM alarm_source WHERE source = ?", (source,)).fetchone()
    if row is None:
        return None
    last, holes = row["last_sequence"], json.loads(row["holes"])
    missing, restarts = row["missing"], row["restarts"]
    if last is None:
        last = None if is_state else sequence
    elif sequence == last + 1:
        last = sequence
    elif sequence > last and not is_state:
        holes, missing = [*holes, [last + 1, sequence - 1]][-_HOLES_KEPT:], missing + sequence - last - 1
        facts = {"first": last + 1, "last": sequence - 1}
        operations.append(tx, clock, OperationLane.P0, "alarm.missing", source, facts)
        last = sequence
    elif (filled := _without(holes, sequence)) is not None:
        holes, missing = filled, missing - 1
    elif sequence < last and not is_state and not is_again and not _is_late(tx, source, sequence, last):
        holes, restarts, last = [], restarts + 1, sequence
    tx.execute(
        "UPDATE alarm_source SET last_sequence = ?, holes = ?, missing = ?, accepted = min(accepted, ?), restarts = ?"
        " WHERE source = ?",
        (last, json.dumps(holes), missing, missing, restarts, source),
    )
    return by_name(tx, source)


def accept_missing(tx: Transaction, clock: Clock, source: str, by: str) -> Source:
    """Note that somebody looked into what is missing so far. Appends ``alarm.missing_accepted`` (P0).

    Raises:
        Refused: no such source.
    """
    found = by_name(tx, source)
    tx.execute("UPDATE alarm_source SET accepted = missing WHERE source = ?", (source,))
    operations.append(tx, clock, OperationLane.P0, "alarm.missing_accepted", source, {"by": by, "missing": found.missing})
    return by_name(tx, source)


def by_name(tx: Transaction, source: str) -> Source:
    """Return one source.

    Raises:
        Refused: nothing came from it yet.
    """
    found = next((each for each in every(tx) if each.name == source), None)
    if found is None:
        raise Refused(f"no alarm event came from {source} yet", source=source, cure="`floorhand alarms account` shows them.")
    return found


def every(tx: Transaction) -> list[Source]:
    """Return all sources by name."""
    rows = tx.execute("SELECT * FROM alarm_source ORDER BY source")
    return [Source(r["source"], r["seen"], r["missing"], r["missing"] - r["accepted"], r["restarts"]) for r in rows]


def _is_late(tx: Transaction, source: str, sequence: int, last: int) -> bool:
    """Whether a smaller number was overtaken on its way: it is close to the newest, and no event that came lately had it."""
    if last - sequence > _LATE_BY:
        return False
    seen = tx.execute(
        "SELECT 1 FROM (SELECT source, sequence FROM alarm_event ORDER BY seq DESC LIMIT ?) WHERE source = ? AND sequence = ?",
        (_LATELY, source, sequence),
    )
    return seen.fetchone() is None


def _without(holes: list[list[int]], number: int) -> list[list[int]] | None:
    """Return the holes with ``number`` taken out, None when it is in none of them."""
    for at, (first, last) in enumerate(holes):
        if first <= number <= last:
            rest = [[first, number - 1], [number + 1, last]]
            return [*holes[:at], *(hole for hole in rest if hole[0] <= hole[1]), *holes[at + 1 :]]
    return None
