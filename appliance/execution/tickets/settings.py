"""How long tickets stay open."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class TicketSettings(BaseModel):
    """Times of the tickets that are opened when a call failed for good."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    ticket_ttl_s: float = Field(
        default=7 * 86_400.0, gt=0, description="an open ticket that nobody resolved expires after this time, in s"
    )
    auto_resolve_after_s: float | None = Field(
        default=3_600.0,
        ge=60,
        description="each time an open ticket has waited for this long it is resolved if the same call has worked since, in s; "
        "null: only people resolve tickets",
    )
