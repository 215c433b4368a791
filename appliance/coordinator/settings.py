"""What the coordinator is told at start."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, model_validator

from appliance.foundation.hosts import is_loopback

_SIGNING_KEY = "coordinator-signing-key.pem"
_POSTGRESQL = ("postgresql://", "postgres://")


class CoordinatorSettings(BaseModel):
    """Where the coordinator listens and what it stores in. Tokens travel in every request: off the machine only over TLS."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    host: str = Field(default="127.0.0.1", description="address to listen on")
    port: int = Field(default=8470, ge=0, le=65535, description="TCP port; 0 takes a free one")
    database: str = Field(default="var/coordinator.db", description="path of an SQLite file, or a postgresql:// URL")
    admin_token_file: Path = Field(
        default=Path("var/coordinator-admin-token"), description="file (mode 0600) with the admin token; made at the first start"
    )
    signing_key_file: Path | None = Field(
        default=None,
        description="file (mode 0600) with the key that signs session tokens; made at the first start, beside the admin token",
    )
    fleet: str = Field(
        default="fleet",
        pattern=r"^[a-z0-9][a-z0-9_-]{0,62}$",
        description="name of the appliances that sync with this coordinator, in session tokens for all of them",
    )
    tls_cert: Path | None = Field(default=None, description="PEM certificate chain")
    tls_key: Path | None = Field(default=None, description="PEM private key")

    @model_validator(mode="after")
    def _never_in_the_clear(self) -> CoordinatorSettings:
        if (self.tls_cert is None) != (self.tls_key is None):
            raise ValueError("tls_cert and tls_key go together")
        if self.tls_cert is None and not is_loopback(self.host):
            raise ValueError(f"host {self.host} can be reached from outside: give tls_cert and tls_key, or listen on 127.0.0.1")
        return self

    @property
    def signing_key_path(self) -> Path:
        """Where the signing key is."""
        return self.signing_key_file or self.admin_token_file.with_name(_SIGNING_KEY)

    @property
    def database_url(self) -> str:
        """The database as an SQLAlchemy URL."""
        for scheme in _POSTGRESQL:
            if self.database.startswith(scheme):
                return "postgresql+psycopg://" + self.database.removeprefix(scheme)
        return self.database if "://" in self.database else f"sqlite:///{self.database}"
