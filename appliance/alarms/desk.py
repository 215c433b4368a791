"""What a technician's tools ask about alarms, answered in words JSON can carry; implements ``AlarmActs``."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from appliance.alarms.account import AlarmAccount
from appliance.alarms.handling import AlarmHandling
from appliance.alarms.inhibition import Inhibitions
from appliance.contracts.alarm import Alarm, Inhibition
from appliance.contracts.plant import Plant


class AlarmDesk:
    """Hands each request to whom it concerns. ``missing_noted`` is awaited when somebody looked into missing events."""

    def __init__(
        self,
        handling: AlarmHandling,
        inhibitions: Inhibitions,
        account: AlarmAccount,
        plant: Plant,
        missing_noted: Callable[[], Awaitable[None]],
    ) -> None:
        self._handling = handling
        self._inhibitions = inhibitions
        self._account = account
        self._plant = plant
        self._missing_noted = missing_noted

    async def acknowledge(self, activation_id: str, revision: int | None, by: str) -> Mapping[str, Any]:
        """See the port."""
        return _shown(await self._handling.acknowledge(activation_id, revision, by=by))

    async def reset(self, activation_id: str, revision: int | None, by: str) -> Mapping[str, Any]:
        """See the port."""
        return _shown(await self._handling.reset(activation_id, revision, by=by))

    async def close(self, activation_id: str, revision: int | None, reason: str, by: str) -> Mapping[str, Any]:
        """See the port."""
        return _shown(await self._handling.close(activation_id, revision, by=by, reason=reason))

    async def shelve(self, alarm_id: str, minutes: float, reason: str, by: str) -> Mapping[str, Any]:
        """See the port."""
        return asdict(await self._inhibitions.shelve(alarm_id, minutes * 60, by=by, reason=reason))

    async def take_out_of_service(self, alarm_id: str, reason: str, by: str) -> Mapping[str, Any]:
        """See the port."""
        return asdict(await self._inhibitions.take_out(alarm_id, by=by, reason=reason))

    async def release(self, alarm_id: str, kind: Inhibition, by: str) -> Mapping[str, Any]:
        """See the port."""
        return {"alarm_id": alarm_id, "announced": await self._inhibitions.end(alarm_id, kind, by=by)}

    def defined(self) -> Sequence[Mapping[str, Any]]:
        """See the port."""
        return [
            {
                "alarm_id": alarm.id,
                "asset": alarm.asset,
                "priority": str(alarm.priority),
                "source_id": alarm.source_id,
                "condition": str(alarm.condition.kind) if alarm.condition else None,
                "latching": alarm.latching,
                "group": alarm.group,
            }
            for alarm in self._plant.alarms
        ]

    async def held(self) -> Sequence[Mapping[str, Any]]:
        """See the port."""
        return [asdict(held) for held in await self._inhibitions.held()]

    async def account(self) -> Mapping[str, Any]:
        """See the port."""
        return await self._account.draw_up()

    async def accept_missing(self, source: str, by: str) -> Mapping[str, Any]:
        """See the port."""
        accepted = await self._account.accept_missing(source, by)
        await self._missing_noted()
        return asdict(accepted)


def _shown(alarm: Alarm) -> Mapping[str, Any]:
    return asdict(alarm)
