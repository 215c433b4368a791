"""Lives of one process: each is a fork that tells the story until it ends, or dies where it was told to.

``python -m crash.life`` reads :class:`Order` as JSON lines and answers each with the exit status and what an audit found.
Everything is imported and read before the first fork, so that a life costs what the runtime costs.
"""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import os
import sys
import traceback
from dataclasses import dataclass
from pathlib import Path

from appliance.foundation.id_source import SystemIds
from appliance.foundation.system_clock import SystemClock
from crash.books import Findings, audit
from crash.kill_switch import KillSwitch, watched
from crash.rooms import LANGUAGE, Core, Outlets, Site
from crash.sabotage import apply_sabotage
from crash.story import KEYS, Story
from crash.world import Archive, BrokerFile, Loudspeaker, Machine, World

LEDGER = "ledger.db"
READY, AT_REST = "ready", "at rest"


@dataclass(frozen=True, slots=True)
class Order:
    """One life to be led in ``folder``, its ``number``-th there. It dies at the point ``deadly``, or at none."""

    folder: str
    number: int
    deadly: str = ""
    sabotage: str = ""
    is_audited: bool = True

    @property
    def trace(self) -> Path:
        """The file its points are written to."""
        return Path(self.folder) / f"trace-{self.number}.txt"


async def live(order: Order, site: Site) -> None:
    """Take over what is in the folder, tell the story to its end, leave the receipt of a clean shutdown."""
    folder, clock = Path(order.folder), SystemClock()
    began_ns = clock.monotonic_ns()
    switch = KillSwitch(order.trace, order.deadly)
    world = World(folder, switch.effect)
    machine = Machine(world, site.plant, clock)
    outlets = Outlets(machine, Loudspeaker(world, clock), BrokerFile(world), Archive(world))
    with watched(folder / LEDGER, switch):
        core = await Core.open(folder / LEDGER, site, clock, SystemIds(clock), outlets)
    await core.start()
    switch.note(f"{READY} {(clock.monotonic_ns() - began_ns) / 1e6:.1f} ms")
    story = Story(core, world, machine)
    await story.rest()
    switch.note(AT_REST)
    await story.tell()
    await core.close()


def _be(order: Order, site: Site) -> None:
    status = 1
    try:
        apply_sabotage(order.sabotage, Path(order.folder) / LEDGER)
        asyncio.run(live(order, site))
        status = 0
    finally:
        if status:
            (Path(order.folder) / "failure.txt").write_text(traceback.format_exc(), "utf-8")
        os._exit(status)  # whatever thread a broken life left behind


def main() -> None:
    """Serve lives until the input ends; answer each with ``{"status": …, "findings": …}``."""
    logging.getLogger().addHandler(logging.NullHandler())  # what is stopped and killed here says so otherwise
    site = Site.shipped()
    mark = site.wording.reply("repeat", LANGUAGE)
    gc.freeze()  # or every child copies what its collector looks at
    for line in sys.stdin:
        order = Order(**json.loads(line))
        child = os.fork()
        if child == 0:
            _be(order, site)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        findings = audit(Path(order.folder) / LEDGER, mark, KEYS if status == 0 else None) if order.is_audited else Findings()
        sys.stdout.write(json.dumps({"status": status, "findings": findings.to_json()}) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
