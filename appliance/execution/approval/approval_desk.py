"""Answers people about approvals. Implements ``ApprovalActs``. In: words from the local API. Out: JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from appliance.contracts.clock import Clock
from appliance.contracts.errors import Refused
from appliance.contracts.principal import AccessLevel, Identification, Principal
from appliance.contracts.store import Ledger, Transaction
from appliance.execution.approval.approvals import Approvals
from appliance.execution.approval.settings import ApprovalSettings
from appliance.store import approvals, sessions

_ORDER = ("hard_floor", "deny", "breaker", "rate", "unattended", "ask", "allow")


@dataclass(frozen=True, slots=True)
class ApprovalDesk:
    """``roles`` are the site's, with the word of the level of each; ``typist`` is the role of who types without a token."""

    ledger: Ledger
    approvals: Approvals
    settings: ApprovalSettings
    clock: Clock
    roles: Mapping[str, str]
    typist: str
    language: str

    async def decisions(self, session_id: str, limit: int) -> Sequence[Mapping[str, Any]]:
        """See ``ApprovalActs.decisions``.

        Raises:
            Refused: there is no such session.
        """
        if session_id:
            await sessions.require(self.ledger, session_id)
        return [approvals.shown(row) for row in await self.ledger.fetch(approvals.NEWEST, (session_id, limit))]

    async def rules(self, about: str, role: str) -> Mapping[str, Any]:
        """See ``ApprovalActs.rules``."""
        role = role or self.typist
        if role not in self.roles:
            raise Refused(f"there is no role {role}", role=role, cure=f"Roles here: {', '.join(sorted(self.roles))}.")
        if not about:
            lists = self.settings.approvals
            named = {name: getattr(lists, name) for name in ("deny", "unattended", "ask", "allow")}
            told = [
                {"rule": name, "about": rule.model_dump(exclude_defaults=True)} for name, rules in named.items() for rule in rules
            ]
            writes = [rule.model_dump(mode="json", exclude_defaults=True) for rule in self.settings.writes]
            return {"order": list(_ORDER), "rules": told, "writes": writes}
        who = Principal("", Identification.SOCKET, role, AccessLevel.of_word(self.roles[role]))
        return {"role": role, "order": list(_ORDER), **await self.approvals.standing(about, who, self.language)}

    async def reset(self, session_id: str, by: str) -> Mapping[str, Any]:
        """See ``ApprovalActs.reset``."""
        who = Principal(by, Identification.SOCKET, "", AccessLevel.OPERATOR)

        def work(tx: Transaction) -> int:
            sessions.lane_of(tx, session_id)
            return approvals.reset(tx, self.clock, session_id, who, "reset by a person")

        return {"session": session_id, "denials": await self.ledger.transaction(work)}
