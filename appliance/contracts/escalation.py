"""What becomes of a call that neither trying again nor another tool could bring to an end: people are told (T5, third level)."""

from __future__ import annotations

from typing import Protocol

from appliance.contracts.plan import Action
from appliance.contracts.store import Transaction
from appliance.contracts.tool import ToolCall, ToolContract, ToolResult
from appliance.contracts.turn import Turn


class Escalator(Protocol):
    """Opens tickets."""

    def open_in(
        self, tx: Transaction, turn: Turn, action: Action, call: ToolCall, contract: ToolContract, result: ToolResult
    ) -> str:
        """Open the ticket of an action, with its messages, in the transaction that ends it, and return the sentence that says so.

        Asked again for the same action it opens no second one. The sentence is in the turn's language.
        """
        ...
