"""What people may ask through the local API beside the core and the ledger, each once and by its contract."""

from __future__ import annotations

from dataclasses import dataclass

from appliance.contracts.approval_acts import ApprovalActs
from appliance.contracts.check_acts import CheckActs
from appliance.contracts.context_acts import ContextActs
from appliance.contracts.history import TagHistory
from appliance.contracts.ledger_acts import LedgerActs
from appliance.contracts.playbook_acts import PlaybookActs
from appliance.contracts.ticket_acts import TicketActs
from appliance.contracts.token_acts import TokenActs
from appliance.contracts.tool_acts import ToolActs


@dataclass(frozen=True, slots=True, kw_only=True)
class Acts:
    """Who answers. What is None has no addresses; without ``tokens`` a request that brings one is refused."""

    ledger: LedgerActs | None = None
    tokens: TokenActs | None = None
    context: ContextActs | None = None
    tickets: TicketActs | None = None
    checks: CheckActs | None = None
    tools: ToolActs | None = None
    approvals: ApprovalActs | None = None
    history: TagHistory | None = None
    playbooks: PlaybookActs | None = None


NO_ACTS = Acts()
