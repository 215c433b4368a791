"""Leases: a turn works only as long as somebody says, again and again, that it still does (R3).

A lease is taken in the transaction that lets a turn work (opened, resumed, answered) and goes with the one that ends that. It is
of one epoch and one boot, and runs out by the monotonic clock: a process that stood still for longer than a lease must not go on
as if nothing had happened. A turn that waits for an answer has none (S7).
"""

from __future__ import annotations

from appliance.contracts.clock import Clock
from appliance.contracts.errors import Refused
from appliance.contracts.store import Transaction

LEASE_S = 300.0  # requirements R3
RENEW_EVERY_S = 60.0  # requirements R3

WORK = """SELECT EXISTS (SELECT 1 FROM lease) OR EXISTS (SELECT 1 FROM admission
    WHERE status IN ('queued', 'started', 'unknown') AND status = 'started') AS goes_on"""
"""Query of whether any turn may be under way."""

_VALID = "epoch = ?1 AND boot_id = ?2 AND expires_mono_ns > ?3"
_VALID_OF_TURN = f"SELECT 1 FROM lease WHERE {_VALID} AND turn_id = ?4"


def take(tx: Transaction, clock: Clock, turn_id: str, lane: str, epoch: int) -> None:
    """Let a turn work from now on. What it had before is replaced."""
    now_ns = clock.monotonic_ns()
    tx.execute(
        "INSERT OR REPLACE INTO lease (turn_id, lane, epoch, boot_id, renewed_mono_ns, expires_mono_ns)"
        " VALUES (?, ?, ?, ?, ?, ?)",
        (turn_id, lane, epoch, clock.boot_id, now_ns, now_ns + int(LEASE_S * 1e9)),
    )


def release(tx: Transaction, turn_id: str) -> None:
    """Note that a turn does not work any more."""
    tx.execute("DELETE FROM lease WHERE turn_id = ?", (turn_id,))


def renew_all(tx: Transaction, clock: Clock, epoch: int) -> list[str]:
    """Renew what this epoch holds and return the turns that have lost theirs: still under way in this epoch, without a lease."""
    now_ns = clock.monotonic_ns()
    tx.execute(
        f"UPDATE lease SET renewed_mono_ns = ?3, expires_mono_ns = ?4 WHERE {_VALID}",
        (epoch, clock.boot_id, now_ns, now_ns + int(LEASE_S * 1e9)),
    )
    rows = tx.execute(
        f"""SELECT turn.id FROM admission JOIN turn ON turn.id = admission.turn_id
            WHERE admission.status IN ('queued', 'started', 'unknown') AND admission.status = 'started' AND admission.epoch = ?1
              AND turn.state IN ('planning', 'executing')
              AND NOT EXISTS (SELECT 1 FROM lease WHERE turn_id = turn.id AND {_VALID.replace("epoch", "lease.epoch")})
            ORDER BY turn.seq""",
        (epoch, clock.boot_id, now_ns),
    )
    return [row["id"] for row in rows]


def require(tx: Transaction, clock: Clock, turn_id: str, epoch: int) -> None:
    """Check that the turn may still work, in the transaction that lets one of its steps have an effect.

    Raises:
        Refused: its lease is gone, of another epoch or boot, or has run out.
    """
    if tx.execute(_VALID_OF_TURN, (epoch, clock.boot_id, clock.monotonic_ns(), turn_id)).fetchone() is None:
        raise Refused(f"turn {turn_id} has lost its lease of {LEASE_S:g} s", turn=turn_id, epoch=epoch)


def drop_before(tx: Transaction, epoch: int) -> None:
    """Drop what earlier epochs held: their processes are dead."""
    tx.execute("DELETE FROM lease WHERE epoch < ?", (epoch,))
