"""The local API with what may be asked of the appliance as a whole, over a real ledger. Turns are the test's."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

from appliance.console.api import LocalApi
from appliance.contracts.effect import Effect
from appliance.contracts.errors import Refused
from appliance.contracts.interrupt import Cause
from appliance.contracts.turn import Turn
from appliance.foundation.supervisor import Degraded
from appliance.health.audit_watch import AuditWatch
from appliance.holding import Holding
from appliance.operating import Operating
from appliance.store import effects, stopping
from tests.support.core import StandInCore
from tests.support.ledger import Bench, open_bench
from tests.support.plans import phrasing


class Floor:
    """Turns that run until the test says so. Implements ``contracts.operating_acts.Draining``."""

    def __init__(self) -> None:
        self.is_draining = False
        self.running = 0
        self.quiet = asyncio.Condition()

    def drain(self) -> None:
        self.is_draining = True

    def undrain(self) -> None:
        self.is_draining = False

    async def drained(self) -> None:
        async with self.quiet:
            await self.quiet.wait_for(lambda: self.running == 0)

    async def end_all(self) -> None:
        async with self.quiet:
            self.running = 0
            self.quiet.notify_all()


@dataclass
class Site:
    """A running appliance as far as these acts need one."""

    bench: Bench
    degraded: Degraded
    floor: Floor
    holding: Holding
    watch: AuditWatch
    operating: Operating
    core: StandInCore
    queued: list[None] = field(default_factory=list)

    async def texts(self) -> list[str]:
        """What there was to say, in order."""
        return [row["text"] for row in await self.bench.rows("SELECT text FROM delivery WHERE channel = 'speech' ORDER BY seq")]


def holding_of(bench: Bench, *, has_key: bool = False, language: str = "en", queued: list[None] | None = None) -> Holding:
    """A hold over the bench's ledger."""
    told: list[None] = [] if queued is None else queued
    return Holding(
        bench.database, bench.clock, bench.ids, phrasing(), language=language, client_id="line-3", has_key=has_key,
        queued=lambda: told.append(None),
    )  # fmt: skip


def site_of(bench: Bench, *, has_key: bool = False) -> Site:
    """Build everything over one ledger."""
    queued: list[None] = []
    degraded, floor = Degraded(), Floor()
    holding = holding_of(bench, has_key=has_key, queued=queued)
    watch = AuditWatch(bench.database, degraded, pause_s=0.0)

    async def stop_turn(turn_id: str, by: str, reason: str) -> Turn:
        return await bench.database.transaction(
            lambda tx: stopping.stop(tx, bench.clock, bench.ids, turn_id, cause=Cause.USER, by=by, reason=reason)
        )

    async def verify_unknown(action_id: str, by: str) -> Effect:
        found = await bench.database.transaction(lambda tx: effects.of_action(tx, action_id))
        if found is None:
            raise Refused(f"nothing unknown is called {action_id}")
        return found

    operating = Operating(
        bench.database, bench.clock, holding=holding, draining=floor, turns_running=lambda: floor.running,
        stop_turn=stop_turn, verify_unknown=verify_unknown, audit_watch=watch,
    )  # fmt: skip
    return Site(bench, degraded, floor, holding, watch, operating, StandInCore(operating=operating), queued)


@contextlib.asynccontextmanager
async def serving_site(folder: Path, *, has_key: bool = False) -> AsyncIterator[Site]:
    """The same, with its local API at ``folder / run / api.sock``."""
    async with open_bench(folder) as bench:
        site = site_of(bench, has_key=has_key)
        api = LocalApi(site.core, bench.database, dict, path=folder / "run" / "api.sock", language="en", languages=("en", "zh"))
        running = asyncio.create_task(api.run())
        try:
            async with asyncio.timeout(10):
                await api.serving.wait()
            yield site
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
