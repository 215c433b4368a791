"""Words about an alarm or a flood that the plant, or a person, has overtaken while they waited to be said.

Asked when such words are about to be said, of the ledger as it is then: whoever ended, acknowledged, shelved or repeated the
alarm, and whatever restarted since, nothing is told as present that is over.

    raised      announcement and advice: the alarm has gone, is held, or chatters; the question: its announcement was never said
    told again  it is not unacknowledged any more, is held, or chatters
    cleared     it is active again, chatters, or a newer "back to normal" of it waits
    chatters    it is held
    a flood     told again: all of it is acknowledged; its end: there is another flood, or its alarms are back
"""

from __future__ import annotations

import json
import sqlite3

from appliance.contracts.alarm import AlarmState, Disposition
from appliance.contracts.clock import Clock
from appliance.contracts.delivery import PRIORITY_ANSWER
from appliance.contracts.flood import FloodNews
from appliance.contracts.store import Transaction
from appliance.store import alarm_chatter, alarm_events, alarms, floods, inhibitions

_TURN = """SELECT intent, json_extract(context, '$.alarm') AS alarm, json_extract(context, '$.flood.flood') AS flood,
    json_extract(context, '$.flood.news') AS news FROM turn WHERE id = ?"""
_IS_BACK = """SELECT 1 FROM flood_member JOIN alarm USING (activation_id) JOIN alarm now ON now.alarm_id = alarm.alarm_id
    WHERE flood_id = ? AND now.cleared_utc IS NULL"""
_IS_OPEN = "SELECT 1 FROM flood_member JOIN alarm USING (activation_id) WHERE flood_id = ? AND state = 'unacknowledged'"
_IS_HEARD = "SELECT 1 FROM delivery WHERE turn_id = ? AND channel = 'speech' AND (status = 'delivered' OR may_be_repeat = 1)"
_IS_ABANDONED = "SELECT 1 FROM delivery WHERE turn_id = ? AND channel = 'speech' AND status = 'abandoned' AND failure = ?"
_IS_QUESTION = "SELECT 1 FROM confirmation WHERE delivery_id = ?"
_NEWER_CLEAR = """SELECT 1 FROM delivery JOIN turn ON turn.id = delivery.turn_id
    WHERE delivery.status IN ('pending', 'attempting') AND delivery.status = 'pending' AND delivery.channel = 'speech'
    AND delivery.seq > ?
    AND turn.intent = 'alarm_cleared' AND json_extract(turn.context, '$.alarm.alarm_id') = ?"""


def is_overtaken(tx: Transaction, clock: Clock, delivery: sqlite3.Row, stale: str) -> bool:
    """Whether a pending delivery tells of an alarm what is so no more. ``stale`` marks deliveries that were.

    An announcement that nobody has heard, of an alarm that is still there but held or chattering, is made one that was held: it
    is told when nothing holds it any more.
    """
    if delivery["turn_id"] is None or delivery["priority"] == PRIORITY_ANSWER:
        return False  # who asked is answered
    turn = tx.execute(_TURN, (delivery["turn_id"],)).fetchone()
    if turn is not None and turn["flood"] is not None:
        return _is_news_overtaken(tx, turn["flood"], turn["news"])
    if turn is None or turn["alarm"] is None:
        return False
    told = json.loads(turn["alarm"])
    alarm_id, activation = str(told.get("alarm_id")), str(told.get("activation_id"))
    match turn["intent"]:
        case "alarm_raised":
            return _is_raise_overtaken(tx, clock, delivery, alarm_id, activation, stale)
        case "alarm_again":
            alarm = alarms.by_activation(tx, activation)
            is_open = alarm is not None and alarm.state is AlarmState.UNACKNOWLEDGED
            return not is_open or _kept_by(tx, clock, alarm_id) is not None
        case "alarm_cleared":
            is_chattering = alarm_chatter.of_alarm(tx, clock, alarm_id) is not None
            newer = tx.execute(_NEWER_CLEAR, (delivery["seq"], alarm_id)).fetchone()
            return is_chattering or bool(alarms.active(tx, alarm_id)) or newer is not None
        case "alarm_chatter":
            return inhibitions.strongest(tx, clock, alarm_id) is not None
        case _:
            return False


def _is_news_overtaken(tx: Transaction, flood_id: str, news: str) -> bool:
    """Whether a flood's news are so no more: told again, with all acknowledged; its end, with another one or its alarms back."""
    if news == FloodNews.AGAIN:
        return tx.execute(_IS_OPEN, (flood_id,)).fetchone() is None
    if news not in (FloodNews.OVER, FloodNews.CALM):
        return False
    running = floods.current(tx)
    is_back = news == FloodNews.CALM and tx.execute(_IS_BACK, (flood_id,)).fetchone() is not None
    return is_back or (running is not None and running.id != flood_id)


def _is_raise_overtaken(tx: Transaction, clock: Clock, delivery: sqlite3.Row, alarm_id: str, activation: str, stale: str) -> bool:
    turn_id = delivery["turn_id"]
    is_heard = tx.execute(_IS_HEARD, (turn_id,)).fetchone() is not None
    if not is_heard and tx.execute(_IS_ABANDONED, (turn_id, stale)).fetchone() is not None:
        return True  # nobody knows what it would be about
    if tx.execute(_IS_QUESTION, (delivery["id"],)).fetchone() is not None:
        return False
    alarm = alarms.by_activation(tx, activation)
    if alarm is None or not alarm.is_active:
        return alarm is not None
    kept = _kept_by(tx, clock, alarm_id)
    if kept is not None and not is_heard:
        began = alarm_events.raise_of(tx, activation)
        if began is not None and began.disposition is Disposition.ANNOUNCE:
            alarm_events.hold_otherwise(tx, began.seq, kept)
    return kept is not None


def _kept_by(tx: Transaction, clock: Clock, alarm_id: str) -> Disposition | None:
    """Return what keeps an alarm from being announced now."""
    inhibition = inhibitions.strongest(tx, clock, alarm_id)
    if inhibition is not None:
        return Disposition(inhibition.value)
    return Disposition.CHATTER if alarm_chatter.of_alarm(tx, clock, alarm_id) is not None else None
