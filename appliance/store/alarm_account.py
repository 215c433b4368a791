"""Counts of the alarm journal, per source: what came in and what became of it.

One statement, so that what is compared belongs to one moment: the door's own count of what was handed in, and the journal's rows.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from appliance.contracts.store import Ledger
from appliance.store import deliveries

_PER_SOURCE = """
WITH heard AS (SELECT DISTINCT turn_id FROM delivery WHERE status = 'delivered' AND channel = 'speech'),
     on_its_way AS (SELECT DISTINCT turn_id FROM delivery WHERE status IN ('pending', 'attempting') AND channel = 'speech'),
     overtaken AS (SELECT DISTINCT turn_id FROM delivery WHERE status = 'abandoned' AND failure = ? AND channel = 'speech'),
     flood_told AS (
         SELECT a.payload ->> '$.flood' AS flood_id, max(heard.turn_id IS NOT NULL) AS is_heard,
                max(a.status <> 'terminal' OR on_its_way.turn_id IS NOT NULL) AS is_waiting
         FROM admission a LEFT JOIN heard ON heard.turn_id = a.turn_id LEFT JOIN on_its_way ON on_its_way.turn_id = a.turn_id
         WHERE a.kind = 'flood' GROUP BY flood_id),
     event AS (
         SELECT e.source, e.disposition, e.duplicates, e.was_missed,
                CASE e.disposition WHEN 'flood' THEN coalesce(f.is_heard, 0) ELSE heard.turn_id IS NOT NULL END AS is_heard,
                CASE e.disposition WHEN 'flood' THEN coalesce(f.is_waiting, 0)
                     ELSE a.status <> 'terminal' OR on_its_way.turn_id IS NOT NULL END AS is_waiting,
                e.disposition = 'announce' AND overtaken.turn_id IS NOT NULL AS is_overtaken
         FROM alarm_event e LEFT JOIN admission a ON a.id = e.admission_id
              LEFT JOIN heard ON heard.turn_id = a.turn_id LEFT JOIN on_its_way ON on_its_way.turn_id = a.turn_id
              LEFT JOIN overtaken ON overtaken.turn_id = a.turn_id
              LEFT JOIN flood_member m ON e.disposition = 'flood' AND m.activation_id = e.activation_id
              LEFT JOIN flood_told f ON f.flood_id = m.flood_id)
SELECT s.*, e.disposition, count(*) AS events, sum(e.duplicates) AS duplicates, sum(e.was_missed) AS was_missed,
       sum(e.is_heard) AS heard, sum(e.is_waiting AND NOT e.is_heard) AS waiting,
       sum(e.is_overtaken AND NOT e.is_heard AND NOT e.is_waiting) AS overtaken
FROM event e JOIN alarm_source s USING (source) GROUP BY e.source, e.disposition ORDER BY e.source, e.disposition
"""


@dataclass(slots=True)
class SourceCounts:
    """One source. ``seen`` is what the door counted, the rest what the journal holds.

    ``announced``: a delivery of its turn left the loudspeaker. ``waiting``: that is still to come. ``unheard``: it was to be
    announced, its turn is over, and nothing was heard. ``suppressed``: by disposition; what joined a flood once the flood was
    heard of, until then it is waiting or unheard too; ``overtaken`` is what was over before it could be said. ``missing``:
    running numbers that never came, ``unseen`` of them not looked into.
    """

    source: str
    seen: int = 0
    journalled: int = 0
    duplicates: int = 0
    conflicts: int = 0
    announced: int = 0
    waiting: int = 0
    unheard: int = 0
    suppressed: dict[str, int] = field(default_factory=dict)
    was_missed: int = 0
    missing: int = 0
    unseen: int = 0
    restarts: int = 0
    since_utc: str = ""


async def counts(ledger: Ledger) -> list[SourceCounts]:
    """Return the counts of every source, by name."""
    found: dict[str, SourceCounts] = {}
    for row in await ledger.fetch(_PER_SOURCE, (deliveries.STALE,)):
        counted = found.setdefault(
            row["source"],
            SourceCounts(
                source=row["source"],
                seen=row["seen"],
                conflicts=row["conflicts"],
                missing=row["missing"],
                unseen=row["missing"] - row["accepted"],
                restarts=row["restarts"],
                since_utc=row["since_utc"],
            ),
        )
        counted.journalled += row["events"]
        counted.duplicates += row["duplicates"]
        counted.was_missed += row["was_missed"]
        if row["disposition"] not in ("announce", "flood"):
            counted.suppressed[row["disposition"]] = row["events"]
            continue
        counted.waiting += row["waiting"]
        counted.unheard += row["events"] - row["heard"] - row["waiting"] - row["overtaken"]
        if row["overtaken"]:
            counted.suppressed["overtaken"] = row["overtaken"]
        if row["disposition"] == "announce":
            counted.announced = row["heard"]
        elif row["heard"]:
            counted.suppressed["flood"] = row["heard"]
    return list(found.values())
