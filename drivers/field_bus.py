"""One field bus for all tags: those of Modbus links, and those that gateways publish by MQTT. Implements ``FieldBus``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from appliance.contracts.errors import Refused
from appliance.contracts.plant import Plant
from appliance.contracts.ports import FieldBus
from appliance.contracts.reading import Reading, Value, WriteReceipt
from appliance.contracts.refusals import not_settable
from appliance.contracts.tag import MQTT_LINK


class Published(Protocol):
    """Values that came by themselves."""

    def read(self, keys: Sequence[str]) -> dict[str, Reading]:
        """Return the newest readings. Raises Refused for a key that is not published."""
        ...


class FieldRouter(FieldBus):
    """Sends each tag to where it lives; a key nobody knows goes to ``wired``, which says so."""

    def __init__(self, plant: Plant, wired: FieldBus, published: Published) -> None:
        self._published_tags = {tag.key: tag for tag in plant.tags if tag.link == MQTT_LINK}
        self._published_keys = self._published_tags.keys()
        self._wired = wired
        self._published = published

    async def read(self, keys: Sequence[str]) -> dict[str, Reading]:
        """Read now; a published tag gives its newest value. See ``FieldBus.read``."""
        wired = [key for key in keys if key not in self._published_keys]
        readings = await self._wired.read(wired) if wired else {}
        readings |= self._published.read([key for key in keys if key in self._published_keys])
        return {key: readings[key] for key in keys}

    async def write(self, key: str, value: Value) -> WriteReceipt:
        """Write one tag of a Modbus link. See ``FieldBus.write``."""
        if key in self._published_keys:
            raise not_settable(self._published_tags[key], f"{key} is published by a gateway and cannot be written")
        return await self._wired.write(key, value)

    async def probe(self, key: str) -> Mapping[str, Any]:
        """Show one tag of a Modbus link in all orders. See ``FieldBus.probe``."""
        if key in self._published_keys:
            raise Refused(f"{key} is published by a gateway and has no registers to show", tag=key)
        return await self._wired.probe(key)

    async def read_event_log(self, newest: int) -> list[Mapping[str, Any]]:
        """Read the PLC's event log. See ``FieldBus.read_event_log``."""
        return await self._wired.read_event_log(newest)
