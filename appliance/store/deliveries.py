"""Deliveries: a row before anything is said or published, and a receipt after (R5).

    PENDING --begin--> ATTEMPTING --finish--> DELIVERED
       ^                   |-------fail-----> FAILED      it cannot be said at all
       '----give_back------|                              (nobody can say now, or a restart came between)
                           '------------------> ABANDONED after 3 tries that may have been heard, or 24 h

A delivery is counted as tried from ``begin`` on; ``give_back`` takes that back when nothing can have been heard. Each channel
has its own row of what waits: who speaks never takes a message, and who publishes never a sentence.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from appliance.contracts.clock import Clock, IdSource
from appliance.contracts.delivery import Channel, Delivery, DeliveryStatus
from appliance.contracts.errors import Malformed, StateViolationError
from appliance.contracts.operation import OperationLane
from appliance.contracts.store import Transaction
from appliance.store import admissions, operations, overtaken
from appliance.store.columns import json_text, to_json_or_none, to_utc, to_utc_or_none, utc_text

MOST_ATTEMPTS = 3  # requirements R5
LONGEST_WAIT_S = 24 * 3600.0  # requirements R5
MOST_PAYLOAD_CHARACTERS = 64 * 1024  # of a published message: what we would take ourselves

STALE = "it was over before it could be said"
"""Why words about the plant were abandoned that it had overtaken: what they told of is accounted for, and no longer so."""

LAST_SAID = """SELECT lead, text, ended_boot_id = (SELECT boot_id FROM owner ORDER BY epoch DESC LIMIT 1) AS is_this_boot
    FROM delivery WHERE channel = 'speech' AND status = 'delivered'
    ORDER BY is_this_boot DESC, iif(is_this_boot, ended_mono_ns, 0) DESC, ended_utc DESC, seq DESC LIMIT 1"""
"""Query of what left the speaker last, for "say that again"."""

OF_TURN_SINCE = """SELECT lead, text FROM delivery WHERE channel = 'speech' AND turn_id = ? AND queued_mono_ns >= ?
    ORDER BY seq"""
"""Query of what a turn has had to say since a moment of this boot."""

_LONGEST_TOPIC = 512
_CLOSED_QUESTION = "SELECT 1 FROM confirmation WHERE delivery_id = ? AND status <> 'pending'"
# Naming the partial index' own condition keeps a query on it, however long the history behind it grows.
OPEN = "status IN ('pending', 'attempting')"
_NEXT = f"""SELECT * FROM delivery WHERE channel = ?1 AND {OPEN} AND status = 'pending' AND (?2 IS NULL OR topic = ?2)
    ORDER BY priority DESC, seq LIMIT 1"""
_ATTEMPT = f"""status = 'attempting', attempts = attempts + 1, tries = tries + 1,
    tried_after_seq = coalesce(tried_after_seq, {admissions.NEWEST_SEQ})"""
_UNHEARD = "attempts = attempts - 1, tried_after_seq = CASE may_be_repeat WHEN 1 THEN tried_after_seq END"
_UNDER_WAY = f"""SELECT id FROM delivery WHERE channel = ?1 AND {OPEN} AND status = 'attempting' AND (?2 IS NULL OR topic = ?2)
    ORDER BY seq"""


def queue(
    tx: Transaction,
    clock: Clock,
    ids: IdSource,
    *,
    turn_id: str | None,
    language: str,
    text: str,
    priority: int,
    lead: str = "",
) -> Delivery:
    """Insert a delivery that waits to be said. Operation: ``delivery.queued``.

    Raises:
        Malformed: there is nothing to say.
    """
    if not (lead + text).strip():
        raise Malformed("a delivery needs words", turn=turn_id)
    delivery_id = ids.mint("delivery")
    tx.execute(
        """INSERT INTO delivery
               (id, channel, turn_id, language, lead, text, priority, status, queued_utc, queued_mono_ns, boot_id, clock_synced)
           VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)""",
        (
            delivery_id,
            Channel.SPEECH,
            turn_id,
            language,
            lead,
            text,
            priority,
            DeliveryStatus.PENDING,
            utc_text(clock.utc()),
            clock.monotonic_ns(),
            clock.boot_id,
            clock.is_synced,
        ),
    )
    delivery = load(tx, delivery_id)
    said = {"language": language, "lead": lead, "text": text, "priority": priority}
    _note(tx, clock, delivery, turn_id=turn_id, channel=Channel.SPEECH, **said)
    return delivery


def queue_message(
    tx: Transaction,
    clock: Clock,
    ids: IdSource,
    *,
    turn_id: str | None,
    topic: str,
    payload: Mapping[str, Any],
    priority: int,
    retain: bool = False,
) -> Delivery:
    """Insert a message that waits to be published, in the transaction of what it tells. Operation: ``delivery.queued``.

    Messages of one priority are published in the order they were queued. ``payload`` carries its own times: it may be published
    much later. What may be published twice gets the member ``may_be_repeat``.

    Raises:
        Malformed: not a topic that can be published to, or too long.
    """
    if not topic or len(topic) > _LONGEST_TOPIC or not topic.isprintable() or {"+", "#"} & set(topic):
        raise Malformed(f"{topic[:64]!r} is not a topic to publish to", topic=topic)
    return _queue_payload(tx, clock, ids, Channel.MQTT, turn_id, topic, payload, priority, retain)


def queue_webhook(
    tx: Transaction, clock: Clock, ids: IdSource, *, turn_id: str | None, name: str, payload: Mapping[str, Any], priority: int
) -> Delivery:
    """Insert what waits to be posted to the webhook ``name``, in the transaction of what it tells. As :func:`queue_message`.

    Raises:
        Malformed: too long.
    """
    return _queue_payload(tx, clock, ids, Channel.WEBHOOK, turn_id, name, payload, priority, False)


def _queue_payload(
    tx: Transaction,
    clock: Clock,
    ids: IdSource,
    channel: Channel,
    turn_id: str | None,
    topic: str,
    payload: Mapping[str, Any],
    priority: int,
    retain: bool,
) -> Delivery:
    text = json_text(payload)
    if len(text) > MOST_PAYLOAD_CHARACTERS:
        raise Malformed(f"message on {topic}: {len(text)} characters, more than {MOST_PAYLOAD_CHARACTERS}", topic=topic)
    delivery_id = ids.mint("delivery")
    tx.execute(
        """INSERT INTO delivery (id, channel, turn_id, language, lead, text, topic, payload, retain, priority, status,
                                 queued_utc, queued_mono_ns, boot_id, clock_synced)
           VALUES (?, ?, ?, '', '', '', ?, ?, ?, ?, ?, ?, ?, ?, ?)""",
        (
            delivery_id,
            channel,
            turn_id,
            topic,
            text,
            retain,
            priority,
            DeliveryStatus.PENDING,
            utc_text(clock.utc()),
            clock.monotonic_ns(),
            clock.boot_id,
            clock.is_synced,
        ),
    )
    delivery = load(tx, delivery_id)
    _note(tx, clock, delivery, turn_id=turn_id, channel=channel, topic=topic, payload=payload, retain=retain)
    return delivery


def load(tx: Transaction, delivery_id: str) -> Delivery:
    """Return one delivery.

    Raises:
        Malformed: there is none of this id.
    """
    row = tx.execute("SELECT * FROM delivery WHERE id = ?", (delivery_id,)).fetchone()
    if row is None:
        raise Malformed(f"there is no delivery {delivery_id}", delivery=delivery_id)
    return _delivery(row)


def begin_next(tx: Transaction, clock: Clock, channel: Channel = Channel.SPEECH, topic: str | None = None) -> Delivery | None:
    """Take the most urgent pending delivery, oldest first among equals, and mark it attempting. None when all is said.

    With ``topic`` only those of one topic or webhook are looked at.
    Deliveries that have waited longer than 24 h, questions that have been answered meanwhile, and what alarms have overtaken are
    abandoned on the way.
    """
    while (row := tx.execute(_NEXT, (channel, topic)).fetchone()) is not None:
        if tx.execute(_CLOSED_QUESTION, (row["id"],)).fetchone() is not None:
            why = "the question was closed before it could be said"
        elif _waited_s(row, clock) > LONGEST_WAIT_S:
            why = "waited longer than 24 h"
        elif overtaken.is_overtaken(tx, clock, row, STALE):
            why = STALE
        else:
            return begin(tx, row["id"])
        abandon(tx, clock, row["id"], why=why)
    return None


def is_waiting(tx: Transaction, text: str) -> bool:
    """Whether these very words wait to be said already."""
    sql = f"SELECT 1 FROM delivery WHERE {OPEN} AND status = 'pending' AND text = ?"
    return tx.execute(sql, (text,)).fetchone() is not None


def has_words(tx: Transaction, turn_id: str) -> bool:
    """Whether a turn has queued anything to be said, whatever became of it."""
    return tx.execute("SELECT 1 FROM delivery WHERE turn_id = ? AND channel = 'speech'", (turn_id,)).fetchone() is not None


def begin(tx: Transaction, delivery_id: str) -> Delivery:
    """Mark a pending delivery attempting. Commit this before the first sound.

    Raises:
        StateViolationError: it is not pending.
    """
    _move(tx, delivery_id, DeliveryStatus.PENDING, _ATTEMPT, ())
    return load(tx, delivery_id)


def finish(tx: Transaction, clock: Clock, delivery_id: str, *, first_audio_mono_ns: int | None = None) -> Delivery:
    """Note the receipt: it was said whole, or the broker has it. Operation: ``delivery.delivered``.

    Raises:
        StateViolationError: it is not being attempted.
    """
    return _end(
        tx,
        clock,
        delivery_id,
        DeliveryStatus.ATTEMPTING,
        DeliveryStatus.DELIVERED,
        first_audio_mono_ns=first_audio_mono_ns,
    )


def fail(tx: Transaction, clock: Clock, delivery_id: str, *, why: str) -> Delivery:
    """Note that it cannot be said at all. Operation: ``delivery.failed``.

    Raises:
        StateViolationError: it is not being attempted.
    """
    return _end(tx, clock, delivery_id, DeliveryStatus.ATTEMPTING, DeliveryStatus.FAILED, failure=why)


def give_back(tx: Transaction, clock: Clock, delivery_id: str, *, may_have_been_heard: bool, why: str) -> Delivery:
    """Put an attempt back: pending again, or abandoned when it was its third that may have been heard.

    Raises:
        StateViolationError: it is not being attempted.
    """
    if may_have_been_heard and load(tx, delivery_id).attempts >= MOST_ATTEMPTS:
        return _end(tx, clock, delivery_id, DeliveryStatus.ATTEMPTING, DeliveryStatus.ABANDONED, failure=why)
    repeat = "may_be_repeat = 1" if may_have_been_heard else _UNHEARD
    _move(tx, delivery_id, DeliveryStatus.ATTEMPTING, f"status = 'pending', failure = ?, {repeat}", (why,))
    return load(tx, delivery_id)


def recover(tx: Transaction, clock: Clock, channel: Channel = Channel.SPEECH, topic: str | None = None) -> list[Delivery]:
    """Put back what a previous owner was saying when it died: nobody knows how much of it was heard."""
    rows = tx.execute(_UNDER_WAY, (channel, topic)).fetchall()
    return [give_back(tx, clock, row["id"], may_have_been_heard=True, why="interrupted") for row in rows]


def abandon(tx: Transaction, clock: Clock, delivery_id: str, *, why: str) -> Delivery:
    """Give up a delivery that waits. Operation: ``delivery.abandoned``.

    Raises:
        StateViolationError: it does not wait.
    """
    return _end(tx, clock, delivery_id, DeliveryStatus.PENDING, DeliveryStatus.ABANDONED, failure=why)


def abandon_webhooks_except(tx: Transaction, clock: Clock, names: Collection[str]) -> int:
    """Give up what waits for webhooks that are not configured any more; return how many that were."""
    left = f"SELECT id, topic FROM delivery WHERE channel = 'webhook' AND {OPEN} ORDER BY seq"
    rows = [row for row in tx.execute(left).fetchall() if row["topic"] not in names]
    for row in rows:
        tx.execute(
            "UPDATE delivery SET status = 'pending', may_be_repeat = 1 WHERE id = ? AND status = 'attempting'", (row["id"],)
        )
        abandon(tx, clock, row["id"], why=f"there is no webhook {row['topic']} any more")
    return len(rows)


def supersede(
    tx: Transaction, clock: Clock, turn_id: str, *, why: str = "newer words were queued before it could be said"
) -> None:
    """Abandon what a turn queued and nobody has begun to say: newer words tell more. What became of an effect is said all the
    same. Operations: ``delivery.abandoned``."""
    waiting = """SELECT id FROM delivery WHERE turn_id = ? AND channel = 'speech' AND status = 'pending' AND NOT tells_effect
        ORDER BY seq"""
    for row in tx.execute(waiting, (turn_id,)).fetchall():
        _end(tx, clock, row["id"], DeliveryStatus.PENDING, DeliveryStatus.ABANDONED, failure=why)


def keep(tx: Transaction, delivery_id: str) -> None:
    """Note that a delivery tells what became of an effect: whoever wants its turn stopped, it is said."""
    tx.execute("UPDATE delivery SET tells_effect = 1 WHERE id = ?", (delivery_id,))


def withdraw(tx: Transaction, clock: Clock, texts: Iterable[str], *, why: str) -> None:
    """Abandon what the appliance wanted to say of itself in these very words and nobody has begun to say. Operations:
    ``delivery.abandoned``."""
    waiting = (
        "SELECT id FROM delivery WHERE text = ? AND turn_id IS NULL AND channel = 'speech' AND status = 'pending' ORDER BY seq"
    )
    for text in texts:
        for row in tx.execute(waiting, (text,)).fetchall():
            _end(tx, clock, row["id"], DeliveryStatus.PENDING, DeliveryStatus.ABANDONED, failure=why)


def open_count(tx: Transaction) -> int:
    """Return how many deliveries are pending or being attempted."""
    return int(tx.execute(f"SELECT count(*) FROM delivery WHERE {OPEN}").fetchone()[0])


def _end(
    tx: Transaction,
    clock: Clock,
    delivery_id: str,
    before: DeliveryStatus,
    after: DeliveryStatus,
    *,
    failure: str = "",
    first_audio_mono_ns: int | None = None,
) -> Delivery:
    columns = "status = ?, failure = ?, first_audio_mono_ns = ?, ended_utc = ?, ended_mono_ns = ?, ended_boot_id = ?"
    ended_at = (utc_text(clock.utc()), clock.monotonic_ns(), clock.boot_id)
    _move(tx, delivery_id, before, columns, (after, failure, first_audio_mono_ns, *ended_at))
    ended = load(tx, delivery_id)
    why = {"why": failure} if failure else {}
    _note(tx, clock, ended, attempts=ended.attempts, may_be_repeat=ended.may_be_repeat, **why)
    return ended


def _move(tx: Transaction, delivery_id: str, before: DeliveryStatus, columns: str, values: tuple[Any, ...]) -> None:
    moved = tx.execute(f"UPDATE delivery SET {columns} WHERE id = ? AND status = ?", (*values, delivery_id, before))
    if moved.rowcount == 0:
        raise StateViolationError(f"delivery {delivery_id} is not {before}", delivery=delivery_id)


def _note(tx: Transaction, clock: Clock, delivery: Delivery, **facts: Any) -> None:
    kind = "queued" if delivery.status is DeliveryStatus.PENDING else str(delivery.status)
    payload: Mapping[str, Any] = {"id": delivery.id, **facts}
    operations.append(tx, clock, OperationLane.P1, f"delivery.{kind}", delivery.id, payload)


def _waited_s(row: sqlite3.Row, clock: Clock) -> float:
    """Time since it was queued. Within one boot by the monotonic clock; across boots wall time counts only if it was disciplined
    at both ends."""
    if row["boot_id"] == clock.boot_id:
        return (clock.monotonic_ns() - int(row["queued_mono_ns"])) / 1e9
    if not (clock.is_synced and row["clock_synced"]):
        return 0.0
    return (clock.utc() - to_utc(row["queued_utc"])).total_seconds()


def _delivery(row: sqlite3.Row) -> Delivery:
    return Delivery(
        id=row["id"],
        seq=row["seq"],
        channel=Channel(row["channel"]),
        turn_id=row["turn_id"],
        language=row["language"],
        lead=row["lead"],
        text=row["text"],
        priority=row["priority"],
        status=DeliveryStatus(row["status"]),
        attempts=row["attempts"],
        may_be_repeat=bool(row["may_be_repeat"]),
        queued_utc=to_utc(row["queued_utc"]),
        queued_mono_ns=row["queued_mono_ns"],
        boot_id=row["boot_id"],
        first_audio_mono_ns=row["first_audio_mono_ns"],
        ended_utc=to_utc_or_none(row["ended_utc"]),
        ended_mono_ns=row["ended_mono_ns"],
        ended_boot_id=row["ended_boot_id"],
        tried_after_seq=row["tried_after_seq"],
        topic=row["topic"] or "",
        payload=to_json_or_none(row["payload"]),
        retain=bool(row["retain"]),
        unsaid=row["unsaid"],
    )
