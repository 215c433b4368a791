"""A whole site for a test, every part a process of its own: broker, plant, coordinator, core, voice. And its books afterwards."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

from appliance.contracts.operation import OperationLane
from appliance.store import operations
from demo.site import CONFIG, Site

_ALONE = {"FLOORHAND_COORDINATOR_URL": "", "FLOORHAND_COORDINATOR_TOKEN": ""}
COUNTED = (OperationLane.P0, OperationLane.P1, OperationLane.P2)


@asynccontextmanager
async def running_site(
    folder: Path, *, alone: bool = False, until_whole: bool = True, prepare: Callable[[Path], None] = lambda _: None
) -> AsyncIterator[Site]:
    """Start a site below ``folder`` and end it afterwards. ``alone`` leaves the coordinator out; ``prepare`` may change the
    site's copy of the configuration.

    The configuration is the shipped one but for two things: espeak-ng speaks, which is ready at once, and a coordinator that was
    away is asked for every second.
    """
    config = folder / "config"
    shutil.copytree(CONFIG, config)
    written = (config / "appliance.yaml").read_text("utf-8")
    for shipped, quick in (("synthesizer: auto", "synthesizer: espeak"), ("\nsync:\n", "\nsync:\n  retry_longest_s: 1\n")):
        assert written.count(shipped) == 1
        written = written.replace(shipped, quick)
    (config / "appliance.yaml").write_text(written, "utf-8")
    prepare(config)
    site = Site(folder / "site", config=config, environ=_ALONE if alone else None)
    try:
        await site.open()
        if not alone:
            await site.start_coordinator()
        await site.start_core(until_whole=until_whole)
        yield site
    finally:
        await site.close()


async def ask(site: Site, text: str) -> dict[str, Any]:
    """Type a sentence to the core and return what came of it."""
    answer: dict[str, Any] = await site.client.post("/v1/ask", {"text": text, "wait_s": 30.0})
    return answer


async def until_said(site: Site, text: str, *, within_s: float = 20.0) -> None:
    """Return when the core has something to say that contains ``text``."""
    await site.client.until(
        "/v1/deliveries", lambda rows: any(text in row["text"] for row in rows), what=f"“{text}” queued", within_s=within_s
    )


async def plant_counts(site: Site) -> dict[str, Any]:
    """What the plant published and what was written to it."""
    seen = len(site.plant.reports)
    await site.plant.order(do="counts")
    return dict(await site.plant.report(lambda r: r.get("event") == "counts", within_s=10.0, since=seen))


def log_of(site: Site, name: str = "core") -> list[dict[str, Any]]:
    """The events a process of the site logged; lines that are none are left out."""
    events = []
    for line in (site.logs / f"{name}.log").read_text("utf-8", "replace").splitlines():
        try:
            events.append(json.loads(line))
        except ValueError:
            continue
    return [event for event in events if isinstance(event, dict)]


class Books:
    """Reads the ledger of a core that has ended; a running service's file is never opened beside it."""

    def __init__(self, database: Path) -> None:
        self._database = database

    def rows(self, sql: str, *parameters: Any) -> list[dict[str, Any]]:
        """Return rows as dicts."""
        with closing(self._connect()) as connection:
            return [dict(row) for row in connection.execute(sql, parameters)]

    def count(self, sql: str, *parameters: Any) -> int:
        """Return one number."""
        (row,) = self.rows(sql, *parameters)
        return int(next(iter(row.values())))

    def verified_lanes(self) -> dict[str, int]:
        """Check every lane's chain against its head; return how many operations each has.

        Raises:
            Corrupt: a chain is broken.
        """
        with closing(self._connect()) as connection:
            return {str(lane): operations.verify_chain(connection, lane) for lane in OperationLane}

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(f"{self._database.resolve().as_uri()}?mode=ro", uri=True)
        connection.row_factory = sqlite3.Row
        return connection
