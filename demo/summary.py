"""The summary: figures taken from the ledger file, the plant and the coordinator after everything has come to rest.

The ledger is read only after the core has ended: a running service's file is never opened beside it.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from demo.story import Told

_COUNTED_LANES = ("P0", "P1", "P2")
_FIRST_AUDIO_LIMIT_MS = 1000.0
_QUESTION_LIMIT_MS = 3000.0


class Account:
    """Reads the ledger of a core that has ended."""

    def __init__(self, database: Path) -> None:
        self._database = database

    def _rows(self, sql: str, *parameters: Any) -> list[sqlite3.Row]:
        with closing(sqlite3.connect(f"{self._database.resolve().as_uri()}?mode=ro", uri=True)) as connection:
            connection.row_factory = sqlite3.Row
            return connection.execute(sql, parameters).fetchall()

    def first_alarm(self) -> Mapping[str, float]:
        """Times of the first alarm in ms after the gateway published it: stored, first audio, question queued."""
        alarm = self._rows("SELECT * FROM alarm ORDER BY seq LIMIT 1")[0]
        published_ns = alarm["source_mono_ns"]
        turn = self._rows("SELECT id FROM turn WHERE session_id = ? ORDER BY seq LIMIT 1", alarm["session_id"])[0]["id"]
        spoken = self._rows(
            "SELECT min(first_audio_mono_ns) AS at FROM delivery WHERE turn_id = ? AND first_audio_mono_ns IS NOT NULL", turn
        )
        asked = self._rows(
            """SELECT d.queued_mono_ns AS at FROM confirmation c JOIN delivery d ON d.id = c.delivery_id
               WHERE c.turn_id = ? ORDER BY c.asked_seq LIMIT 1""",
            turn,
        )
        return {
            "alarm_to_stored_ms": _ms(alarm["raised_mono_ns"], published_ns),
            "alarm_to_first_audio_ms": _ms(spoken[0]["at"], published_ns),
            "question_ready_ms": _ms(asked[0]["at"], published_ns),
        }

    def count(self, sql: str, *parameters: Any) -> int:
        """Return one number."""
        return int(self._rows(sql, *parameters)[0][0])

    def applied_writes(self) -> int:
        """Field writes the ledger says were applied."""
        return self.count("SELECT count(*) FROM effect WHERE tool = 'write_tag' AND status = 'applied'")

    def lanes(self) -> dict[str, int]:
        """Operations per lane."""
        rows = self._rows("SELECT lane, count(*) AS n FROM operation GROUP BY lane")
        return {row["lane"]: row["n"] for row in rows if row["lane"] in _COUNTED_LANES}

    def report_commit(self) -> str:
        """Commit of the newest incident report, empty when there is none."""
        rows = self._rows("SELECT result FROM effect WHERE tool = 'write_report' AND status = 'applied' ORDER BY seq LIMIT 1")
        return str(json.loads(rows[0]["result"]).get("commit", "")) if rows else ""


def summarise(
    told: Told,
    database: Path,
    plant_counts: Mapping[str, Any],
    writes_seen: int,
    at_coordinator: Mapping[str, int],
    work_orders: Sequence[Mapping[str, Any]],
    total_s: float,
) -> dict[str, Any]:
    """Return the summary; ``ok`` is true only when every promise of the story was kept, else ``why`` lists the others."""
    account = Account(database)
    local = account.lanes()
    remote = {lane: at_coordinator.get(lane, 0) for lane in _COUNTED_LANES}
    doubled_orders = len(work_orders) - len({order["id"] for order in work_orders})
    summary: dict[str, Any] = {
        "ok": False,
        **account.first_alarm(),
        "end_of_speech_to_intent_ms": _median([s.end_of_speech_to_intent_ms for s in told.said]),
        "intents": [{"said": s.said, "heard": s.heard, "intent": s.intent} for s in told.said],
        "work_orders": len(work_orders),
        "offline_turns": account.count("SELECT count(*) FROM turn WHERE offline = 1"),
        "unknown_effects": account.count("SELECT count(*) FROM effect WHERE was_unknown = 1"),
        "unknown_settled": account.count("SELECT count(*) FROM effect WHERE was_unknown = 1 AND status IN ('applied', 'none')"),
        "duplicate_effects": max(0, writes_seen - account.applied_writes()) + doubled_orders,
        "alarms_published": int(plant_counts["acked"]),
        "alarms_stored": account.count("SELECT count(*) FROM admission WHERE kind = 'alarm'"),
        "ops_local": sum(local.values()),
        "ops_at_coordinator": sum(remote.values()),
        "report_commit": account.report_commit(),
        "total_s": round(total_s, 1),
    }
    broken = _broken_promises(summary)
    return summary | ({"why": "; ".join(broken)} if broken else {"ok": True})


def _broken_promises(summary: Mapping[str, Any]) -> list[str]:
    promises = {
        f"first audio within {_FIRST_AUDIO_LIMIT_MS:g} ms": 0 < summary["alarm_to_first_audio_ms"] < _FIRST_AUDIO_LIMIT_MS,
        f"question within {_QUESTION_LIMIT_MS:g} ms": 0 < summary["question_ready_ms"] < _QUESTION_LIMIT_MS,
        "one work order": summary["work_orders"] == 1,
        "turns were led offline": summary["offline_turns"] > 0,
        "an effect became unknown": summary["unknown_effects"] >= 1,
        "every unknown was settled": summary["unknown_settled"] == summary["unknown_effects"],
        "nothing done twice": summary["duplicate_effects"] == 0,
        "alarms stored = published": summary["alarms_stored"] == summary["alarms_published"] > 0,
        "operations equal on both sides": summary["ops_local"] == summary["ops_at_coordinator"] > 0,
        "the report is a commit": bool(summary["report_commit"]),
    }
    return [f"not kept: {promise}" for promise, kept in promises.items() if not kept]


def _ms(later_ns: int | None, earlier_ns: int | None) -> float:
    return -1.0 if later_ns is None or earlier_ns is None else round((later_ns - earlier_ns) / 1e6, 1)


def _median(values: Sequence[float]) -> float:
    ordered = sorted(values)
    return ordered[len(ordered) // 2] if ordered else -1.0
