"""Where a site wants to be told of alarms over HTTP."""

from __future__ import annotations

from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Self
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, IPvAnyAddress, SecretStr, StringConstraints, model_validator

from appliance.contracts.alarm_definition import Priority
from appliance.foundation.hosts import is_loopback, is_unroutable

WebhookName = Annotated[str, StringConstraints(pattern="^[a-z0-9][a-z0-9_-]{0,62}$")]
MOST_WEBHOOKS = 16  # each is served beside the others


class WebhookSettings(BaseModel):
    """One address that alarm changes are posted to as JSON."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    url: str = Field(description="https:// URL that takes a POST; plain http only for this machine, unless allow_plain")
    token: SecretStr = Field(default=SecretStr(""), description="bearer token, or ${NAME} of one; none without")
    token_file: Path | None = Field(default=None, description="file (mode 0600) that holds the token instead")
    ca_file: Path | None = Field(default=None, description="PEM file of the site's own certificate authority")
    priority: Priority = Field(default=Priority.LOW, description="alarms of this priority and above are told")
    timeout_s: float = Field(default=10.0, gt=0, le=60, description="longest wait for an answer")
    allow_plain: bool = Field(default=False, description="plain http may leave this machine, for everybody on the way to read")
    allow_addresses: tuple[IPvAnyAddress, ...] = Field(
        default=(), description="link-local addresses it may lead to all the same; no other is ever posted to"
    )

    @model_validator(mode="after")
    def _is_safe(self) -> Self:
        faults = list(self._url_faults())
        if self.token.get_secret_value() and self.token_file is not None:
            faults.append("give either token or token_file")
        if faults:
            raise ValueError("; ".join(faults))
        return self

    @property
    def host(self) -> str:
        """The host of the URL."""
        return urlsplit(self.url).hostname or ""

    def _url_faults(self) -> list[str]:
        try:
            parts = urlsplit(self.url)
            host = parts.hostname or ""
            _ = parts.port
        except ValueError as error:
            return [f"url: {error}"]
        faults = []
        if parts.scheme not in ("https", "http") or not host:
            faults.append("url must look like https://HOST[:PORT]/PATH")
        elif parts.scheme == "http" and not is_loopback(host) and not self.allow_plain:
            faults.append("url: only https leaves this machine, unless allow_plain is true")
        if is_unroutable(host) and ip_address(host) not in self.allow_addresses:
            faults.append(f"url: {host} is no address of a service; name it in allow_addresses if it is")
        if parts.username is not None or parts.fragment:
            faults.append("url: no user and no fragment; the token has its own key")
        return faults
