"""Where a site wants to be told of alarms, tickets and notices over HTTP."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Self
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, IPvAnyAddress, SecretStr, StringConstraints, field_serializer, model_validator

from appliance.contracts.alarm_definition import Priority
from appliance.foundation.hosts import url_faults

WebhookName = Annotated[str, StringConstraints(pattern="^[a-z0-9][a-z0-9_-]{0,62}$")]
MOST_WEBHOOKS = 16  # each is served beside the others


class NoticeSettings(BaseModel):
    """Where the tool ``notify`` may send by MQTT."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    topic_prefix: str = Field(
        default="",
        pattern="^([A-Za-z0-9_-]+(/[A-Za-z0-9_-]+)*)?$",
        max_length=200,
        description="notices are published below this topic and nowhere else; empty: floorhand/<client id>/notices",
    )


class WebhookFormat(StrEnum):
    """What is posted: our own JSON, or what the group robots of two messengers take."""

    GENERIC = "generic"
    WECOM = "wecom"
    DINGTALK = "dingtalk"


class WebhookEvent(StrEnum):
    """What a webhook may want to be told of."""

    ALARM = "alarm"  # each change of an alarm
    TICKET = "ticket"  # what the appliance could not bring to an end
    NOTICE = "notice"  # what it is asked to send there


class WebhookSettings(BaseModel):
    """One address that alarm changes, tickets and notices are posted to."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    url: str = Field(
        repr=False,  # with the robots of messengers the key is in it
        description="https:// URL that takes a POST; plain http only for this machine, unless allow_plain",
    )
    format: WebhookFormat = Field(
        default=WebhookFormat.GENERIC, description="generic (our JSON), or wecom or dingtalk: a group robot of that messenger"
    )
    events: tuple[WebhookEvent, ...] = Field(
        default=tuple(WebhookEvent), min_length=1, description="which of alarm, ticket and notice are posted there"
    )
    secret: SecretStr = Field(
        default=SecretStr(""), description="what DingTalk calls 加签 (SEC…), or ${NAME} of it; only with format dingtalk"
    )
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
        allowed = [str(each) for each in self.allow_addresses]
        faults = url_faults(self.url, path="/PATH", has_query=True, allow_plain=self.allow_plain, allowed=allowed)
        if not (self.url.isascii() and self.url.isprintable()) or " " in self.url:
            faults.append("url: only visible ASCII characters; write others percent-encoded")
        if self.token.get_secret_value() and self.token_file is not None:
            faults.append("give either token or token_file")
        if self.secret.get_secret_value() and self.format is not WebhookFormat.DINGTALK:
            faults.append("secret belongs to format dingtalk; a bearer token is `token`")
        if self.format is not WebhookFormat.GENERIC and (self.token.get_secret_value() or self.token_file is not None):
            faults.append(f"{self.format} takes no token: its key is part of the url")
        if faults:
            raise ValueError("; ".join(faults))
        return self

    @property
    def host(self) -> str:
        """The host of the URL."""
        return urlsplit(self.url).hostname or ""

    def wants(self, event: WebhookEvent) -> bool:
        """Whether it is told of such events."""
        return event in self.events

    @field_serializer("url", when_used="json")
    def _shown_url(self, url: str) -> str:
        """What is shown of the URL: where it leads. Its path and query may be the key."""
        parts = urlsplit(url)
        return f"{parts.scheme}://{parts.netloc}/" + ("**********" if parts.path.strip("/") or parts.query else "")
