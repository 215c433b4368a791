"""Admissions: every input as a row before it is acknowledged. Status: queued -> started -> unknown -> terminal, never back."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from appliance.contracts import lane as lanes
from appliance.contracts.admission import Admission, AdmissionStatus, Arrival, Door, Outcome, Request, RequestKind
from appliance.contracts.clock import Clock, IdSource
from appliance.contracts.errors import Fault, Refused
from appliance.contracts.operation import OperationLane
from appliance.contracts.store import Transaction
from appliance.foundation.supervisor import contained_call
from appliance.store import operations
from appliance.store.columns import json_text, to_json, to_utc, utc_text

# Naming the partial index' own condition, and where they are ordered the index itself, keeps these queries on it, however long
# the history behind it grows: SQLite would rather read all of it in order than sort the few rows that are open.
_OPEN = "status IN ('queued', 'started', 'unknown')"

# Whether something runs, or waits for a turn or an answer, in the lane :own. Indexed, and asked of few lanes.
_HAS_WORK = f"""(EXISTS (SELECT 1 FROM admission AS own WHERE own.{_OPEN} AND own.lane = :own)
    OR EXISTS (SELECT 1 FROM turn WHERE state IN ('planning', 'executing', 'confirming') AND turn.lane = :own))"""

BY_ID = "SELECT * FROM admission WHERE id = ?"
"""Query of one admission, for :func:`to_admission`."""

STATE_OF = "SELECT id, status, outcome, turn_id FROM admission WHERE id = ?"
"""Query of how far an admission is."""

NEXT = f"""
WITH taken (lane) AS (
    SELECT value FROM json_each(?1)
    UNION SELECT lane FROM admission WHERE {_OPEN} AND status = 'started'
    UNION SELECT turn.lane FROM admission JOIN turn ON turn.id = admission.turn_id
          WHERE admission.{_OPEN} AND admission.status = 'started'
), waiting AS (
    SELECT lane, priority, CASE
        WHEN priority >= ?7 THEN priority
        WHEN boot_id <> ?4 THEN max(priority, ?8)
        ELSE max(priority, min(?8, priority + (?5 - admitted_mono_ns) / ?6))
    END AS urgency
    FROM admission WHERE status = 'queued' AND kind <> ?2 AND (kind = 'interjection') = ?3
        AND lane NOT IN (SELECT lane FROM taken)
), free_lane AS (
    SELECT lane, max(urgency) AS urgency, max(priority) AS priority FROM waiting GROUP BY lane
)
SELECT admission.*, free_lane.priority < ?7 AND EXISTS (SELECT 1 FROM waiting WHERE priority >= ?7) AS passes_alarm
FROM admission JOIN free_lane USING (lane) WHERE status = 'queued' AND kind <> ?2 AND (kind = 'interjection') = ?3
ORDER BY urgency DESC, kind = 'resume' DESC,
    kind = 'interjection' AND {_HAS_WORK.replace(":own", f"substr(admission.lane, {len(lanes.CONTROL) + 1})")} DESC, seq LIMIT 1
"""
"""Query of the admission to start next, and whether it goes before an alarm that waits.

Given: a JSON list of lanes and a kind (or an empty text) to leave out; whether only interjections are meant, or all others; this
boot, its time in ns, after how many ns an admission is one priority more urgent, from which priority on that is not so, and the
priority that waiting leads to at most. What waits since an earlier boot has waited longest.

Lanes compete by their most urgent admission; inside a lane it is first come, first served, except that interrupted work
goes on before anything that came after it. A lane with a started admission, or with a turn that one is bound to, waits.
Of interjections those go first whose speaker has work that they may be about.
"""

STEERING = f"""SELECT id, lane, arrival FROM admission INDEXED BY admission_open
    WHERE {_OPEN} AND status = 'queued' AND arrival <> 'queue' AND lane IN (SELECT value FROM json_each(?1)) ORDER BY seq"""
"""Query of what waits to join a running turn, in the order it came, given a JSON list of lanes.

