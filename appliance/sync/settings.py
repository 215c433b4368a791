"""Where the coordinator is and how this appliance talks to it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, SecretStr, model_validator

from appliance.contracts.operation import OperationLane
from appliance.foundation.hosts import url_faults

_Seconds = Annotated[float, Field(gt=0, le=3_600)]


class SyncSettings(BaseModel):
    """With no ``coordinator`` the appliance stands alone: operations are kept and wait."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    coordinator: str = Field(default="", description="https:// URL of the coordinator; empty for none")
    device: str = Field(default="", description="this appliance's name there: the origin of its operations, for good")
    token: SecretStr = Field(default=SecretStr(""), description="the device's token, or ${NAME} of one")
    token_file: Path | None = Field(default=None, description="file (mode 0600) that holds the token instead")
    ca_file: Path | None = Field(default=None, description="PEM file of the site's own certificate authority")
    batch_operations: int = Field(default=500, ge=1, le=500, description="most operations in one push")
    batch_bytes: int = Field(default=256 * 1024, ge=4_096, le=256 * 1024, description="most bytes in one push")
    connect_timeout_s: _Seconds = Field(default=2.0, description="longest wait for a connection")
    total_timeout_s: _Seconds = Field(default=10.0, description="longest wait for an answer")
    first_contact_s: _Seconds = Field(default=1.0, description="the first contact is made within this, at a random moment")
    retry_first_s: _Seconds = Field(default=1.0, description="longest first wait after a loss; it doubles")
    retry_longest_s: _Seconds = Field(default=60.0, description="longest wait between two tries")
    poll_s: _Seconds = Field(default=2.0, description="time between two looks for changes")

    @model_validator(mode="after")
    def _safe_and_whole(self) -> SyncSettings:
        if not self.coordinator:
            return self
        faults = url_faults(self.coordinator, name="coordinator")
        if not self.device:
            faults.append("device is needed with a coordinator")
        if bool(self.token.get_secret_value()) == (self.token_file is not None):
            faults.append("give either token or token_file with a coordinator")
        if faults:
            raise ValueError("; ".join(faults))
        return self

    @property
    def is_enabled(self) -> bool:
        """Whether there is a coordinator to talk to."""
        return bool(self.coordinator)


BULK_TURNS = (
    OperationLane.P1,
    OperationLane.P2,
    OperationLane.P1,
    OperationLane.P3,
    OperationLane.P1,
    OperationLane.P2,
    OperationLane.P1,
    OperationLane.P4,
)
"""Order in which lanes behind P0 take turns: of eight pushes at least four, two, one and one are kept for P1 to P4."""
