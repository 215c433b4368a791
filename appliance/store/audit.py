"""Audit entries: what was refused or decided, in the hash-chained log (lane P1)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from appliance.contracts.clock import Clock
from appliance.contracts.operation import OperationLane
from appliance.contracts.store import Transaction
from appliance.store import operations


def note(tx: Transaction, clock: Clock, what: str, entity: str, payload: Mapping[str, Any]) -> None:
    """Append ``audit.<what>`` about ``entity``. The payload holds facts, never what a person said."""
    operations.append(tx, clock, OperationLane.P1, f"audit.{what}", entity, payload)
