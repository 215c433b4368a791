"""Settings of the memory room."""

from __future__ import annotations

from typing import Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import BaseModel, ConfigDict, Field, field_validator


class MemorySettings(BaseModel):
    """How much is remembered, for how long, and how it is found again."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    retention_days: int = Field(default=30, ge=1, le=3650, description="days an episodic memory is kept; semantic ones stay")
    storage_bytes: int = Field(default=2_000_000_000, ge=100_000, description="bound on all stored memories together")
    working_bytes: int = Field(default=5_000_000, ge=10_000, description="bound on one session's working memory")
    working_sessions: int = Field(default=64, ge=1, le=1000, description="sessions with working memory at a time")
    text_chars: int = Field(default=8_000, ge=100, le=100_000, description="longest text of one memory")
    embedder: Literal["auto", "none", "use"] = Field(
        default="auto", description="auto: the sentence encoder if it is installed; none: full text only; use: it is expected"
    )
    budget_ms: float = Field(default=100.0, gt=0, description="budget of a recall whose caller names none")
    results: int = Field(default=5, ge=1, le=50, description="memories in one answer")
    duplicate_window_s: float = Field(default=600.0, ge=0, description="reports of one fault this close may be the same event")
    semantic_confidence: float = Field(default=0.5, ge=0, le=1, description="least confidence of a permanent memory")
    future_tolerance_s: float = Field(default=300.0, ge=0, description="how far ahead a source's clock may be")
    timezone: str = Field(default="", description="IANA zone in which people say yesterday; empty: that of the question's time")

    @field_validator("timezone")
    @classmethod
    def _zone_exists(cls, name: str) -> str:
        if name:
            try:
                ZoneInfo(name)
            except (ZoneInfoNotFoundError, ValueError) as error:
                raise ValueError(f"{name} is not a time zone; use an IANA name like Europe/Berlin") from error
        return name
