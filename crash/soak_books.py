"""Looks into the ledger when all is over: is everything there that was accepted, once, in order, and true?"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from appliance.contracts.errors import Corrupt
from appliance.contracts.operation import OperationLane
from appliance.store import operations


@dataclass
class Findings:
    """What is wrong, each in words; and how much there was."""

    lost: list[str] = field(default_factory=list)
    doubled: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    admissions: int = 0
    lanes: int = 0
    unknown: int = 0
    effects: dict[str, int] = field(default_factory=dict)
    failures: dict[str, int] = field(default_factory=dict)


def _events(db: sqlite3.Connection) -> set[tuple[str, str, str]]:
    return {tuple(row) for row in db.execute("SELECT alarm_id, activation, change FROM alarm_event")}


class Books:
    """The ledger of a core, read only."""

    def __init__(self, database: Path) -> None:
        self._database = database
        self.findings = Findings()

    def check(
        self, alarms: Iterable[tuple[str, str, str]], answered: Mapping[str, str], writes: Iterable[tuple[str, float]]
    ) -> Findings:
        """Compare with what the broker acknowledged, what the console was told, and what the plant was written."""
        with closing(sqlite3.connect(f"{self._database.resolve().as_uri()}?mode=ro", uri=True)) as db:
            db.row_factory = sqlite3.Row
            self._inputs(db, set(alarms), answered)
            self._ends(db)
            self._once(db)
            self._order(db)
            self._effects(db, Counter(writes))
            self._chains(db)
        return self.findings

    def missing(self, alarms: Iterable[tuple[str, str, str]]) -> set[tuple[str, str, str]]:
        """Return the events of those that the broker acknowledged which the core has not stored. It may be running."""
        with closing(sqlite3.connect(f"{self._database.resolve().as_uri()}?mode=ro", uri=True)) as db:
            return set(alarms) - _events(db)

    def _inputs(self, db: sqlite3.Connection, alarms: set[tuple[str, str, str]], answered: Mapping[str, str]) -> None:
        self.findings.lost += [f"event {' '.join(event)}" for event in sorted(alarms - _events(db))]
        admissions = {row[0] for row in db.execute("SELECT id FROM admission")}
        self.findings.lost += [f"question {key}" for key, admission in answered.items() if admission not in admissions]
        self.findings.admissions = len(admissions)
        self.findings.lanes = db.execute("SELECT count(DISTINCT lane) FROM admission").fetchone()[0]

    def _ends(self, db: sqlite3.Connection) -> None:
        open_ = Counter(row[0] for row in db.execute("SELECT status FROM admission WHERE status <> 'terminal'"))
        self.findings.unknown = open_.pop("unknown", 0)
        self.findings.wrong += [f"{count} admissions left {status}" for status, count in open_.items()]
        left = Counter(row[0] for row in db.execute("SELECT status FROM delivery WHERE status IN ('pending', 'attempting')"))
        self.findings.wrong += [f"{count} deliveries left {status}" for status, count in left.items()]
        for row in db.execute("SELECT failure, count(*) AS times FROM turn WHERE failure <> '' GROUP BY 1"):
            self.findings.failures[row["failure"]] = row["times"]
        # "database is locked" is nobody's business but the ledger's own (R9).
        self.findings.wrong += [
            f"a turn failed: {why}" for why in self.findings.failures if "locked" in why or "another program" in why
        ]
        for row in db.execute("SELECT id, resumes FROM admission WHERE outcome = 'interrupted' AND turn_id IS NOT NULL"):
            self._followed(db, row["id"])

    def _followed(self, db: sqlite3.Connection, admission: str) -> None:
        """What was interrupted goes on in a successor, or its turn has ended with a reason."""
        if db.execute("SELECT 1 FROM admission WHERE resumes = ?", (admission,)).fetchone() is not None:
            return
        looked = "SELECT state, failure FROM turn JOIN admission ON turn.id = turn_id WHERE admission.id = ?"
        state, failure = db.execute(looked, (admission,)).fetchone()
        if state in ("planning", "executing", "listening"):
            self.findings.wrong.append(f"{admission} was interrupted and nobody goes on with it: its turn is {state} {failure}")

    def _once(self, db: sqlite3.Connection) -> None:
        rows = db.execute(
            """SELECT payload ->> '$.activation_id' AS activation, payload ->> '$.change' AS change, count(*) AS times
               FROM admission WHERE kind = 'alarm' AND payload ->> '$.notice' IS NULL GROUP BY 1, 2 HAVING times > 1"""
        )
        self.findings.doubled += [f"{row['activation']} {row['change']} admitted {row['times']} times" for row in rows]

    def _order(self, db: sqlite3.Connection) -> None:
        """In each lane inputs of one priority began in the order in which they came in."""
        started: dict[tuple[str, int], int] = {}
        rows = db.execute(
            """SELECT admission.lane, admission.priority, admission.seq FROM operation JOIN admission ON admission.id = entity
               WHERE operation.lane = 'P1' AND operation.kind = 'admission.started' AND admission.resumes IS NULL
               ORDER BY operation.seq"""
        )
        for lane, priority, seq in rows:
            if seq < started.get((lane, priority), 0):
                self.findings.wrong.append(f"lane {lane} began {seq} after {started[lane, priority]}")
            started[lane, priority] = seq

    def _effects(self, db: sqlite3.Connection, writes: Counter[tuple[str, float]]) -> None:
        """The plant was written what the ledger says, each once. A write called unknown may have happened or not."""
        self.findings.doubled += [f"{key} = {value} written {n} times" for (key, value), n in writes.items() if n > 1]
        said: dict[tuple[str, float], str] = {}
        for row in db.execute("SELECT arguments ->> '$.key' AS key, arguments ->> '$.value' AS value, status FROM effect"
                              " WHERE tool = 'write_tag'"):  # fmt: skip
            said[row["key"], float(row["value"])] = row["status"]
        self.findings.effects = dict(Counter(said.values()))
        for write in writes:
            if said.get(write) not in ("applied", "unknown"):
                self.findings.wrong.append(f"{write[0]} = {write[1]} was written, and the ledger says {said.get(write)}")
        self.findings.wrong += [
            f"{key} = {value} was not written, and the ledger says so" for (key, value), status in said.items()
            if status == "applied" and not writes[key, value]
        ]  # fmt: skip

    def _chains(self, db: sqlite3.Connection) -> None:
        (verdict,) = db.execute("PRAGMA integrity_check(1)").fetchone()
        if verdict != "ok":
            self.findings.wrong.append(f"damaged: {verdict}")
        for lane in OperationLane:
            try:
                operations.verify_chain(db, lane)
            except Corrupt as error:
                self.findings.wrong.append(error.message)


def writes_of(reports: Iterable[Mapping[str, Any]]) -> list[tuple[str, float]]:
    """Return what the plant reports to have been written."""
    return [(str(report["tag"]), float(report["value"])) for report in reports if report.get("event") == "write_received"]
