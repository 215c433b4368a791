"""What a person asks of the running appliance as a whole: hold and release, drain, stop, verify. Answers are JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from appliance.contracts.operation import OperationLane

Facts = Mapping[str, Any]


class Draining(Protocol):
    """The conductor's side of draining: what is under way ends, no talk is begun; alarms and interjections go on."""

    @property
    def is_draining(self) -> bool:
        """Whether nothing new is taken."""
        ...

    def drain(self) -> None:
        """Take nothing new from now on. Again is harmless."""
        ...

    def undrain(self) -> None:
        """Take work again. Again is harmless."""
        ...

    async def drained(self) -> None:
        """Return once no turn runs and none can begin; at once when that is so already."""
        ...


class OperatingActs(Protocol):
    """``by`` is who asks, as recorded."""

    def holds(self) -> Facts:
        """Return ``{on_hold, holds: [{source, by, reason, since}]}``."""
        ...

    async def hold(self, reason: str, by: str) -> Facts:
        """Carry nothing out from now on; alarms are admitted and told. Answers as :meth:`holds`.

        Several persons may hold. Again by the same one keeps the reason too, and changes nothing else.
        """
        ...

    async def release(self, by: str, *, of: str = "", everyone: bool = False) -> Facts:
        """Let go of what ``by`` holds, or ``of``, or ``everyone``. Answers as :meth:`holds`: others or the key may hold still.

        Raises:
            Refused: nothing is on hold, or not by that person; the message names who holds.
        """
        ...

    async def drain(self, by: str, wait_s: float) -> Facts:
        """Take nothing new, and wait at most ``wait_s`` for what runs. Answers ``{draining, drained, turns_running}``."""
        ...

    async def undrain(self, by: str) -> Facts:
        """Take work again. Answers as :meth:`drain`, with ``was_draining``."""
        ...

    async def stop(self, turn_id: str, reason: str, by: str) -> Facts:
        """Stop a turn. Answers ``{turn, state}`` as of the moment the wish was on disk; it has ended a second later.

        Raises:
            Refused: no such turn.
        """
        ...

    async def verify_unknown(self, identity: str, by: str) -> Facts:
        """Ask the tool of an unknown effect what became of it. Answers ``{id, kind, status, settled_by, note}``.

        Raises:
            Refused: no such unknown effect, or its tool cannot tell.
            Unavailable: the evidence cannot be had now.
        """
        ...

    async def verify_audit(self, lane: OperationLane, after: int) -> Facts:
        """Verify the next slice of a lane's hash chain. Answers ``{lane, upto, newest, is_over, lost, broken}``.

        Raises:
            Malformed: there is no entry ``after``.
        """
        ...
