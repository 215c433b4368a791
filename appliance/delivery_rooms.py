"""Builds what speaks, publishes alarms and posts to webhooks, and what speaks when the ledger cannot. Read with ``app``.

What is published by MQTT is sent by ``field_rooms``, which owns the broker's session.
"""

from __future__ import annotations

import asyncio
import contextlib

from appliance.contracts.clock import Clock, IdSource
from appliance.contracts.ports import Broker
from appliance.contracts.store import Ledger
from appliance.delivery.alarm_messages import alarm_messages, each_of
from appliance.delivery.alarm_webhooks import alarm_webhooks
from appliance.delivery.dispatcher import Dispatcher
from appliance.delivery.last_words import LastWords, memo_file
from appliance.delivery.ledger_failures import LedgerFailures
from appliance.delivery.phrasing import Phrasing
from appliance.delivery.webhooks import WebhookSender
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
        self.webhooks = WebhookSender(settings.webhooks, ledger, clock, degraded, failures=self.failures)
        self.publish_alarm = each_of(
            alarm_messages(clock, ids, settings.mqtt.client_id), alarm_webhooks(clock, ids, settings.webhooks, origin)
        )
        voice.ready_listeners.append(self.dispatcher.voice_ready)

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
