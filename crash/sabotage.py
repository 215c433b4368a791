"""Faults put into the product on purpose, in one life's process, to show that the campaign finds them."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from appliance.admission.gate import Gate
from appliance.delivery.dispatcher import Dispatcher


def _replay_effects(ledger: Path) -> None:
    """Forget, at a start, what had been begun, as a system does that runs a step again when it finds no result."""
    if not ledger.exists():
        return
    with closing(sqlite3.connect(ledger)) as db, db:
        if db.execute("SELECT 1 FROM sqlite_schema WHERE name = 'effect'").fetchone():
            begun = "(SELECT action_id FROM effect WHERE status IN ('intended', 'unknown'))"
            db.execute(f"UPDATE action SET state = 'pending' WHERE id IN {begun}")
            db.execute("DELETE FROM effect WHERE status IN ('intended', 'unknown')")


def _acknowledge_early(ledger: Path) -> None:
    """Let the gate answer before the input is on disk."""
    admit, pending = Gate.admit, set[Any]()

    async def admit_later(self: Gate, *arguments: Any) -> None:
        pending.add(asyncio.ensure_future(admit(self, *arguments)))

    Gate.admit = admit_later  # type: ignore[assignment,method-assign]


def _repeat_unmarked(ledger: Path) -> None:
    """Let what may have been heard before be said again as if it were new."""
    Dispatcher._as_said = lambda self, delivery: delivery  # type: ignore[method-assign]


SABOTAGES: Mapping[str, Callable[[Path], None]] = {
    "replay": _replay_effects,
    "early": _acknowledge_early,
    "unmarked": _repeat_unmarked,
}


def apply_sabotage(name: str, ledger: Path) -> None:
    """Put one fault into this process; an empty name is none."""
    if name:
        SABOTAGES[name](ledger)
