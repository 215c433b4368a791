"""Base of every tool's arguments and results: what crosses a tool's boundary is closed, frozen and valid JSON."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Fields(BaseModel):
    """Refuses unknown fields, later changes, NaN and infinities (none of which JSON or a PLC can hold)."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
