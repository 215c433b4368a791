"""Builds what speaks, publishes alarms and posts to webhooks, and what speaks when the ledger cannot. Read with ``app``.

What is published by MQTT is sent by ``field_rooms``, which owns the broker's session.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from functools import partial

from appliance.contracts.alarm import Alarm, AlarmState
from appliance.contracts.clock import Clock, IdSource
from appliance.contracts.errors import Malformed
from appliance.contracts.plant import Plant
from appliance.contracts.ports import Broker, Wording
from appliance.contracts.store import Ledger
from appliance.delivery.alarm_messages import alarm_messages, each_of
from appliance.delivery.alarm_webhooks import alarm_webhooks
from appliance.delivery.dispatcher import Dispatcher
from appliance.delivery.last_words import LastWords, memo_file
from appliance.delivery.ledger_failures import LedgerFailures
from appliance.delivery.phrasing import Phrasing
from appliance.delivery.settings import WebhookEvent, WebhookSettings
from appliance.delivery.webhooks import WebhookSender
from appliance.execution.alarm_words import words_for
from appliance.execution.tools.notify import Receivers
from appliance.foundation.canonical import digest
from appliance.foundation.supervisor import Degraded
from appliance.ledger_standing import LedgerStanding
from appliance.settings import Settings
from voice.link import VoiceLink


class DeliveryRooms:
    """The ways out of one core. ``failures`` counts what the ledger could not keep of them."""

    def __init__(
        self,
        settings: Settings,
        ledger: Ledger,
        clock: Clock,
        ids: IdSource,
        wording: Phrasing,
        voice: VoiceLink,
        degraded: Degraded,
        origin: str,
    ) -> None:
        self._settings, self._clock, self._ids, self._wording, self._voice = settings, clock, ids, wording, voice
        self.failures = LedgerFailures(degraded)
        self.dispatcher = Dispatcher(ledger, clock, ids, voice, wording, failures=self.failures)
        repeat = wording.reply("repeat", settings.language)
        self.webhooks = WebhookSender(settings.webhooks, ledger, clock, degraded, failures=self.failures, repeat=repeat)
        self.publish_alarm = each_of(
            alarm_messages(clock, ids, settings.mqtt.client_id),
            alarm_webhooks(
                clock, ids, settings.webhooks, origin, partial(alarm_told, settings.plant, wording, settings.language)
            ),
        )
        voice.ready_listeners.append(self.dispatcher.voice_ready)
        self.receivers = Receivers(
            self.takers_of(WebhookEvent.NOTICE),
            settings.notices.topic_prefix or f"floorhand/{settings.mqtt.client_id}/notices",
            origin,
            where_notices_lead(settings.webhooks, settings.mqtt.host, settings.mqtt.port),
        )

    def takers_of(self, event: WebhookEvent) -> tuple[str, ...]:
        """Return the names of the webhooks that are told of such events."""
        return tuple(name for name, webhook in self._settings.webhooks.items() if webhook.wants(event))

    def tell_trouble(self, broker: Broker, standing: LedgerStanding) -> None:
        """Have storage trouble told past the ledger, by the service :attr:`last_words`."""
        settings = self._settings
        self.last_words = LastWords(
            self._voice, broker, self._wording, self._clock, self._ids,
            language=settings.language, client_id=settings.mqtt.client_id, memo=memo_file(settings.socket, settings.data_dir),
        )  # fmt: skip
        standing.speak_through(self.last_words)

    async def say_last_words(self, limit_s: float) -> None:
        """Wait until it was said why the ledger has ended, ``limit_s`` at most."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(limit_s):
                await self.last_words.said.wait()


def where_notices_lead(webhooks: Mapping[str, WebhookSettings], host: str, port: int) -> dict[str, str]:
    """Return where each webhook leads, and by an empty name the broker, as digests: the key of a robot is in its URL."""
    leads = {name: digest([webhook.url, webhook.format]) for name, webhook in webhooks.items()}
    return leads | {"": digest([host, port])}


def alarm_told(plant: Plant, wording: Wording, language: str, alarm: Alarm) -> str:
    """Say an alarm and how it stands, for those who read it. An alarm whose value has no words is told by its name."""
    try:
        words = words_for(alarm, plant, wording, language)
    except Malformed:
        words = alarm.alarm_id.replace("_", " ")
    if alarm.state is AlarmState.NORMAL:
        return wording.reply("alarm_cleared", language, text=words)
    return wording.reply(f"alarm_{alarm.state}", language, alarm=words)
