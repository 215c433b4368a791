"""Read-only views of the ledger for people: the local API, the CLI and the doctor. Lists are newest first.

In: a :class:`Ledger`. Out: mappings that JSON can carry; JSON columns are decoded, 0/1 columns are booleans. Monotonic stamps
(`*_mono_ns`) compare only within one boot.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from appliance.contracts.errors import Refused
from appliance.contracts.store import Ledger
from appliance.store.sessions import require as require_session

Shown = dict[str, Any]

_TO_DO = {
    "effect": "floorhand unknowns verify {id}; or look at the machine, then floorhand unknowns settle {id}"
    " --as done|not-done --note …",
    "admission": "see with its turn how far it came, then floorhand unknowns settle {id} --as interrupted",
}
_AUDIT = "lane = 'P1' AND (kind GLOB 'audit.*' OR kind = 'interrupt.asked')"

_JSON = frozenset({"payload", "context", "plan", "arguments", "result"})
_BOOLEAN = frozenset(
    {"offline", "clock_synced", "may_be_repeat", "was_unknown", "optional", "asked", "retain", "is_state", "was_missed"}
)

_TURN = """t.seq, t.id, t.session_id, t.admission_id, t.lane, t.language, t.state,
    CASE WHEN t.plan ->> '$.source' LIKE 'model:%' THEN nullif(t.plan ->> '$.intent', 'not_understood')
         ELSE coalesce(t.plan ->> '$.intent', t.intent) END AS intent, t.plan ->> '$.source' AS source,
    t.blocking_reason, t.failure, t.state_hash, t.lifespan_s, t.offline, t.opened_utc, t.updated_utc"""


async def alarms(ledger: Ledger, *, live_only: bool, limit: int) -> list[Shown]:
    """Alarm activations; ``live_only`` leaves out those that are back to normal."""
    where = "WHERE state <> 'normal'" if live_only else ""
    return await _rows(ledger, f"SELECT * FROM alarm {where} ORDER BY seq DESC LIMIT ?", limit)


async def alarm(ledger: Ledger, activation_id: str) -> Shown:
    """One activation with its journalled events, oldest first.

    Raises:
        Refused: there is no such activation.
    """
    found = await _rows(ledger, "SELECT * FROM alarm WHERE activation_id = ?", activation_id)
    if not found:
        cure = "`floorhand alarms list --all` shows those there are."
        raise Refused(f"there is no alarm {activation_id}", activation=activation_id, cure=cure)
    events = await _rows(ledger, "SELECT * FROM alarm_event WHERE activation_id = ? ORDER BY seq", activation_id)
    return found[0] | {"events": events}


async def alarm_journal(
    ledger: Ledger, *, alarm_id: str | None, source: str | None, disposition: str | None, limit: int
) -> list[Shown]:
    """Alarm events with what became of each; all, or of one alarm, source or disposition."""
    return await _rows(
        ledger,
        """SELECT * FROM alarm_event WHERE (?1 IS NULL OR alarm_id = ?1) AND (?2 IS NULL OR source = ?2)
           AND (?3 IS NULL OR disposition = ?3) ORDER BY seq DESC LIMIT ?4""",
        alarm_id,
        source,
        disposition,
        limit,
    )


async def sessions(ledger: Ledger, *, limit: int) -> list[Shown]:
    """Conversations with the number of their turns."""
    return await _rows(
        ledger,
        """SELECT s.*, count(t.seq) AS turns, max(t.updated_utc) AS last_turn_utc
           FROM session s LEFT JOIN turn t ON t.session_id = s.id
           GROUP BY s.id ORDER BY s.opened_utc DESC, s.rowid DESC LIMIT ?""",
        limit,
    )


async def turns(ledger: Ledger, *, session_id: str | None, limit: int) -> list[Shown]:
    """Turns without plan and context, with the counts of their actions; of one session, or (None) of all.

    Raises:
        Refused: there is no such session.
    """
    if session_id is not None:
        await require_session(ledger, session_id)
    return await _rows(
        ledger,
        f"""SELECT {_TURN}, count(a.id) AS actions, count(a.id) FILTER (WHERE a.state = 'done') AS actions_done
            FROM turn t LEFT JOIN action a ON a.turn_id = t.id
            WHERE ?1 IS NULL OR t.session_id = ?1
            GROUP BY t.seq ORDER BY t.seq DESC LIMIT ?2""",
        session_id,
        limit,
    )


async def turn(ledger: Ledger, turn_id: str) -> Shown:
    """One turn whole: plan, context, actions, effects, confirmations and deliveries in the order they came.

    Raises:
        Refused: there is no such turn.
    """
    found = await _rows(ledger, "SELECT * FROM turn WHERE id = ?", turn_id)
    if not found:
        raise Refused(f"there is no turn {turn_id}", turn=turn_id, cure="`floorhand turns list` shows those there are.")
    parts = {
        "actions": "SELECT * FROM action WHERE turn_id = ? ORDER BY position",
        "effects": "SELECT * FROM effect WHERE turn_id = ? ORDER BY seq",
        "confirmations": "SELECT * FROM confirmation WHERE turn_id = ? ORDER BY asked_seq",
        "deliveries": "SELECT * FROM delivery WHERE turn_id = ? ORDER BY seq",
    }
    return found[0] | {name: await _rows(ledger, sql, turn_id) for name, sql in parts.items()}


async def admissions(ledger: Ledger, *, status: str | None, limit: int) -> list[Shown]:
    """Admissions, all or of one status."""
    return await _rows(
        ledger, "SELECT * FROM admission WHERE ?1 IS NULL OR status = ?1 ORDER BY seq DESC LIMIT ?2", status, limit
    )


async def deliveries(ledger: Ledger, *, status: str | None, channel: str | None = None, limit: int) -> list[Shown]:
    """Everything said or sent, all or of one status, of one channel."""
    return await _rows(
        ledger,
        """SELECT * FROM delivery WHERE (?1 IS NULL OR status = ?1) AND (?2 IS NULL OR channel = ?2)
           ORDER BY seq DESC LIMIT ?3""",
        status,
        channel,
        limit,
    )


async def effects(ledger: Ledger, *, limit: int) -> list[Shown]:
    """What was done to the world, with how it became known."""
    return await _rows(ledger, "SELECT * FROM effect ORDER BY seq DESC LIMIT ?", limit)


async def confirmations(ledger: Ledger) -> list[Shown]:
    """Open questions; ``asked`` is true once the question has left the speaker."""
    return await _rows(
        ledger,
        """SELECT c.*, coalesce(d.status = 'delivered', 0) AS asked
           FROM confirmation c LEFT JOIN delivery d ON d.id = c.delivery_id
           WHERE c.status = 'pending' ORDER BY c.asked_seq DESC""",
    )


async def heard(ledger: Ledger, *, limit: int) -> list[Shown]:
    """Utterances of the microphone, oldest first of the newest ``limit``: what was heard, what it was taken for, how fast.

    ``intent`` and ``end_of_speech_to_intent_ms`` are null until the utterance was understood.
    """
    found = await _rows(
        ledger,
        """SELECT a.seq, a.id AS admission_id, a.turn_id, a.payload ->> '$.text' AS text, a.payload ->> '$.engine' AS engine,
                  a.admitted_utc, h.account ->> '$.intent' AS intent, h.account ->> '$.ms' AS end_of_speech_to_intent_ms
           FROM admission a LEFT JOIN (
               SELECT id AS turn_id, context -> '$.heard' AS account FROM turn
               UNION ALL
               SELECT turn.id, answer.value FROM turn, json_each(turn.context, '$.answers') AS answer
           ) h ON h.turn_id = a.turn_id AND h.account ->> '$.admission' = a.id
           WHERE a.door = 'voice' AND a.kind = 'utterance' ORDER BY a.seq DESC LIMIT ?""",
        limit,
    )
    return found[::-1]


async def unknowns(ledger: Ledger) -> list[Shown]:
    """Effects and admissions of which nobody knows how they ended. ``id`` is what :meth:`Core.settle` takes, ``to_do`` what a
    person does about it."""
    found = await _rows(
        ledger,
        """SELECT action_id AS id, 'effect' AS kind, turn_id, tool AS what, arguments, intended_utc AS since_utc, epoch
           FROM effect WHERE status = 'unknown' ORDER BY seq DESC""",
    )
    found += await _rows(
        ledger,
        """SELECT id, 'admission' AS kind, turn_id, door || ' ' || kind AS what, payload AS arguments,
                  admitted_utc AS since_utc, epoch
           FROM admission WHERE status = 'unknown' ORDER BY seq DESC""",
    )
    return [row | {"to_do": _TO_DO[row["kind"]].format(id=row["id"])} for row in found]


async def audit(ledger: Ledger, *, limit: int) -> list[Shown]:
    """What was refused or decided, as the audit log has it."""
    return await _rows(ledger, f"SELECT * FROM operation WHERE {_AUDIT} ORDER BY seq DESC LIMIT ?", limit)


async def work_orders(ledger: Ledger, *, limit: int) -> list[Shown]:
    """Work orders; ``number`` is null until the coordinator gave one."""
    return await _rows(ledger, "SELECT * FROM work_order ORDER BY seq DESC LIMIT ?", limit)


async def sync(ledger: Ledger) -> Shown:
    """Operations per lane: written here, durable at the coordinator, still to go; and how far changes were pulled."""
    lanes = await _rows(
        ledger,
        """SELECT lane, seq AS local, acknowledged_seq AS acknowledged, seq - acknowledged_seq AS pending, hash
           FROM operation_head ORDER BY lane""",
    )
    cursor = await _rows(ledger, "SELECT cursor FROM downlink")
    return {"lanes": lanes, "pulled": cursor[0]["cursor"] if cursor else 0}


def integrity_faults(database: Path) -> list[str]:
    """Check a database that no service has open, reading only. Returns what is wrong, nothing when sound.

    Never call this on the file of a running service: closing it would drop that process' locks if it ran in ours.
    """
    # A database closed in order has no write-ahead log; read as immutable, none is made (it would belong to the reader's user).
    was_closed = not database.with_name(database.name + "-wal").exists()
    how = "immutable=1" if was_closed else "mode=ro"
    try:
        with closing(sqlite3.connect(f"{database.resolve().as_uri()}?{how}", uri=True)) as connection:
            found = [str(row[0]) for row in connection.execute("PRAGMA quick_check(10)")]
            found += [f"row of {row[0]} points to a missing {row[2]}" for row in connection.execute("PRAGMA foreign_key_check")]
    except sqlite3.DatabaseError as error:
        return [str(error)]
    return [fault for fault in found if fault != "ok"]


async def _rows(ledger: Ledger, sql: str, *parameters: Any) -> list[Shown]:
    return [_shown(row) for row in await ledger.fetch(sql, parameters)]


def _shown(row: Mapping[str, Any] | sqlite3.Row) -> Shown:
    names: Sequence[str] = list(row.keys())
    return {name: _value(name, row[name]) for name in names}


def _value(name: str, stored: Any) -> Any:
    if name in _JSON and isinstance(stored, str):
        return json.loads(stored)
    return bool(stored) if name in _BOOLEAN and stored is not None else stored
