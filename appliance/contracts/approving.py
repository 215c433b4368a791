"""The gate every call passes before it is made (X2, X5), as whoever makes calls sees it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from pydantic import BaseModel

from appliance.contracts.approval import Verdict
from appliance.contracts.plan import Action
from appliance.contracts.store import Transaction
from appliance.contracts.tool import LedgerTool, Tool, ToolCall
from appliance.contracts.turn import Turn


class Approver(Protocol):
    """Decides about calls. There is one in a core, and no call without it."""

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
        """Return what becomes of a call, in the transaction that would begin it; ``earlier`` are the turn's steps before it.
        Never raises for a denial."""
        ...

    def lapsed(self, tx: Transaction, turn: Turn, asking: Action, target: Action) -> str:
        """Return why a person's yes to ``asking`` lets ``target``, which has not begun, no longer be done, as a sentence to say,
        and note that it is denied; empty while the yes counts."""
        ...

    def note_held(self, tx: Transaction, turn: Turn, action: Action, call: ToolCall, tool: Tool | LedgerTool, why: str) -> None:
        """Note that a call is not made while the appliance is on hold."""
        ...

    async def note_nested(self, call: ToolCall, tool: str, why: str, *, is_hidden: bool = False) -> None:
        """Note that a call that a tool wanted to make of another one was refused before it was decided about. ``call`` is that of
        the outer tool."""
        ...

    async def decide_nested(self, call: ToolCall, tool: Tool, arguments: BaseModel) -> Verdict:
        """Return what becomes of a call that a tool makes of another one, which only reads, while it is called itself. Nobody can
        be asked within a call: what would have to be is denied. Never raises for a denial."""
        ...

    async def require_live(self, call: ToolCall, tool: Tool, arguments: BaseModel) -> None:
        """Check what has to hold in the machine this very moment, directly before a call with an effect.

        Raises:
            Refused: it does not hold; the message is the sentence to say.
            Unavailable: it cannot be told whether it holds.
        """
        ...
