"""What a site may set about turns."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field, field_validator

from appliance.contracts.isolation import SessionIsolation


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
    isolation: SessionIsolation = Field(
        default=SessionIsolation.COROUTINE, description="write coroutine: every turn runs in the core's own process"
    )
    turns_at_once: int = Field(default=16, ge=1, le=800, description="turns led at the same time, one a lane")
    open_limit: int = Field(default=800, ge=1, le=10_000, description="conversations open at the same time (S9)")
    idle_close_s: float = Field(
        default=1800.0, gt=0, description="a conversation that nobody goes on with for this long is closed"
    )

    @field_validator("isolation")
    @classmethod
    def _is_built(cls, isolation: SessionIsolation) -> SessionIsolation:
        if isolation is not SessionIsolation.COROUTINE:
            raise ValueError(f"the mode {isolation} is not built")
        return isolation
