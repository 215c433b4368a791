"""Alarm changes for webhooks: what is published by MQTT, with the appliance that tells it and a sentence for people. Queued with
the change."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from appliance.contracts.alarm import Alarm
from appliance.contracts.alarm_definition import Priority
from appliance.contracts.clock import Clock, IdSource
from appliance.contracts.store import Transaction
from appliance.delivery.alarm_messages import PRIORITY, Tell, to_payload
from appliance.delivery.settings import WebhookEvent, WebhookSettings
from appliance.store import deliveries

_URGENCY = {str(priority): urgency for urgency, priority in enumerate(Priority)}


Words = Callable[[Alarm], str]
"""Says an alarm and how it stands, in the site's language."""


def alarm_webhooks(clock: Clock, ids: IdSource, webhooks: Mapping[str, WebhookSettings], origin: str, words: Words) -> Tell:
    """Return what queues an alarm and what changed for each webhook that wants to be told of it, in the caller's transaction."""
    told = {name: webhook for name, webhook in webhooks.items() if webhook.wants(WebhookEvent.ALARM)}

    def queue(tx: Transaction, alarm: Alarm, change: str) -> None:
        if not told:
            return
        payload = {"event": str(WebhookEvent.ALARM), "appliance": origin, **to_payload(alarm, change), "text": words(alarm)}
        for name, webhook in told.items():
            if _URGENCY[alarm.priority] >= _URGENCY[webhook.priority]:
                deliveries.queue_webhook(tx, clock, ids, turn_id=None, name=name, payload=payload, priority=PRIORITY)

    return queue
