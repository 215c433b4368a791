"""The reference story on a real site, typed instead of spoken, with every link lost once; and what was seen while it ran."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from demo.site import Site
from tests.support.site import Books, ask, log_of, plant_counts, running_site, until_said

LOST = ("The coordinator cannot be reached.", "I have lost the alarm broker.", "Its values are old until it answers again.")
PLC_SAID = ("Its values are old until it answers again.", "Back to normal: PLC of line three cannot be seen.")
BACK = ("The coordinator is back.", "The alarm broker is back.", "Back to normal: PLC of line three cannot be seen.")


@dataclass
class Told:
    """What was seen. ``books`` are read only after the core has ended."""

    books: Books
    procedures: Path
    answers: dict[str, dict[str, Any]] = field(default_factory=dict)
    question: dict[str, Any] = field(default_factory=dict)
    order: dict[str, Any] = field(default_factory=dict)
    second_code: int = -1
    second_text: str = ""
    first_pid: int = 0
    lost_status: dict[str, Any] = field(default_factory=dict)
    lost_tags: dict[str, dict[str, Any]] = field(default_factory=dict)
    held_back: int = 0
    back_status: dict[str, Any] = field(default_factory=dict)
    back_tag: dict[str, Any] = field(default_factory=dict)
    counts: dict[str, Any] = field(default_factory=dict)
    orders: list[dict[str, Any]] = field(default_factory=list)
    lanes: dict[str, int] = field(default_factory=dict)
    at_coordinator: dict[str, int] = field(default_factory=dict)
    speech_bytes: int = 0
    stop_code: int = -1
    stop_s: float = 0.0
    next_status: dict[str, Any] = field(default_factory=dict)
    next_stop_code: int = -1
    taken_over: list[dict[str, Any]] = field(default_factory=list)


async def tell(folder: Path) -> Told:
    """Tell the story to its end; nothing runs any more when it returns."""
    async with running_site(folder, until_whole=False) as site:
        told = Told(Books(site.database), site.data / "procedures")
        await _alarm_and_order(site, told)
        await _second_core(site, told)
        await _without_coordinator(site, told)
        await _without_anything(site, told)
        await _everything_back(site, told)
        await _stop(site, told)
        await _start_again(site, told)
        return told


async def _alarm_and_order(site: Site, told: Told) -> None:
    await site.plant.order(do="overheat", asset="motor_3")
    (told.question,) = await site.client.until("/v1/confirmations", lambda rows: rows, what="the question", within_s=30)
    told.answers["order"] = await ask(site, "yes")
    (told.order,) = await site.client.until(
        "/v1/work-orders", lambda rows: [r for r in rows if r["number"]], what="the work order numbered", within_s=30
    )


async def _second_core(site: Site, told: Told) -> None:
    other = site.make_core("second")
    await other.start()
    told.second_code = await other.ended(within_s=30)
    told.second_text = (site.logs / "second.log").read_text("utf-8")
    told.first_pid = site.core.pid


async def _without_coordinator(site: Site, told: Told) -> None:
    await site.coordinator.stop()
    await site.client.until("/v1/status", lambda status: not status["online"], what="the coordinator missed", within_s=30)
    sentences = {
        "heat": "what is the temperature of motor three",
        "too much": "set the fan speed of motor three to one hundred and fifty percent",
        "set": "set the fan speed of motor three to maximum",
        "bare": "yes",
        "confirm": "yes confirm",
    }
    for name, text in sentences.items():
        told.answers[name] = await ask(site, text)


async def _without_anything(site: Site, told: Told) -> None:
    await site.broker.stop()
    await site.plant.order(do="silent", seconds=120)
    parts = {"coordinator", "mqtt", "plc:line_3"}
    told.lost_status = await site.client.until(
        "/v1/status", lambda status: parts <= status["degraded"].keys() and status, what="every link named", within_s=40
    )
    told.lost_tags = {tag["key"]: tag for tag in await site.client.get("/v1/tags")}
    told.answers["stale"] = await ask(site, "what is the temperature of motor three")
    told.answers["never read"] = await ask(site, "what is the speed of conveyor three")
    await site.plant.order(do="pressure_drop", asset="pump_3")
    for text in LOST:
        await until_said(site, text, within_s=40)
    told.held_back = len(await site.client.get("/v1/alarms"))


async def _everything_back(site: Site, told: Told) -> None:
    await site.broker.start()
    await site.plant.order(do="behave")
    await site.start_coordinator()
    await site.client.until("/v1/confirmations", lambda rows: rows, what="the question of the alarm held back", within_s=40)
    told.answers["no order"] = await ask(site, "no")
    await site.plant.order(do="recover", asset="motor_3")
    for text in (*BACK, "Back to normal: Motor three over temperature."):
        await until_said(site, text, within_s=60)
    told.back_status = await site.client.get("/v1/status")
    (told.back_tag,) = await site.client.get("/v1/tags?keys=motor_3.fan_speed")
    await site.client.until(
        "/v1/sync", lambda sync: all(lane["pending"] == 0 for lane in sync["lanes"]), what="the log carried over", within_s=60
    )


async def _stop(site: Site, told: Told) -> None:
    begun_s = time.monotonic()
    told.stop_code = await site.core.stop()
    told.stop_s = time.monotonic() - begun_s
    told.counts = await plant_counts(site)
    told.orders = (await site.at_coordinator("GET", "/v1/work-orders"))["work_orders"]
    told.at_coordinator = (await site.at_coordinator("GET", f"/v1/operations/count?device={site.device}"))["lanes"]
    told.lanes = told.books.verified_lanes()
    told.speech_bytes = site.speech.stat().st_size


async def _start_again(site: Site, told: Told) -> None:
    await site.start_core(until_whole=False)
    told.next_status = await site.client.get("/v1/status")
    told.next_stop_code = await site.core.stop()
    told.taken_over = [event for event in log_of(site) if event["event"] == "ledger.taken_over"]
