"""Holds a ledger against the world: what was lost, what was done twice, and what else is not as it must be.

:func:`audit` may be asked at any moment, also of what a kill left; with ``ended`` it also asks for everything that must hold once
the story is over and nothing runs.
"""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Iterable
from contextlib import closing
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from appliance.contracts.errors import Corrupt
from appliance.contracts.operation import OperationLane
from appliance.delivery.json_body import MAY_BE_REPEAT
from appliance.store import deliveries, operations
from crash.world import ACKNOWLEDGED, MACHINE, OFFERED, PUBLISHED, REPORTS, SPOKEN, World

_ADMISSION_ORDER = ("admission.queued", "admission.started", "admission.unknown", "admission.terminal")
_TURN_ENDS = ("turn.idle", "turn.failed", "turn.abandoned")
_SENT = ("alarm:", "utterance:", "ask:")
_ENDED = ("delivered", "failed", "abandoned")


@dataclass(slots=True)
class Findings:
    """What an audit found; each entry is a sentence. ``unknown`` counts effects whose outcome nobody knew for a while."""

    lost: list[str] = field(default_factory=list)
    doubled: list[str] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)
    unknown: int = 0
    unknown_done: int = 0
    repeated: int = 0
    resumed: int = 0

    @property
    def ok(self) -> bool:
        """Whether every invariant holds."""
        return not (self.lost or self.doubled or self.broken)

    def to_json(self) -> dict[str, Any]:
        """Return the fields."""
        return asdict(self)


