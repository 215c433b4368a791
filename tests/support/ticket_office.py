"""A ledger with tickets on it, and turns that fail when a test says so."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from appliance.contracts.plan import Action, ActionState, Step
from appliance.contracts.store import Transaction
from appliance.contracts.tool import (
    EffectDisposition,
    ToolCall,
    ToolContract,
    ToolResult,
)
from appliance.contracts.turn import Turn
from appliance.execution.tickets.escalation import Escalation
from appliance.execution.tickets.settings import TicketSettings
from appliance.execution.tickets.ticket_watch import TicketWatch
from appliance.execution.tools.write_tag import WriteTag
from appliance.store import actions
from tests.support.ledger import Bench
from tests.support.plans import open_turn, phrasing

NONE = EffectDisposition.NONE
FAILED = ToolResult(False, {}, NONE, "unavailable", "line_3 does not answer")
SETTINGS = TicketSettings(ticket_ttl_s=86_400, auto_resolve_after_s=3_600)


@dataclass
class Office:
    """A bench with an escalation on it; turns fail when the test says so."""

    bench: Bench
    takers: tuple[str, ...] = ("shift",)
    public_url: str = ""
    turns: int = field(default=0, init=False)
    queued: int = field(default=0, init=False)

    @property
    def escalation(self) -> Escalation:
        return Escalation(
            self.bench.clock, self.bench.ids, phrasing(), takers=self.takers, origin="line-3", language="en",
            public_url=self.public_url,
        )  # fmt: skip

    def watch(self, settings: TicketSettings = SETTINGS) -> TicketWatch:
        def count() -> None:
            self.queued += 1

        return TicketWatch(self.bench.database, self.bench.clock, self.escalation, settings, queued=count)

    async def call(
        self, state: ActionState, arguments: dict[str, Any] | None = None, *, tool: Any = WriteTag, language: str = "en"
    ) -> tuple[Turn, Action, ToolCall]:
        """A turn with one action that ended in ``state``."""
        self.turns += 1
        step = Step("write", tool.contract.name, arguments or {"key": "motor_3.fan_speed", "value": 80})
        bench = self.bench
        turn = await open_turn(bench.database, bench.clock, bench.ids, [step], turn_id=f"tr_{self.turns}", language=language)

        def end(tx: Transaction) -> Action:
            (action,) = actions.of_turn(tx, turn.id)
            tx.execute("UPDATE action SET state = ? WHERE id = ?", (state, action.id))
            return action

        action = await bench.database.transaction(end)
        call = ToolCall(
            action.tool, action.arguments, turn.id, turn.session_id, action.id, turn.lane, language, {"turn": {"id": turn.id}}
        )
        return turn, action, call

    async def fail(
        self, arguments: dict[str, Any] | None = None, result: ToolResult = FAILED, *, tool: Any = WriteTag, language: str = "en"
    ) -> str:
        """Let a call fail for good; return what is said of it."""
        turn, action, call = await self.call(ActionState.FAILED, arguments, tool=tool, language=language)
        return await self.escalate(turn, action, call, tool.contract, result)

    async def escalate(self, turn: Turn, action: Action, call: ToolCall, contract: ToolContract, result: ToolResult) -> str:
        open_in = self.escalation.open_in
        return await self.bench.database.transaction(lambda tx: open_in(tx, turn, action, call, contract, result))

    async def statuses(self) -> list[str]:
        return [row["status"] for row in await self.bench.rows("SELECT status FROM ticket ORDER BY seq")]

    async def messages(self) -> list[dict[str, Any]]:
        rows = await self.bench.rows("SELECT topic, payload FROM delivery WHERE channel = 'webhook' ORDER BY seq")
        return [{"to": row["topic"], **json.loads(row["payload"])} for row in rows]
