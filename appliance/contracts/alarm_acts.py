"""What the local API may ask about alarms: a person's word on them, and what became of everything."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from appliance.contracts.alarm import Inhibition


class AlarmActs(Protocol):
    """What the local API may ask about alarms. Every answer is JSON-serialisable; ``by`` is recorded."""

    async def acknowledge(self, activation_id: str, revision: int | None, by: str) -> Mapping[str, Any]:
        """Acknowledge one activation as it was shown (``revision``); return it.

        Raises:
            Refused: no such activation, it needs no acknowledgement, or it changed since it was shown.
        """
        ...

    async def reset(self, activation_id: str, revision: int | None, by: str) -> Mapping[str, Any]:
        """Reset one latched activation as it was shown; return it. Raises as :meth:`acknowledge`."""
        ...

    async def close(self, activation_id: str, revision: int | None, reason: str, by: str) -> Mapping[str, Any]:
        """Close an activation whose end never came, whatever its state; return it.

        Raises:
            Refused: no such activation, it is normal, or it changed since it was shown.
            Malformed: no reason or no person.
        """
        ...

    async def shelve(self, alarm_id: str, minutes: float, reason: str, by: str) -> Mapping[str, Any]:
        """Keep an alarm from being announced for a time.

        Raises:
            Refused: no such alarm, or longer than the site allows.
            Malformed: no reason or no person.
        """
        ...

    async def take_out_of_service(self, alarm_id: str, reason: str, by: str) -> Mapping[str, Any]:
        """Keep an alarm from being announced until it is put back. Raises as :meth:`shelve`."""
        ...

    async def release(self, alarm_id: str, kind: Inhibition, by: str) -> Mapping[str, Any]:
        """End what keeps an alarm from being announced; ``announced`` counts the activations that are told of now.

        Raises:
            Refused: it does not hold.
        """
        ...

    def defined(self) -> Sequence[Mapping[str, Any]]:
        """Return every alarm the plant model has: ``{alarm_id, asset, priority, source_id, condition, latching, group}``."""
        ...

    async def held(self) -> Sequence[Mapping[str, Any]]:
        """Return what is shelved, suppressed by design or out of service: why, by whom, and for how long (``left_s``)."""
        ...

    async def account(self) -> Mapping[str, Any]:
        """Return the loss account: ``{holds, faults, sources, unreadable, drivers}``."""
        ...

    async def accept_missing(self, source: str, by: str) -> Mapping[str, Any]:
        """Note that somebody looked into what never came from a source so far, or could not be read on the topic of that name.

        Raises:
            Refused: nothing ever came from it.
        """
        ...
