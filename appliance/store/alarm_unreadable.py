"""Alarms that came and could not be taken: how many on each topic, why the newest, and how many somebody has looked into."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

from appliance.contracts.clock import Clock
from appliance.contracts.operation import OperationLane
from appliance.contracts.store import Ledger, Transaction
from appliance.store import operations
from appliance.store.columns import utc_text

OTHER_TOPICS = "#"
"""Stands for all topics beyond the first :data:`MOST_TOPICS`; no message can have it as its topic."""

MOST_TOPICS = 64
"""Topics counted one by one: more than a site has gateways, few enough to be read."""

_MOST_CHARACTERS = 300  # of a topic or a reason
_EVERY = "SELECT * FROM alarm_unreadable ORDER BY topic"


@dataclass(frozen=True, slots=True)
class Unreadable:
    """Account of one topic. ``unseen`` of the ``count`` nobody has looked into yet."""

    topic: str
    count: int
    unseen: int
    newest_why: str
    newest_utc: str


def note(tx: Transaction, clock: Clock, topic: str, count: int, why: str, *, is_state: bool) -> None:
    """Count alarms of one message that could not be taken. ``is_state``: the broker retains it, so it comes again and again."""
    topic, why = topic[:_MOST_CHARACTERS], why[:_MOST_CHARACTERS]
    known = tx.execute("SELECT sum(topic = ?) AS is_known, count(*) AS topics FROM alarm_unreadable", (topic,)).fetchone()
    if not known["is_known"] and known["topics"] >= MOST_TOPICS:
        topic = OTHER_TOPICS
    tx.execute(
        "INSERT INTO alarm_unreadable (topic, count, newest_why, newest_utc) VALUES (?1, ?2, ?3, ?4)"
        " ON CONFLICT (topic) DO UPDATE SET count = count + ?2, newest_why = ?3, newest_utc = ?4"
        " WHERE NOT (?5 AND newest_why = ?3)",
        (topic, count, why, utc_text(clock.utc()), is_state),
    )


def accept(tx: Transaction, clock: Clock, topic: str, by: str) -> Unreadable | None:
    """Note that somebody looked into a topic's unreadable alarms so far; None when there are none.

    Appends ``alarm.unreadable_accepted`` (P0).
    """
    found = next((each for each in every(tx) if each.topic == topic), None)
    if found is None:
        return None
    tx.execute("UPDATE alarm_unreadable SET accepted = count WHERE topic = ?", (topic,))
    facts = {"by": by, "count": found.count, "newest_why": found.newest_why}
    operations.append(tx, clock, OperationLane.P0, "alarm.unreadable_accepted", topic, facts)
    return next(each for each in every(tx) if each.topic == topic)


def every(tx: Transaction) -> list[Unreadable]:
    """Return all topics, by name."""
    return [_unreadable(row) for row in tx.execute(_EVERY)]


async def listed(ledger: Ledger) -> list[Unreadable]:
    """Return :func:`every`, read outside a transaction."""
    return [_unreadable(row) for row in await ledger.fetch(_EVERY)]


def _unreadable(row: sqlite3.Row) -> Unreadable:
    return Unreadable(row["topic"], row["count"], row["count"] - row["accepted"], row["newest_why"], row["newest_utc"])
