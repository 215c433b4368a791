"""``make run``: the site of the story, with you in the worker's place."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from shlex import quote

import httpx

from demo.site import Site

HELP = """\
Type what you would say: "what is the temperature of motor three", "set the fan speed of motor three to maximum", "yes, confirm".
  /overheat /pressure /jam    make trouble at motor 3, pump 3 or conveyor 3      /recover   end it
  /offline /online            stop or start the coordinator                      /kill      kill -9 the core and start it again
  /status                     what is degraded                                   /quit      end everything (or Ctrl-D)
Or speak: drop a WAV that says "hey jarvis, …" into the folder named below, e.g. made by
  .venv/bin/python -m demo.worker_voice "what alarms are active" FOLDER/1.wav"""

_TROUBLE = {"/overheat": ("overheat", "motor_3"), "/pressure": ("pressure_drop", "pump_3"), "/jam": ("jam", "conveyor_3")}


async def talk(site: Site) -> None:
    """Read lines until end of input; what the core says is printed as it leaves the speaker."""
    places = f"  microphone folder: {site.microphone}\n  speech so far:     {site.speech}"
    print(f"{HELP}\n{places}\n{elsewhere(site.environment)}\n", flush=True)
    watching = asyncio.create_task(_print_speech(site))
    try:
        while line := await asyncio.to_thread(sys.stdin.readline):
            if line.strip() == "/quit":
                break
            if line.strip():
                try:
                    await _obey(site, line.strip())
                except httpx.HTTPError as error:  # one line was not answered; the next one may be
                    print(f"  not answered: {error or type(error).__name__}", flush=True)
    finally:
        watching.cancel()


def elsewhere(environment: Path) -> str:
    """Return what to type in another shell so that ``floorhand`` finds the site whose environment is kept in this file."""
    return f"For `floorhand status` and the like in another shell, type there first:\n  . {quote(str(environment.resolve()))}"


async def _obey(site: Site, line: str) -> None:
    match line:
        case "/overheat" | "/pressure" | "/jam":
            trouble, asset = _TROUBLE[line]
            await site.plant.order(do=trouble, asset=asset)
        case "/recover":
            for _, asset in _TROUBLE.values():
                await site.plant.order(do="recover", asset=asset)
        case "/offline":
            await site.coordinator.stop()
        case "/online":
            if not site.coordinator.is_running:
                await site.start_coordinator()
        case "/kill":
            await site.core.kill()
            await site.start_core()
        case "/status":
            print(await site.client.get("/v1/status"), flush=True)
        case _ if line.startswith("/"):
            print(f"{HELP}\n{elsewhere(site.environment)}", flush=True)
        case _:
            answer = await site.client.post("/v1/ask", {"text": line, "wait_s": 30.0})
            print(f"  [{answer['intent']} -> {answer['state']}]", flush=True)


async def _print_speech(site: Site) -> None:
    shown: set[str] = set()
    while True:
        try:
            rows = await site.client.get("/v1/deliveries?channel=speech")
        except httpx.HTTPError:
            rows = []  # the core is being started again
        for row in reversed(rows):
            if row["status"] == "delivered" and row["id"] not in shown:
                shown.add(row["id"])
                print(f"  floorhand: {row['lead']} {row['text']}".rstrip(), flush=True)
        await asyncio.sleep(0.3)  # another process' state, for eyes
