"""A gate that lets every call through: for tests that are about something else. The product has no such thing."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import BaseModel

from appliance.contracts.approval import Decision, Rule, Verdict
from appliance.contracts.plan import Action
from appliance.contracts.store import Transaction
from appliance.contracts.tool import LedgerTool, Tool, ToolCall
from appliance.contracts.turn import Turn

ALLOWED = Verdict(Decision.ALLOW, Rule.ALLOW)


class FreeHands:
    """Allows everything, and keeps which tools it was asked about. ``verdicts`` are given instead, by tool."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.live: list[str] = []
        self.refused_nested: list[str] = []
        self.verdicts: dict[str, Verdict] = {}
        self.not_live: Exception | None = None

    def decide(
        self,
        tx: Transaction,
        turn: Turn,
        action: Action,
        call: ToolCall,
        tool: Tool | LedgerTool,
        arguments: BaseModel,
        earlier: Sequence[Action],
    ) -> Verdict:
        self.asked.append(call.tool)
        return self.verdicts.get(call.tool, ALLOWED)

    async def decide_nested(self, call: ToolCall, tool: Tool, arguments: BaseModel) -> Verdict:
        self.asked.append(call.tool)
        is_hidden = tool.contract.security.access_level > call.principal.level
        hidden = Verdict(Decision.DENY, Rule.HARD_FLOOR, is_hidden=True)
        return hidden if is_hidden else self.verdicts.get(call.tool, ALLOWED)

    def note_held(self, tx: Transaction, turn: Turn, action: Action, call: ToolCall, tool: Tool | LedgerTool, why: str) -> None:
        pass

    async def note_nested(self, call: ToolCall, tool: str, why: str, *, is_hidden: bool = False) -> None:
        self.refused_nested.append(tool)

    def lapsed(self, tx: Transaction, turn: Turn, asking: Action, target: Action) -> str:
        return ""

    async def require_live(self, call: ToolCall, tool: Tool, arguments: BaseModel) -> None:
        self.live.append(call.tool)
        if self.not_live is not None:
            raise self.not_live


def free_hands() -> FreeHands:
    """Return a gate that lets everything through."""
    return FreeHands()
