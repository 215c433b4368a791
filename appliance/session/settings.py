"""What a site may set about turns."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class SessionSettings(BaseModel):
    """Lifespans and limits of turns, in seconds. The defaults are those of requirements S2, S7 and S8."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    base_conversation_s: float = Field(default=300.0, gt=0, description="lifespan of a turn that has run no tool")
    base_tool_s: float = Field(default=120.0, gt=0, description="lifespan once a tool has run")
    base_confirm_s: float = Field(default=600.0, gt=0, description="lifespan while an answer is awaited")
    tool_factor: float = Field(default=0.8, gt=0, le=1, description="each tool call multiplies the lifespan by this")
    confirm_factor: float = Field(default=1.5, ge=1, description="each pending question multiplies the lifespan by this")
    floor_s: float = Field(default=30.0, gt=0, description="no number of tool calls takes the lifespan below this")
    confirm_limit_s: float = Field(default=1800.0, gt=0, description="a question unanswered for this long is abandoned")
    plan_reserve: float = Field(default=1.8, ge=1, description="a plan starts only with this many times its estimate left")
    turns_at_once: int = Field(default=16, ge=1, le=800, description="turns led at the same time, one a lane")
