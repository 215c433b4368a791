"""The panel at the machine: what its buttons do, and what its lamps and buzzer show.

In: contacts, live alarms, what is degraded. Out: push-to-talk for the voice, acknowledgements in the name of whoever stands
there, the hold of the key switch, lamps. Who calls: ``app`` runs it when a pin is named.
"""

from __future__ import annotations

import asyncio
import logging

from appliance.alarms.handling import AlarmHandling
from appliance.contracts.alarm_definition import Priority
from appliance.contracts.clock import Clock
from appliance.contracts.errors import FloorhandError, Unavailable
from appliance.contracts.hold import HoldSource
from appliance.contracts.store import Ledger, Transaction
from appliance.foundation.backoff import delays_s
from appliance.foundation.lookout import Lookout
from appliance.foundation.supervisor import Degraded
from appliance.holding import Holding
from appliance.store import alarms, inhibitions
from drivers.gpio.annunciator import Situation, StandingAlarm
from drivers.gpio.panel import Panel
from drivers.gpio.settings import GpioSettings
from voice.link import VoiceLink

log = logging.getLogger(__name__)

BY_BUTTON = "acknowledge button"
"""Who acknowledged, as far as a button knows."""
BY_KEY = "key switch"
"""Who put on hold or let go, as far as a key knows."""

_FIRST_TRY_AGAIN_S, _LONGEST_TRY_AGAIN_S = 0.5, 5.0


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
        holding: Holding,
    ) -> None:
        self._ledger = ledger
        self._clock = clock
        self._degraded = degraded
        self._handling = handling
        self._voice = voice
        self._holding = holding
        self._talk: asyncio.Queue[bool] = asyncio.Queue()
        self._presses: asyncio.Queue[int] = asyncio.Queue()
        self._key: bool | None = None
        self._key_turned = asyncio.Event()
        self._lookout = Lookout()
        self._panel = Panel(
            settings,
            clock,
            degraded,
            on_talk=lambda is_pressed, _: self._talk.put_nowait(is_pressed),
            on_acknowledge=self._presses.put_nowait,
            on_key=lambda is_on, _: self._take_key(is_on),
        )
        holding.listeners.append(self.notify)

    def notify(self) -> None:
        """Look at the alarms and the hold again: something was written."""
        self._lookout.notify()

    def facts(self) -> dict[str, bool]:
        """Return what status shows."""
        return {"key_is_on": self._panel.key_is_on}

    async def run(self) -> None:
        """Follow the buttons and keep the lamps true, for ever."""

        def note(_part: str, _why: str) -> None:
            self.notify()

        self._degraded.listeners.append(note)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._panel.run(), name="panel")
                group.create_task(self._follow_talk(), name="push-to-talk")
                group.create_task(self._follow_acknowledge(), name="acknowledge button")
                group.create_task(self._follow_key(), name="key switch")
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

    def _take_key(self, is_on: bool) -> None:
        log.info("panel.key", extra={"is_on": is_on})
        self._key = is_on
        self._key_turned.set()

    async def _follow_key(self) -> None:
        """Hold while the key is turned. Only how it stands now counts, and that includes its first reading after a start: it may
        have been turned while the power was off. While nothing can be written, try again: a key must not be turned in vain."""
        waits = delays_s(_FIRST_TRY_AGAIN_S, _LONGEST_TRY_AGAIN_S)
        while True:
            await self._key_turned.wait()
            self._key_turned.clear()
            try:
                if self._key:
                    await self._holding.begin(HoldSource.KEY_SWITCH, by=BY_KEY, reason="")
                else:
                    await self._holding.end(HoldSource.KEY_SWITCH, by=BY_KEY)
            except Unavailable as error:
                log.error("panel.key_not_taken", extra={"why": error.message})
                await asyncio.sleep(next(waits))
                self._key_turned.set()
            else:
                waits = delays_s(_FIRST_TRY_AGAIN_S, _LONGEST_TRY_AGAIN_S)

    async def _keep_shown(self) -> None:
        async def look() -> None:
            standing = await self._ledger.transaction(self._standing)
            is_degraded, is_on_hold = bool(self._degraded.reasons), self._holding.is_on
            self._panel.show(Situation(standing, is_degraded=is_degraded, is_on_hold=is_on_hold))

        await self._lookout.run(look)

    def _standing(self, tx: Transaction) -> tuple[StandingAlarm, ...]:
        held = {each.alarm_id for each in inhibitions.all_held(tx, self._clock)}
        return tuple(
            StandingAlarm(alarm.activation_id, Priority(alarm.priority), alarm.state)
            for alarm in alarms.live(tx)
            if alarm.alarm_id not in held
        )
