"""Epochs: each process that takes the ledger over gets a number, and everything started carries it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from appliance.contracts.clock import Clock
from appliance.contracts.errors import OwnedElsewhere
from appliance.contracts.store import Transaction
from appliance.store.columns import utc_text


@dataclass(frozen=True, slots=True)
class Ownership:
    """This process' right to run what the ledger holds. ``previous_epoch`` is None for the first owner ever.

    ``previous_clean`` tells whether the owner before left a shutdown receipt (true for the first).
    """

    epoch: int
    instance: str
    pid: int
    previous_epoch: int | None
    previous_clean: bool


def take_ownership(tx: Transaction, clock: Clock, instance: str, pid: int | None = None) -> Ownership:
    """Begin a new epoch for process ``pid`` (this one by default).

    The caller holds the file's lock, so a previous owner without a receipt is dead. It is still looked at, in case somebody
    removed the lock file under it.

    Raises:
        OwnedElsewhere: the previous owner is another living process; facts name its pid and instance.
    """
    pid = os.getpid() if pid is None else pid
    previous = tx.execute("SELECT * FROM owner ORDER BY epoch DESC LIMIT 1").fetchone()
    if previous is not None and previous["ended_utc"] is None and previous["pid"] != pid:
        lives = previous["boot_id"] == clock.boot_id and start_ticks(previous["pid"]) == previous["pid_started"] != ""
        if lives:
            raise OwnedElsewhere(
                f"the ledger belongs to process {previous['pid']} (instance {previous['instance']}); stop that one first",
                pid=previous["pid"],
                instance=previous["instance"],
            )
    cursor = tx.execute(
        "INSERT INTO owner (instance, pid, pid_started, boot_id, started_utc) VALUES (?, ?, ?, ?, ?)",
        (instance, pid, start_ticks(pid), clock.boot_id, utc_text(clock.utc())),
    )
    assert cursor.lastrowid is not None
    return Ownership(
        epoch=cursor.lastrowid,
        instance=instance,
        pid=pid,
        previous_epoch=None if previous is None else previous["epoch"],
        previous_clean=previous is None or previous["ended_utc"] is not None,
    )


def release(tx: Transaction, clock: Clock, epoch: int) -> None:
    """Write the receipt of a clean shutdown. Writing it again keeps the first."""
    tx.execute("UPDATE owner SET ended_utc = coalesce(ended_utc, ?) WHERE epoch = ?", (utc_text(clock.utc()), epoch))


def require(tx: Transaction, epoch: int) -> None:
    """Check that ``epoch`` is still the newest: a process that lost the ledger writes nothing more.

    Raises:
        OwnedElsewhere: a newer owner took over.
    """
    newest = tx.execute("SELECT epoch, pid, instance FROM owner ORDER BY epoch DESC LIMIT 1").fetchone()
    if newest is None or newest["epoch"] != epoch:
        raise OwnedElsewhere(
            f"epoch {epoch} has ended, the ledger is in epoch {newest['epoch'] if newest else 0}",
            pid=newest["pid"] if newest else None,
            instance=newest["instance"] if newest else "",
        )


def start_ticks(pid: int) -> str:
    """Return when a living process started, in clock ticks since boot; empty if there is none, or no /proc.

    Field 22 of ``/proc/PID/stat`` (proc(5)); fields are counted behind the last ``)``, a program's name may hold anything.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace")
    except OSError:
        return ""
    state, *fields = stat.rpartition(")")[2].split()
    return "" if state in "ZX" else fields[18]  # a zombie is dead, only not yet buried by its parent
