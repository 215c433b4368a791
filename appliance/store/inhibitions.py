"""What keeps alarms from being announced: shelved, suppressed by design, out of service. Begin and end are operations of lane P0.

How long a shelving has lasted is measured on the monotonic clock. Over a reboot wall time counts, if it was disciplined at both
ends. Without that nobody knows how long the appliance was down (there is no RTC), and only the time since this boot counts: it
then lasts at most its full time from the boot on.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from datetime import datetime

from appliance.contracts.alarm import Inhibition
from appliance.contracts.clock import Clock
from appliance.contracts.errors import Malformed
from appliance.contracts.operation import OperationLane
from appliance.contracts.store import Transaction
from appliance.store import operations
from appliance.store.columns import to_utc, utc_text

_STRONGEST_FIRST = (Inhibition.OUT_OF_SERVICE, Inhibition.SHELVED, Inhibition.SUPPRESSED)
_BEGUN = {kind: str(kind) for kind in Inhibition}
_ENDED = {Inhibition.OUT_OF_SERVICE: "in_service", Inhibition.SHELVED: "unshelved", Inhibition.SUPPRESSED: "unsuppressed"}


@dataclass(frozen=True, slots=True)
class Held:
    """An inhibition that holds. ``left_s`` is None when it lasts until somebody ends it; ``is_sure`` whether that is exact."""

    seq: int
    alarm_id: str
    kind: Inhibition
    reason: str
    by: str
    began_utc: datetime
    for_s: float | None
    left_s: float | None
    is_sure: bool


def begin(
    tx: Transaction, clock: Clock, alarm_id: str, kind: Inhibition, *, by: str, reason: str, for_s: float | None = None
) -> Held:
    """Begin an inhibition; one of the same kind that holds already is replaced. Appends ``alarm.<kind>`` (P0).

    Raises:
        Malformed: no reason, no person, or a time where there must be none.
    """
    if not reason.strip() or not by.strip():
        raise Malformed("say why, and who you are", alarm=alarm_id)
    if (kind is Inhibition.SHELVED) != (for_s is not None and for_s > 0):
        raise Malformed("shelving needs a time, and nothing else takes one", alarm=alarm_id)
    _end_now(tx, clock, alarm_id, kind, by)
    tx.execute(
        "INSERT INTO alarm_inhibition (alarm_id, kind, reason, by, for_s, began_utc, began_mono_ns, boot_id, clock_synced)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            alarm_id,
            kind,
            reason.strip(),
            by.strip(),
            for_s,
            utc_text(clock.utc()),
            clock.monotonic_ns(),
            clock.boot_id,
            clock.is_synced,
        ),
    )
    facts = {"by": by.strip(), "reason": reason.strip(), "for_s": for_s}
    operations.append(tx, clock, OperationLane.P0, f"alarm.{_BEGUN[kind]}", alarm_id, facts)
    held = of_kind(tx, clock, alarm_id, kind)
    assert held is not None  # it was written just now
    return held


def end(tx: Transaction, clock: Clock, alarm_id: str, kind: Inhibition, *, by: str) -> bool:
    """End an inhibition; False when there was none. Appends ``alarm.unshelved``, ``in_service`` or ``unsuppressed`` (P0)."""
    if not _end_now(tx, clock, alarm_id, kind, by):
        return False
    operations.append(tx, clock, OperationLane.P0, f"alarm.{_ENDED[kind]}", alarm_id, {"by": by})
    return True


def of_kind(tx: Transaction, clock: Clock, alarm_id: str, kind: Inhibition) -> Held | None:
    """Return an alarm's inhibition of one kind, None when it does not hold (any more)."""
    return next((held for held in _found(tx, clock, "alarm_id = ? AND kind = ?", alarm_id, kind) if not _is_over(held)), None)


def strongest(tx: Transaction, clock: Clock, alarm_id: str) -> Inhibition | None:
    """Return what holds an alarm, the strongest of several. A shelving whose time is over holds nothing, ended or not."""
    holding = [held.kind for held in _found(tx, clock, "alarm_id = ?", alarm_id) if not _is_over(held)]
    return min(holding, key=_STRONGEST_FIRST.index, default=None)


def strongest_of_all(tx: Transaction, clock: Clock) -> dict[str, Inhibition]:
    """Return every alarm that is held, with the strongest of what holds it."""
    holding = sorted((held for held in all_held(tx, clock) if not _is_over(held)), key=lambda h: -_STRONGEST_FIRST.index(h.kind))
    return {held.alarm_id: held.kind for held in holding}


def all_held(tx: Transaction, clock: Clock) -> list[Held]:
    """Return every inhibition nobody has ended, oldest first; ``left_s`` 0 when its time is over."""
    return list(_found(tx, clock, "1"))


def _end_now(tx: Transaction, clock: Clock, alarm_id: str, kind: Inhibition, by: str) -> bool:
    ended = tx.execute(
        "UPDATE alarm_inhibition SET ended_utc = ?, ended_by = ? WHERE alarm_id = ? AND kind = ? AND ended_utc IS NULL",
        (utc_text(clock.utc()), by, alarm_id, kind),
    )
    return ended.rowcount > 0


def _found(tx: Transaction, clock: Clock, where: str, *values: object) -> list[Held]:
    rows = tx.execute(f"SELECT * FROM alarm_inhibition WHERE ended_utc IS NULL AND {where} ORDER BY seq", values).fetchall()
    return [_held(row, clock) for row in rows]


def _held(row: sqlite3.Row, clock: Clock) -> Held:
    left_s, is_sure = None, True
    if row["for_s"] is not None:
        passed_s, is_sure = _passed_s(row, clock)
        left_s = max(0.0, row["for_s"] - passed_s)
    return Held(
        seq=row["seq"],
        alarm_id=row["alarm_id"],
        kind=Inhibition(row["kind"]),
        reason=row["reason"],
        by=row["by"],
        began_utc=to_utc(row["began_utc"]),
        for_s=row["for_s"],
        left_s=left_s,
        is_sure=is_sure,
    )


def _passed_s(row: sqlite3.Row, clock: Clock) -> tuple[float, bool]:
    if row["boot_id"] == clock.boot_id:
        return (clock.monotonic_ns() - row["began_mono_ns"]) / 1e9, True
    this_boot_s = clock.monotonic_ns() / 1e9  # CLOCK_MONOTONIC begins with the boot
    if clock.is_synced and row["clock_synced"]:
        return max(this_boot_s, (clock.utc() - to_utc(row["began_utc"])).total_seconds()), True
    return this_boot_s, bool(not row["clock_synced"])  # began by a wrong clock: no later knowledge makes it better


def _is_over(held: Held) -> bool:
    return held.left_s is not None and held.left_s <= 0
