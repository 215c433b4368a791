"""The panel at the machine: what its buttons do, and what its lamps and buzzer show.

In: contacts, live alarms, what is degraded. Out: push-to-talk for the voice, acknowledgements in the name of whoever stands
there, lamps. Who calls: ``app`` runs it when a pin is named.
"""

from __future__ import annotations

import asyncio
import logging

from appliance.alarms.handling import AlarmHandling
from appliance.contracts.alarm_definition import Priority
from appliance.contracts.clock import Clock
from appliance.contracts.errors import FloorhandError, Unavailable
from appliance.contracts.store import Ledger, Transaction
from appliance.foundation.supervisor import Degraded
from appliance.store import alarms, inhibitions
from drivers.gpio.annunciator import Situation, StandingAlarm
from drivers.gpio.panel import Panel
from drivers.gpio.settings import GpioSettings
from voice.link import VoiceLink

log = logging.getLogger(__name__)

BY_BUTTON = "acknowledge button"
"""Who acknowledged, as far as a button knows."""


class MachinePanel:
    """One panel. :meth:`notify` is to be called whenever anything about alarms was written."""

    def __init__(
        self,
        settings: GpioSettings,
        ledger: Ledger,
        clock: Clock,
        degraded: Degraded,
        handling: AlarmHandling,
        voice: VoiceLink,
    ) -> None:
        self._ledger = ledger
        self._clock = clock
        self._degraded = degraded
        self._handling = handling
        self._voice = voice
        self._talk: asyncio.Queue[bool] = asyncio.Queue()
        self._presses: asyncio.Queue[int] = asyncio.Queue()
        self._stirred = asyncio.Event()
        self._panel = Panel(
            settings,
            clock,
            degraded,
            on_talk=lambda is_pressed, _: self._talk.put_nowait(is_pressed),
            on_acknowledge=self._presses.put_nowait,
            on_key=lambda is_on, _: log.info("panel.key", extra={"is_on": is_on}),
        )

    def notify(self) -> None:
        """Look at the alarms again: something was written."""
        self._stirred.set()

    def facts(self) -> dict[str, bool]:
        """Return what status shows."""
        return {"key_is_on": self._panel.key_is_on}

    async def run(self) -> None:
        """Follow the buttons and keep the lamps true, for ever."""

        def note(_part: str, _why: str) -> None:
            self._stirred.set()

        self._degraded.listeners.append(note)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._panel.run(), name="panel")
                group.create_task(self._follow_talk(), name="push-to-talk")
                group.create_task(self._follow_acknowledge(), name="acknowledge button")
                group.create_task(self._keep_shown(), name="lamps")
        finally:
            self._degraded.listeners.remove(note)

    async def _follow_talk(self) -> None:
        while True:
            is_pressed = await self._talk.get()
            try:
                await self._voice.listen(is_pressed)
            except Unavailable as error:  # the voice process is being started again; whoever holds the button sees no light
                log.warning("panel.nobody_listens", extra={"why": error.message})

    async def _follow_acknowledge(self) -> None:
        while True:
            pressed_mono_ns = await self._presses.get()
            try:
                known = await self._handling.acknowledge_known_at(pressed_mono_ns, by=BY_BUTTON)
                log.info("panel.acknowledged", extra={"alarms": len(known)})
            except FloorhandError as error:  # the buzzer is silent; the alarms stay unacknowledged, and their lamps say so
                log.error("panel.not_acknowledged", extra={"why": error.message})

    async def _keep_shown(self) -> None:
        while True:
            self._stirred.clear()
            standing = await self._ledger.transaction(self._standing)
            self._panel.show(Situation(standing, is_degraded=bool(self._degraded.reasons)))
            await self._stirred.wait()

    def _standing(self, tx: Transaction) -> tuple[StandingAlarm, ...]:
        held = {each.alarm_id for each in inhibitions.all_held(tx, self._clock)}
        return tuple(
            StandingAlarm(alarm.activation_id, Priority(alarm.priority), alarm.state)
            for alarm in alarms.live(tx)
            if alarm.alarm_id not in held
        )
