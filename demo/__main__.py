"""``python -m demo``: the reference story, unattended. ``python -m demo --interactive``: the same site, for you.

Exits 0 when every promise of the story was kept; prints one JSON summary last and writes it to ``summary.json`` in the
site's folder (``var/demo``).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import sys
from pathlib import Path
from typing import Any

import httpx

from appliance.contracts.errors import FloorhandError
from demo.interactive import talk
from demo.progress import Progress
from demo.site import Site
from demo.story import Story
from demo.summary import summarise

DEFAULT_FOLDER = Path("var/demo")
_FAULTS = (TimeoutError, RuntimeError, AssertionError, OSError, LookupError, httpx.HTTPError, FloorhandError)
"""What a site or a story can break with, and is told in a sentence."""


async def tell(folder: Path) -> dict[str, Any]:
    """Run the story on a site of its own in ``folder`` and return the summary."""
    progress = Progress()
    site = Site(folder, note=progress.note)
    try:
        progress.chapter("The site starts: broker, plant, coordinator, core")
        await site.open()
        await site.start_coordinator()
        await site.start_core()
        story = Story(site, progress)
        told = await story.run()
        progress.chapter("Doors close, the queue drains, the books are compared")
        code = await site.core.stop()
        if code != 0:
            raise RuntimeError(f"the core ended with exit code {code}")
        counted = await site.at_coordinator("GET", f"/v1/operations/count?device={site.device}")
        orders = await site.at_coordinator("GET", "/v1/work-orders")
        seen = len(site.plant.reports)
        await site.plant.order(do="counts")
        counts = await site.plant.report(lambda r: r.get("event") == "counts", within_s=10.0, since=seen)
        writes = sum(1 for r in site.plant.reports if r.get("event") == "write_received")
        return summarise(told, site.database, counts, writes, counted["lanes"], orders["work_orders"], progress.elapsed_s)
    except _FAULTS as error:
        return {"ok": False, "why": f"{type(error).__name__}: {error}", "total_s": round(progress.elapsed_s, 1)}
    finally:
        await site.close()


async def interactive(folder: Path) -> int:
    """Start the site in ``folder`` and talk to it until end of input. Return the exit code: 1, and a sentence why, when the site
    does not start or breaks."""
    site = Site(folder, note=lambda text: print(f"  {text}", flush=True))
    try:
        print("The site starts: broker, plant, coordinator, core", flush=True)
        await site.open()
        await site.start_coordinator()
        await site.start_core()
        await talk(site)
    except _FAULTS as error:
        print(f"the site cannot go on: {error or type(error).__name__}", file=sys.stderr)
        return 1
    finally:
        await site.close()
    return 0


def main() -> int:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(prog="python -m demo", description="Floorhand's reference story")
    parser.add_argument("--interactive", action="store_true", help="start the same site and type or speak to it")
    parser.add_argument("--folder", type=Path, default=DEFAULT_FOLDER, help="made anew; everything the site writes goes there")
    options = parser.parse_args()
    if options.interactive:
        return int(_until_signal(interactive(options.folder)))
    summary = _until_signal(tell(options.folder))
    text = json.dumps(summary, ensure_ascii=False)
    (options.folder / "summary.json").write_text(text + "\n", encoding="utf-8")
    print(f"\n{text}", flush=True)
    return 0 if summary["ok"] else 1


def _until_signal(work: Any) -> Any:
    """Run ``work``; SIGTERM ends it as Ctrl-C does, so that nothing is left running."""

    async def run() -> Any:
        task = asyncio.current_task()
        assert task is not None
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        return await work

    try:
        return asyncio.run(run())
    except (KeyboardInterrupt, asyncio.CancelledError):
        print("stopped", file=sys.stderr)
        sys.exit(130)


if __name__ == "__main__":
    sys.exit(main())
