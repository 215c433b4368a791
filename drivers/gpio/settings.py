"""Which pins of the machine's GPIO header are used for what."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class GpioSettings(BaseModel):
    """``gpio`` of ``appliance.yaml``; a pin that is not named is not touched. BCM numbering."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    push_to_talk_pin: int | None = Field(default=None, ge=0, le=27, description="button from this pin to ground, held to talk")