class Books:
    """One ledger, read only, and the world it acted on. ``mark`` is what a repeated sentence begins with."""

    def __init__(self, db: sqlite3.Connection, world: World, mark: str) -> None:
        self._db = db
        self._world = world
        self._mark = mark
        self.found = Findings()

    def check_always(self) -> None:
        """What holds at every moment."""
        self._file()
        if not self.rows("SELECT 1 FROM sqlite_schema WHERE name = 'interrupt'"):
            self._claim(self.found.lost, not self._world.seen(ACKNOWLEDGED), "inputs were acknowledged without a ledger")
            return
        self._inputs()
        self._effects()
        self._spoken()
        self._published()
        self._histories()
        self._rows_of_tools()

    def check_ended(self) -> None:
        """What holds once nothing is left to be done, said or sent."""
        found = self.found
        self._none(found.lost, "admission {id} is {status}", self.rows("SELECT * FROM admission WHERE status <> 'terminal'"))
        self._none(found.lost, "delivery {id} is {status}", self.rows(f"SELECT * FROM delivery WHERE status NOT IN {_ENDED}"))
        self._none(found.broken, "delivery {id} failed: {failure}", self.rows("SELECT * FROM delivery WHERE status = 'failed'"))
        self._none(
            found.broken,
            "effect {action_id} is {status}",
            self.rows("SELECT * FROM effect WHERE status IN ('intended', 'unknown')"),
        )
        self._none(
            found.lost,
            "admission {id} was interrupted and nothing follows it",
            self.rows(
                "SELECT a.id FROM admission a JOIN turn ON turn.id = a.turn_id WHERE a.outcome = 'interrupted'"
                " AND turn.state NOT IN ('failed', 'abandoned') AND NOT EXISTS (SELECT 1 FROM admission b WHERE b.resumes = a.id)"
            ),
        )
        self._none(
            found.lost,
            "turn {id} is {state}",
            self.rows("SELECT * FROM turn WHERE state NOT IN ('idle', 'confirming', 'failed', 'abandoned')"),
        )
        self._none(
            found.lost,
            "{dedupe_key} got no answer",
            self.rows(
                "SELECT dedupe_key FROM admission WHERE kind IN ('utterance', 'interjection') AND turn_id IS NOT NULL"
                " AND NOT EXISTS (SELECT 1 FROM delivery WHERE delivery.turn_id = admission.turn_id AND channel = 'speech')"
                " AND NOT EXISTS (SELECT 1 FROM interrupt WHERE interrupt.turn_id = admission.turn_id)"
            ),
        )
        self._claim(found.broken, bool(self.rows("SELECT 1 FROM owner WHERE ended_utc IS NOT NULL")), "no receipt was left")

    def check_story(self, keys: Iterable[str]) -> None:
        """What holds once the story with these inputs is over: everything was done, or is known not to have been."""
        found = self.found
        acknowledged = {each["key"] for each in self._world.seen(ACKNOWLEDGED)}
        self._none(found.lost, "{} was not taken", set(keys) - acknowledged)
        self._none(
            found.lost,
            "effect {action_id} was not done and nobody doubted it",
            self.rows("SELECT * FROM effect WHERE status = 'none' AND NOT was_unknown"),
        )
        self._none(
            found.lost,
            "turn {id} ended {state}: {failure}",
            self.rows(
                "SELECT id, state, failure FROM turn WHERE state <> 'idle' AND NOT EXISTS"
                " (SELECT 1 FROM effect WHERE effect.turn_id = turn.id AND effect.status = 'none')"
                " AND NOT EXISTS (SELECT 1 FROM interrupt WHERE interrupt.turn_id = turn.id)"
            ),
        )

    def rows(self, sql: str, *parameters: Any) -> list[dict[str, Any]]:
        """Read rows as dicts."""
        return [dict(row) for row in self._db.execute(sql, parameters)]

    # parts ------------------------------------------------------------------------------------------------------------
    def _file(self) -> None:
        faults = [row[0] for row in self._db.execute("PRAGMA integrity_check") if row[0] != "ok"]
        self._none(self.found.broken, "the file is damaged: {}", faults)
        self._none(self.found.broken, "foreign keys dangle: {}", (tuple(r) for r in self._db.execute("PRAGMA foreign_key_check")))
        if self.rows("SELECT 1 FROM sqlite_schema WHERE name = 'operation'"):
            for lane in OperationLane:
                try:
                    operations.verify_chain(self._db, lane)
                except Corrupt as error:
                    self.found.broken.append(f"the log of lane {lane} does not verify: {error.message}")

    def _inputs(self) -> None:
        recorded = {row["key"] for row in self.rows("SELECT key FROM alarm_event")}
        recorded |= {row["dedupe_key"] for row in self.rows("SELECT dedupe_key FROM admission WHERE door <> 'recovery'")}
        offered = {each["key"] for each in self._world.seen(OFFERED)}
        acknowledged = {each["key"] for each in self._world.seen(ACKNOWLEDGED)}
        self._none(self.found.lost, "{} was acknowledged and is not recorded", acknowledged - recorded)
        sent = {key for key in recorded if key.startswith(_SENT)}  # and not what the appliance tells itself
        self._none(self.found.broken, "{} is recorded and nobody sent it", sent - offered)

    def _effects(self) -> None:
        """At most one deed for each intent, none without one, and the ledger's word on it true."""
        done = Counter(_write(each) for each in self._world.seen(MACHINE))
        done += Counter(each["path"] for each in self._world.seen(REPORTS))
        intended, possible, applied = Counter[str](), Counter[str](), Counter[str]()
        turns = {row["id"]: row["opened_utc"][:10] for row in self.rows("SELECT id, opened_utc FROM turn")}
        for row in self.rows("SELECT * FROM effect"):
            arguments = json.loads(row["arguments"])
            is_write = row["tool"] == "write_tag"
            deed = _write(arguments) if is_write else f"reports/{turns[row['turn_id']]}-{row['turn_id']}.md"
            intended[deed] += 1
            possible[deed] += row["status"] != "none"
            applied[deed] += row["status"] == "applied"
            self.found.unknown += row["was_unknown"]
            self.found.unknown_done += row["was_unknown"] and row["status"] == "applied"
        self._none(self.found.doubled, "{} happened more often than it was intended", done - intended)
        self._none(self.found.broken, "{} happened and is recorded as not done", (done & intended) - possible)
        self._none(self.found.lost, "{} is recorded as done and did not happen", applied - done)

    def _spoken(self) -> None:
        """Each sentence is known by its delivery."""
        said = [(each["delivery"], each["words"].startswith(self._mark)) for each in self._world.seen(SPOKEN)]
        self._went_out(SPOKEN, said, [(row["id"], row) for row in self._of_channel("speech")])

    def _published(self) -> None:
        """Each message is known by what it tells: nothing else of it reaches the broker."""
        sent = []
        for each in self._world.seen(PUBLISHED):
            is_marked = bool(each["payload"].pop(MAY_BE_REPEAT, False))
            sent.append((_message(each["topic"], each["payload"]), is_marked))
        queued = [(_message(row["topic"], json.loads(row["payload"])), row) for row in self._of_channel("mqtt")]
        self._went_out(PUBLISHED, sent, queued)

    def _of_channel(self, channel: str) -> list[dict[str, Any]]:
        return self.rows("SELECT * FROM delivery WHERE channel = ? ORDER BY seq", channel)

    def _went_out(self, where: str, out: list[tuple[str, bool]], queued: list[tuple[str, dict[str, Any]]]) -> None:
        """Each delivery went out once, or again with its mark; what counts as delivered did go out."""
        found = self.found
        known, times = Counter(name for name, _ in queued), Counter(name for name, _ in out)
        unmarked = Counter(name for name, is_marked in out if not is_marked)
        delivered = Counter(name for name, row in queued if row["status"] == "delivered")
        self._none(found.broken, f"{where}: {{}} is not in the ledger", times.keys() - known.keys())
        self._none(found.doubled, f"{where}: {{}} went out again without a mark", unmarked - known)
        self._none(found.lost, f"{where}: {{}} is delivered and never went out", delivered - times)
        found.repeated += (times - known).total()
        most = deliveries.MOST_ATTEMPTS
        self._none(found.broken, f"{where}: {{id}} was tried {{attempts}} times", [r for _, r in queued if r["attempts"] > most])

    def _histories(self) -> None:
        """One turn a lane, in the order they came; nothing that ended begins again."""
        admissions = {row["id"]: row for row in self.rows("SELECT * FROM admission")}
        lanes = {row["id"]: row["lane"] for row in self.rows("SELECT id, lane FROM turn")}
        running: dict[str, str] = {}
        last_started: dict[str, int] = {}
        reached: dict[str, int] = {}
        ended: set[str] = set()
        for row in self.rows("SELECT kind, entity, payload FROM operation WHERE lane = 'P1' ORDER BY seq"):
            kind, entity = row["kind"], row["entity"]
            if kind.startswith("turn."):
                self._claim(self.found.broken, entity not in ended, f"turn {entity} had ended and became {kind}")
                if kind in _TURN_ENDS:
                    ended.add(entity)
            if kind not in _ADMISSION_ORDER:
                continue
            step = _ADMISSION_ORDER.index(kind)
            self._claim(self.found.broken, step > reached.get(entity, -1), f"admission {entity} went back to {kind}")
            reached[entity] = step
            admission = admissions[entity]
            busy = {admission["lane"], lanes.get(admission["turn_id"], admission["lane"])}
            if kind != "admission.started":
                for lane in [lane for lane, other in running.items() if other == entity]:
                    del running[lane]
                continue
            others = {running[lane] for lane in busy if lane in running}
            taken = [each for each in others if admissions[each]["turn_id"] != admission["turn_id"]]  # a steer joins its turn
            self._none(self.found.broken, f"{entity} began while {{}} had the lane", taken)
            running |= dict.fromkeys(busy, entity)
            if admission["kind"] != "resume":
                before = last_started.get(admission["lane"], 0)
                self._claim(self.found.broken, admission["seq"] > before, f"{entity} began out of its lane's order")
                last_started[admission["lane"]] = admission["seq"]
            self.found.resumed += admission["kind"] == "resume"

    def _rows_of_tools(self) -> None:
        """What ledger tools wrote: once an action that is done."""
        for tool, table, what in (("create_work_order", "work_order", "work order"), ("ask", "confirmation", "question")):
            made = Counter(row["turn_id"] for row in self.rows(f"SELECT turn_id FROM {table}"))
            steps = self.rows("SELECT turn_id, state FROM action WHERE tool = ?", tool)
            begun = Counter(row["turn_id"] for row in steps if row["state"] != "pending")
            done = Counter(row["turn_id"] for row in steps if row["state"] in ("done", "waiting"))
            self._none(self.found.doubled, f"{{}} made one {what} more than it did", made - begun)
            self._none(self.found.lost, f"{{}} did without its {what}", done - made)
        twice = "SELECT turn_id, lead || ' ' || text AS words FROM delivery WHERE turn_id IS NOT NULL AND channel = 'speech'"
        said = Counter((row["turn_id"], row["words"]) for row in self.rows(twice))
        doubted = Counter(row["turn_id"] for row in self.rows("SELECT turn_id FROM effect WHERE was_unknown"))
        # Two steps of a turn that were both cut off are told of in the same words.
        twice_said = [each for each, times in said.items() if times > max(1, doubted[each[0]])]
        self._none(self.found.doubled, "was queued twice: {}", twice_said)

    # findings -----------------------------------------------------------------------------------------------------------
    @staticmethod
    def _claim(where: list[str], holds: bool, else_: str) -> None:
        if not holds:
            where.append(else_)

    @staticmethod
    def _none(where: list[str], says: str, faults: Iterable[Any]) -> None:
        where.extend(says.format(**each) if isinstance(each, dict) else says.format(each) for each in faults)


def audit(ledger: Path, mark: str, ended: Iterable[str] | None = None) -> Findings:
    """Audit a ledger and the world in its folder. ``ended`` are the keys of all inputs of a story that is over."""
    world = World(ledger.parent)
    if not ledger.exists() or not ledger.stat().st_size:
        return Findings(lost=[f"{each['key']} was acknowledged without a ledger" for each in world.seen(ACKNOWLEDGED)])
    with closing(sqlite3.connect(f"{ledger.as_uri()}?mode=ro", uri=True)) as db:
        db.row_factory = sqlite3.Row
        books = Books(db, world, mark)
        books.check_always()
        if ended is not None:
            books.check_ended()
            books.check_story(ended)
        return books.found


def _write(arguments: dict[str, Any]) -> str:
    return f"writing {arguments['key']} = {arguments['value']}"


def _message(topic: str, payload: dict[str, Any]) -> str:
    return f"{topic} {json.dumps(payload, sort_keys=True)}"
