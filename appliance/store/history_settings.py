"""How much of the past of the tags is kept."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class HistorySettings(BaseModel):
    """Bounds of the file ``history.sqlite``; the oldest values go first."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    most_mb: int = Field(default=64, ge=4, le=4096, description="largest size of the file, in MB")
    most_days: float = Field(default=14.0, gt=0, le=14, description="values older than this are dropped")
