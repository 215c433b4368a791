"""Settings of one MQTT session."""

from __future__ import annotations

from pathlib import Path
from typing import Self

from pydantic import BaseModel, ConfigDict, Field, SecretStr, model_validator


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class MqttTls(_Frozen):
    """TLS with verification. Without ``ca`` the system's certificates are trusted."""

    ca: Path | None = Field(default=None, description="PEM file of the authorities to trust")
    cert: Path | None = Field(default=None, description="PEM file of this client's certificate")
    key: Path | None = Field(default=None, description="PEM file of this client's private key")

    @model_validator(mode="after")
    def _is_complete(self) -> Self:
        if (self.cert is None) != (self.key is None):
            raise ValueError("tls needs both cert and key, or neither")
        return self


class MqttSettings(_Frozen):
    """How to reach the broker, and what to listen to. Times are in seconds."""

    host: str = Field(default="127.0.0.1", min_length=1, description="broker's host name or address")
    port: int = Field(default=1883, ge=1, le=65535, description="broker's port, usually 1883, with TLS 8883")
    username: str | None = Field(default=None, description="user name at the broker")
    password: SecretStr | None = Field(default=None, description="password at the broker, better as ${NAME}")
    password_file: Path | None = Field(default=None, description="file that holds nothing but the password")
    client_id: str = Field(
        default="floorhand",
        pattern="^[A-Za-z0-9_.-]{1,64}$",
        description="name of the persistent session; unique at the broker",
    )
    tls: MqttTls | None = Field(default=None, description="TLS; absent means none")
    session_expiry_s: int = Field(
        default=7 * 86400, ge=60, le=2**32 - 2, description="how long the broker keeps messages for us while we are away"
    )
    receive_maximum: int = Field(
        default=20, ge=1, le=1000, description="messages the broker may send before the first of them is acknowledged"
    )
    keepalive_s: int = Field(default=10, ge=2, le=600, description="a silent broker is noticed within twice this time")
    connect_timeout_s: float = Field(default=5.0, gt=0, le=60, description="bound of connecting and of each handshake")
    publish_timeout_s: float = Field(default=5.0, gt=0, le=60, description="bound of waiting for the broker's acknowledgement")
    first_retry_s: float = Field(default=1.0, gt=0, le=30, description="first pause before reconnecting; doubles")
    longest_retry_s: float = Field(default=30.0, gt=0, le=300, description="longest pause before reconnecting")
    alarm_topics: tuple[str, ...] = Field(default=("plant/+/alarms",), description="topic filters of alarm events")
    state_prefix: str = Field(
        default="floorhand", pattern="^[^+#]+[^+#/]$", description="topic below which this client says whether it is online"
    )
    command_prefix: str | None = Field(
        default=None, pattern="^[^+#]+[^+#/]$", description="topic below which commands for this appliance arrive; absent: none"
    )

    @model_validator(mode="after")
    def _has_one_password(self) -> Self:
        if self.password is not None and self.password_file is not None:
            raise ValueError("give password or password_file, not both")
        if (self.password is not None or self.password_file is not None) and not self.username:
            raise ValueError("a password needs a username")
        return self

    @property
    def state_topic(self) -> str:
        """Where ``online`` and ``offline`` are retained for others to see."""
        return f"{self.state_prefix}/{self.client_id}/state"
