"""``notify``: sends a short text to a webhook of the site, or publishes it below the one topic that is for notices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

from pydantic import Field, model_validator

from appliance.contracts.clock import Clock, IdSource
from appliance.contracts.errors import Malformed, Refused
from appliance.contracts.store import Transaction
from appliance.contracts.tool import (
    AccessLevel,
    SchemaContract,
    SecurityContract,
    SlaContract,
    TelemetryContract,
    ToolCall,
    ToolContract,
)
from appliance.execution.fields import Fields
from appliance.foundation.untrusted import clean
from appliance.store import deliveries

PRIORITY_NOTICE = 8
"""After alarms and tickets."""

_LONGEST_TEXT = 1_000  # characters; a messenger's text holds some seven hundred Chinese ones, and cuts the rest


@dataclass(frozen=True, slots=True)
class Receivers:
    """Where notices may go: the webhooks that take them by name, and one MQTT topic (not empty) below which they are published.
    ``origin`` is the appliance that tells them. ``leads_to``: webhook, or empty for topics -> digest of where it leads."""

    webhooks: tuple[str, ...]
    topic_prefix: str
    origin: str
    leads_to: Mapping[str, str] = field(default_factory=dict)


class Arguments(Fields):
    """Exactly one of ``webhook`` (its name in the settings) and ``topic`` (below the topic of notices: a name, or names parted
    by ``/``)."""

    text: str = Field(min_length=1, max_length=4 * _LONGEST_TEXT)
    webhook: str = Field(default="", max_length=63)
    topic: str = Field(default="", max_length=200, pattern="^([A-Za-z0-9_-]+(/[A-Za-z0-9_-]+)*)?$")

    @model_validator(mode="after")
    def _has_one_receiver(self) -> Self:
        if bool(self.webhook) == bool(self.topic):
            raise ValueError("give either webhook or topic")
        return self


class Result(Fields):
    """``delivery`` is the row that tells what becomes of it; ``to`` the webhook or the whole topic."""

    delivery: str
    channel: str
    to: str
    text: str


class Notify:
    """Queues the message in the action's own transaction: it goes exactly as other deliveries do (R5), never to an address that
    somebody names."""

    contract: ClassVar[ToolContract] = ToolContract(
        name="notify",
        description="Send a short text to a webhook by its name, or publish it on a topic of notices",
        schema=SchemaContract(Arguments, Result, required_fields=("text",)),
        sla=SlaContract(max_execution_time_ms=1_000),
        security=SecurityContract(AccessLevel.OPERATOR, "ledger"),
        telemetry=TelemetryContract("notify.started", "notify.done", "notify.failed", redact=("text",)),
        has_effect=False,
        is_held=True,
    )

    def __init__(self, clock: Clock, ids: IdSource, receivers: Receivers) -> None:
        self._clock = clock
        self._ids = ids
        self._receivers = receivers

    def definition_of(self, arguments: Mapping[str, Any], language: str) -> Any:
        """Return where the message would go."""
        return {"prefix": self._receivers.topic_prefix, "to": self._receivers.leads_to.get(str(arguments.get("webhook") or ""))}

    def apply(self, tx: Transaction, call: ToolCall, arguments: Arguments) -> Mapping[str, object]:
        """Queue the message.

        Raises:
            Refused: there is no webhook of that name that takes notices.
            Malformed: nothing visible is left of the text.
        """
        text = clean(arguments.text, _LONGEST_TEXT)
        if not text:
            raise Malformed("a notice needs words").worded("notice_empty")
        payload: dict[str, Any] = {
            "event": "notice",
            "appliance": self._receivers.origin,
            "turn": call.turn_id,
            "at": self._clock.utc().isoformat(timespec="milliseconds"),
            "text": text,
        }
        told: dict[str, Any] = {"turn_id": call.turn_id, "payload": payload, "priority": PRIORITY_NOTICE}
        if arguments.topic:
            topic = f"{self._receivers.topic_prefix}/{arguments.topic}"
            delivery = deliveries.queue_message(tx, self._clock, self._ids, topic=topic, **told)
        else:
            if arguments.webhook not in self._receivers.webhooks:
                known = ", ".join(self._receivers.webhooks) or "none"
                refused = Refused(f"there is no webhook {arguments.webhook} for notices; there is: {known}")
                if not self._receivers.webhooks:
                    raise refused.worded("no_notices")
                raise refused.worded("no_such_webhook", known=list(self._receivers.webhooks))
            delivery = deliveries.queue_webhook(tx, self._clock, self._ids, name=arguments.webhook, **told)
        return {"delivery": delivery.id, "channel": str(delivery.channel), "to": delivery.topic, "text": text}
