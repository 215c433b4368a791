"""What is configured about tools of other packages."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class ToolSettings(BaseModel):
    """Tools that other installed packages bring (entry points ``floorhand.tools``)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    disabled: tuple[str, ...] = Field(
        default=(), max_length=1000, description="names of other packages' tools that are not loaded"
    )
