"""What people ask of the running appliance as a whole: hold, drain, stop a turn, find out what is unknown, verify the audit log.

In: the local API's calls. Out: each act with who asked, on disk. Who calls: ``core`` hands it to the local API. Implements
``contracts.operating_acts.OperatingActs``.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from appliance.contracts.clock import Clock
from appliance.contracts.effect import Effect
from appliance.contracts.errors import Refused
from appliance.contracts.operating_acts import Draining
from appliance.contracts.operation import OperationLane
from appliance.contracts.store import Ledger, Transaction
from appliance.contracts.turn import Turn
from appliance.health.audit_watch import AuditWatch
from appliance.holding import Holding
from appliance.store import audit, effects

log = logging.getLogger(__name__)

StopTurn = Callable[[str, str, str], Awaitable[Turn]]
"""Takes turn, who and why; returns the turn as it is once the wish is on disk and its bell was rung. Raises Refused."""

VerifyUnknown = Callable[[str, str], Awaitable[Effect]]
"""Takes the action of an unknown effect, and who asks; returns the effect as it is now. Raises Refused, Unavailable."""

_APPLIANCE = "appliance"
_SEE_UNKNOWNS = "`floorhand unknowns list` shows what waits to be settled."


class Operating:
    """One appliance. ``drain_changed`` is called on the event loop when draining begins or ends."""

    def __init__(
        self,
        ledger: Ledger,
        clock: Clock,
        *,
        holding: Holding,
        draining: Draining,
        turns_running: Callable[[], int],
        stop_turn: StopTurn,
        verify_unknown: VerifyUnknown,
        audit_watch: AuditWatch,
        drain_changed: Callable[[], None] = lambda: None,
    ) -> None:
        self._ledger = ledger
        self._clock = clock
        self._holding = holding
        self._draining = draining
        self._turns_running = turns_running
        self._stop_turn = stop_turn
        self._verify_unknown = verify_unknown
        self._audit_watch = audit_watch
        self._drain_changed = drain_changed

    def holds(self) -> Mapping[str, Any]:
        """What holds, as of now."""
        return self._holding.facts()

    async def hold(self, reason: str, by: str) -> Mapping[str, Any]:
        """Carry nothing out from now on."""
        return await self._holding.hold(reason, by)

    async def release(self, by: str, *, of: str = "", everyone: bool = False) -> Mapping[str, Any]:
        """Let go of what ``by`` holds, or ``of``, or ``everyone``. Raises Refused: that is nothing."""
        return await self._holding.release(by, of=of, everyone=everyone)

    async def drain(self, by: str, wait_s: float) -> Mapping[str, Any]:
        """Take nothing new; return once nothing runs, or after ``wait_s``."""
        if not self._draining.is_draining:
            await self._note("drain_began", by)
            self._draining.drain()
            log.warning("drain.began", extra={"by": by})
            self._drain_changed()
        is_drained = False
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                await self._draining.drained()
                is_drained = True
        return self._drain_facts(is_drained)

    async def undrain(self, by: str) -> Mapping[str, Any]:
        """Take work again."""
        if self._draining.is_draining:
            await self._note("drain_ended", by)
            self._draining.undrain()
            log.warning("drain.ended", extra={"by": by})
            self._drain_changed()
            return self._drain_facts(False) | {"was_draining": True}
        return self._drain_facts(False) | {"was_draining": False}

    async def stop(self, turn_id: str, reason: str, by: str) -> Mapping[str, Any]:
        """Stop a turn. Raises Refused: no such turn."""
        turn = await self._stop_turn(turn_id, by, reason)
        return {"turn": turn.id, "state": str(turn.state)}

    async def verify_unknown(self, identity: str, by: str) -> Mapping[str, Any]:
        """Ask the tool what became of an unknown effect.

        Raises:
            Refused: there is no such effect, or its tool cannot tell.
            Unavailable: the evidence cannot be had now.
        """
        if await self._ledger.transaction(lambda tx: effects.of_action(tx, identity)) is None:
            raise Refused(f"there is no unknown effect {identity}", id=identity, cure=_SEE_UNKNOWNS)
        found = await self._verify_unknown(identity, by)
        return {
            "id": identity,
            "kind": "effect",
            "status": str(found.status),
            "settled_by": found.settled_by,
            "note": found.note,
        }

    async def verify_audit(self, lane: OperationLane, after: int) -> Mapping[str, Any]:
        """Verify the next slice of a lane. Raises Malformed: there is no entry ``after``."""
        return await self._audit_watch.verify(lane, after)

    def _drain_facts(self, is_drained: bool) -> dict[str, Any]:
        return {"draining": self._draining.is_draining, "drained": is_drained, "turns_running": self._turns_running()}

    async def _note(self, what: str, by: str) -> None:
        def work(tx: Transaction) -> None:
            audit.note(tx, self._clock, what, _APPLIANCE, {"by": by})

        await self._ledger.transaction(work)
