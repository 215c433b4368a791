"""What a runner needs besides its ledger and its tools, for tests that are about something else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from appliance.contracts.clock import Clock
from appliance.contracts.plan import Action
from appliance.contracts.store import Transaction
from appliance.contracts.tool import ToolCall, ToolContract, ToolResult
from appliance.contracts.turn import Turn
from appliance.execution.spill import Spill
from tests.support.approvals import free_hands


class Tickets:
    """Keeps what people would have been told of: step, tool and error code. ``sentence`` is what is said of it."""

    def __init__(self, sentence: str = "") -> None:
        self.opened: list[tuple[str, str, str]] = []
        self.sentence = sentence

    def open_in(
        self, tx: Transaction, turn: Turn, action: Action, call: ToolCall, contract: ToolContract, result: ToolResult
    ) -> str:
        self.opened.append((action.step_id, contract.name, result.error_code))
        return self.sentence


def runner_ports(folder: Path, clock: Clock) -> dict[str, Any]:
    """Return ``approvals`` that allow everything, an ``escalator`` that tells nobody, and a ``spill`` below ``folder``."""
    return {"approvals": free_hands(), "escalator": Tickets(), "spill": Spill(folder / "spill")}
