"""What a site may set about alarms."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import BaseModel, ConfigDict, Field

from appliance.contracts.alarm_definition import Priority

# IEC 62682 / ISA-18.2 ask for urgent alarms to be told again; how soon is the site's.
_REANNOUNCE_AFTER_S: Mapping[Priority, float] = {Priority.CRITICAL: 60.0, Priority.HIGH: 180.0}


class AlarmSettings(BaseModel):
    """Chatter, shelving, floods and telling again. All times in seconds."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    chatter_count: int = Field(default=5, ge=2, le=1000, description="raises within chatter_window_s that make an alarm chatter")
    chatter_window_s: float = Field(default=60.0, gt=0, le=86_400, description="window in which raises are counted")
    chatter_calm_s: float = Field(default=120.0, gt=0, le=86_400, description="without a raise for this long it chatters no more")
    shelve_longest_s: float = Field(default=28_800.0, gt=0, le=604_800, description="longest time an alarm may be shelved")
    flood_count: int = Field(default=8, ge=2, le=10_000, description="raises within flood_window_s that make a flood")
    flood_window_s: float = Field(default=2.0, gt=0, le=600, description="window in which raises of all alarms are counted")
    settle_s: float = Field(default=0.3, ge=0, le=10, description="a first alarm waits this long for those that come with it")
    longest_settle_s: float = Field(default=1.0, ge=0, le=30, description="the longest it waits while more keep coming")
    flood_over_s: float = Field(default=30.0, gt=0, le=3_600, description="without a raise for this long a flood is over")
    reannounce_after_s: dict[Priority, float] = Field(
        default_factory=lambda: dict(_REANNOUNCE_AFTER_S),
        description="priority -> an alarm nobody acknowledged is told again after this; a priority left out is not",
    )
    reannounce_most: int = Field(default=3, ge=0, le=100, description="an alarm is told again so often at most")