It joins ahead of what waits in the lane for a turn of its own: that is what was asked for. If the turn ends first, it is one of
these itself, and its turn comes in the order it came.
"""

_NEAR = 1_000  # admissions looked back over: more within the seconds that count are a flood already
NEWEST_SEQ = "(SELECT coalesce(max(seq), 0) FROM admission)"
"""SQL of the number of the newest admission: what has a larger one came later, whatever the clocks say."""

NEWEST_ALARM = "SELECT coalesce(max(seq), 0) AS seq FROM admission WHERE status = 'queued' AND kind = 'alarm'"
"""Query of the newest alarm that waits, 0 without one."""

RAISE_BEFORE = f"""SELECT admitted_mono_ns, boot_id FROM admission WHERE seq < ?1 AND seq > ?1 - {_NEAR} AND kind = 'alarm'
    AND CASE WHEN json_valid(payload) THEN payload ->> '$.change' = 'raised' AND payload ->> '$.notice' IS NULL END
    ORDER BY seq DESC LIMIT 1"""
"""Query of when the newest alarm before an admission was raised."""


_RUNNING = f"""
SELECT id FROM admission WHERE {_OPEN} AND status = 'started' AND lane IN (?, ?)
UNION ALL SELECT admission.id FROM turn CROSS JOIN admission ON admission.turn_id = turn.id
WHERE turn.state IN ('planning', 'executing', 'confirming') AND turn.lane IN (?, ?) AND admission.status = 'started' LIMIT 1
"""


def insert(
    tx: Transaction, clock: Clock, ids: IdSource, request: Request, digest: str, *, resumes: str | None = None
) -> Admission:
    """Store a request as queued. ``digest`` is of its payload. Appends ``admission.queued`` (P1), without the payload."""
    admission_id = ids.mint("ad")
    tx.execute(
        "INSERT INTO admission (id, door, kind, lane, dedupe_key, digest, payload, priority, arrival, status, resumes,"
        " admitted_utc, admitted_mono_ns, boot_id, clock_synced) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 'queued', ?, ?, ?, ?, ?)",
        (
            admission_id,
            request.door,
            request.kind,
            request.lane,
            request.dedupe_key,
            digest,
            json_text(request.payload),
            request.priority,
            request.arrival,
            resumes,
            utc_text(clock.utc()),
            clock.monotonic_ns(),
            clock.boot_id,
            clock.is_synced,
        ),
    )
    payload = {
        "door": str(request.door),
        "kind": str(request.kind),
        "lane": request.lane,
        "key": request.dedupe_key,
        "digest": digest,
        "priority": request.priority,
        "arrival": str(request.arrival),
        "resumes": resumes,
    }
    operations.append(tx, clock, OperationLane.P1, "admission.queued", admission_id, payload)
    return by_id(tx, admission_id)


def start(tx: Transaction, clock: Clock, admission_id: str, epoch: int, turn_id: str) -> Admission:
    """Start a queued admission for a turn, which is stored already. Appends ``admission.started`` (P1).

    Raises:
        Refused: it is not queued any more, or its lane or the turn's is busy: there is one turn a lane, ever.
    """
    admission = by_id(tx, admission_id)
    if admission.status is not AdmissionStatus.QUEUED:
        raise Refused(f"admission {admission_id} is {admission.status}, not queued", admission=admission_id)
    lanes = (admission.lane, tx.execute("SELECT lane FROM turn WHERE id = ?", (turn_id,)).fetchone()["lane"])
    running = tx.execute(_RUNNING, lanes * 2).fetchone()
    if running is not None:
        raise Refused(f"lane {' or '.join(sorted(set(lanes)))} is busy with {running['id']}", running=running["id"])
    tx.execute("UPDATE admission SET status = 'started', epoch = ?, turn_id = ? WHERE id = ?", (epoch, turn_id, admission_id))
    begun = replace(admission, status=AdmissionStatus.STARTED, epoch=epoch, turn_id=turn_id)
    return _told(tx, clock, begun, "started", {"turn": turn_id, "epoch": epoch})


def take_up(
    tx: Transaction, clock: Clock, admission_id: str, epoch: int, turn_id: str, outcome: Outcome = Outcome.DONE
) -> Admission:
    """Let a running turn take up a queued admission: started and ended in one transaction, in the lane the turn keeps busy.

    The caller changes the turn in the same transaction, so that what was asked is either still queued or part of the turn.
    Appends ``admission.started`` and ``admission.terminal`` (P1).

    Raises:
        Refused: it is not queued any more.
    """
    admission = by_id(tx, admission_id)
    if admission.status is not AdmissionStatus.QUEUED:
        raise Refused(f"admission {admission_id} is {admission.status}, not queued", admission=admission_id)
    tx.execute("UPDATE admission SET status = 'started', epoch = ?, turn_id = ? WHERE id = ?", (epoch, turn_id, admission_id))
    _told(tx, clock, admission, "started", {"turn": turn_id, "epoch": epoch})
    return settle(tx, clock, admission_id, outcome)


def let_wait(tx: Transaction, admission_id: str) -> None:
    """Let a queued admission wait for a turn of its own after all, instead of joining the running one."""
    tx.execute("UPDATE admission SET arrival = 'queue' WHERE id = ? AND status = 'queued'", (admission_id,))


def doubt(tx: Transaction, clock: Clock, admission_id: str) -> Admission:
    """Mark a started admission whose process is gone. Appends ``admission.unknown`` (P1).

    Raises:
        Refused: it is not started.
    """
    admission = by_id(tx, admission_id)
    if admission.status is not AdmissionStatus.STARTED:
        raise Refused(f"admission {admission_id} is {admission.status}, not started", admission=admission_id)
    tx.execute("UPDATE admission SET status = 'unknown' WHERE id = ?", (admission_id,))
    doubted = replace(admission, status=AdmissionStatus.UNKNOWN)
    return _told(tx, clock, doubted, "unknown", {"turn": admission.turn_id})


def settle(tx: Transaction, clock: Clock, admission_id: str, outcome: Outcome, *, by: str = "") -> Admission:
    """End an admission. ``by`` names the person who settled an unknown. Appends ``admission.terminal`` (P1).

    Raises:
        Refused: it has ended already.
    """
    admission = by_id(tx, admission_id)
    if admission.status is AdmissionStatus.TERMINAL:
        raise Refused(f"admission {admission_id} has ended already: {admission.outcome}", admission=admission_id)
    tx.execute(
        "UPDATE admission SET status = 'terminal', outcome = ?, ended_utc = ? WHERE id = ?",
        (outcome, utc_text(clock.utc()), admission_id),
    )
    ended = replace(admission, status=AdmissionStatus.TERMINAL, outcome=outcome)
    return _told(tx, clock, ended, "terminal", {"turn": admission.turn_id, "outcome": str(outcome), "by": by})


def by_id(tx: Transaction, admission_id: str) -> Admission:
    """Return one admission.

    Raises:
        Refused: no such admission.
    """
    row = tx.execute("SELECT * FROM admission WHERE id = ?", (admission_id,)).fetchone()
    if row is None:
        raise Refused(f"there is no admission {admission_id}", admission=admission_id)
    return to_admission(row)


def by_key(tx: Transaction, dedupe_key: str) -> tuple[Admission, str] | None:
    """Return the admission of a duplicate key with its payload digest, or None."""
    row = tx.execute("SELECT * FROM admission WHERE dedupe_key = ?", (dedupe_key,)).fetchone()
    return None if row is None else (to_admission(row), row["digest"])


def count_queued(tx: Transaction) -> int:
    """Return how many admissions wait."""
    count: int = tx.execute("SELECT count(*) FROM admission WHERE status = 'queued'").fetchone()[0]
    return count


def count_queued_in(tx: Transaction, lane: str) -> int:
    """Return how many admissions wait in a lane."""
    sql = f"SELECT count(*) FROM admission WHERE lane = ? AND {_OPEN} AND status = 'queued'"
    count: int = tx.execute(sql, (lane,)).fetchone()[0]
    return count


def has_work(tx: Transaction, lane: str) -> bool:
    """Whether something runs in a lane, or waits there for a turn or an answer."""
    return bool(tx.execute(f"SELECT {_HAS_WORK}", {"own": lane}).fetchone()[0])


def count_queued_of(tx: Transaction, kind: RequestKind) -> int:
    """Return how many admissions of a kind wait."""
    count: int = tx.execute("SELECT count(*) FROM admission WHERE status = 'queued' AND kind = ?", (kind,)).fetchone()[0]
    return count


def waiting_of(tx: Transaction, kind: RequestKind) -> list[Admission]:
    """Return the queued admissions of a kind in the order they came. A row that cannot be read ends when its turn comes."""
    waiting = "SELECT * FROM admission INDEXED BY admission_queue WHERE status = 'queued' AND kind = ? ORDER BY seq"
    return list(_readable(tx.execute(waiting, (kind,))))


def resuming(tx: Transaction, turn_id: str) -> list[str]:
    """Return the ids of the queued admissions that go on with a turn."""
    rows = tx.execute(
        """SELECT id FROM admission INDEXED BY admission_queue WHERE status = 'queued' AND kind = 'resume'
           AND CASE WHEN json_valid(payload) THEN payload ->> '$.turn_id' = ? END ORDER BY seq""",
        (turn_id,),
    )
    return [row["id"] for row in rows]


def newest_before(tx: Transaction, kind: RequestKind, seq: int) -> Iterator[Admission]:
    """Yield the admissions of a kind that came not long before ``seq``, newest first."""
    near = "SELECT * FROM admission WHERE seq < ? AND seq > ? AND kind = ? ORDER BY seq DESC"
    yield from _readable(tx.execute(near, (seq, seq - _NEAR, kind)))


def started(tx: Transaction) -> list[str]:
    """Return the ids of the started admissions in the order they came."""
    under_way = f"SELECT id FROM admission INDEXED BY admission_open WHERE {_OPEN} AND status = 'started' ORDER BY seq"
    return [row["id"] for row in tx.execute(under_way)]


def restarts_of(tx: Transaction, admission_id: str) -> int:
    """Return how many restarts in a row an admission has already carried its turn through."""
    row = tx.execute(
        "WITH RECURSIVE chain (resumes, depth) AS ("
        " SELECT resumes, 0 FROM admission WHERE id = ?"
        " UNION ALL SELECT earlier.resumes, chain.depth + 1 FROM chain JOIN admission AS earlier ON earlier.id = chain.resumes"
        f" WHERE chain.depth < {_NEAR}"  # a row that goes on with itself would never end
        ") SELECT max(depth) FROM chain",
        (admission_id,),
    ).fetchone()
    return int(row[0] or 0)


def to_admission(row: sqlite3.Row) -> Admission:
    """Read a row of ``admission``."""
    return Admission(
        seq=row["seq"],
        id=row["id"],
        door=Door(row["door"]),
        kind=RequestKind(row["kind"]),
        lane=row["lane"],
        dedupe_key=row["dedupe_key"],
        payload=to_json(row["payload"]),
        priority=row["priority"],
        arrival=Arrival(row["arrival"]),
        status=AdmissionStatus(row["status"]),
        outcome=None if row["outcome"] is None else Outcome(row["outcome"]),
        epoch=row["epoch"],
        resumes=row["resumes"],
        turn_id=row["turn_id"],
        admitted_utc=to_utc(row["admitted_utc"]),
        admitted_mono_ns=row["admitted_mono_ns"],
        boot_id=row["boot_id"],
        clock_synced=bool(row["clock_synced"]),
    )


def _readable(rows: Iterable[sqlite3.Row]) -> Iterator[Admission]:
    for row in rows:
        with contextlib.suppress(Fault):
            yield contained_call(partial(to_admission, row), is_known=True)


def _told(tx: Transaction, clock: Clock, admission: Admission, what: str, payload: Mapping[str, Any]) -> Admission:
    operations.append(tx, clock, OperationLane.P1, f"admission.{what}", admission.id, payload)
    return admission
