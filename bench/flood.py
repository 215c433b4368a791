"""A gateway that publishes 20,000 alarm events as fast as the broker takes them: how fast they become durable, and what is lost.

Beside it, `mosquitto_sub` takes the same number from the same broker and keeps nothing.
"""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from bench.figures import Findings
from bench.gateway import TOPIC, alarm_message, plain_client
from bench.plants import gateway_plant
from bench.running_core import PASSWORDS, USER, running_broker, running_core
from bench.servers import CannotMeasure, libmodbus_server

_ALARMS = 500
_LOOK_EVERY_S = 0.05
_STANDSTILL_S = 60.0
_COUNT = "SELECT count(*) FROM alarm_event WHERE source = 'bench_gateway'"


async def measure_flood(findings: Findings, folder: Path, *, messages: int) -> None:
    """Fill in ``flood_msgs_s``, ``flood_lost`` and ``bare_flood_msgs_s``."""
    bare = folder / "bare"
    bare.mkdir()
    bare_s = await _flood_bare(bare, messages)
    async with (
        libmodbus_server(folder) as plc_port,
        running_broker(folder) as broker,
        running_core(folder / "flood", gateway_plant(_ALARMS, plc_port), broker.port) as core,
    ):
        with plain_client(broker.port) as gateway:
            started_s = time.monotonic()
            for payload in _events(messages):
                gateway.publish(payload)
            durable, took_s = await _until_durable(core.database, messages, started_s)
            acked = max(gateway.acked, durable)  # the broker's last acknowledgements may still be on their way
    figures = findings.figures
    figures["flood_msgs_s"] = round(durable / took_s)
    figures["flood_lost"] = acked - durable
    figures["flood_published"] = acked
    figures["bare_flood_msgs_s"] = round(messages / bare_s)
    findings.compare("flood_vs_bare_subscriber", figures["flood_msgs_s"], figures["bare_flood_msgs_s"])
    findings.reach("flood_lost", acked - durable, 0, f"of {acked} messages the broker acknowledged, none is lost")


def _events(messages: int) -> Iterator[bytes]:
    """Yield raise and clear of one activation after another, over all alarms."""
    for number in range(messages):
        pair = number // 2
        yield alarm_message(pair % _ALARMS, pair, "cleared" if number % 2 else "raised")


async def _until_durable(database: Path, messages: int, started_s: float) -> tuple[int, float]:
    """Return how many events are in the journal once all are, or once none has come for a minute; and the seconds it took."""
    durable, moved_s = 0, time.monotonic()
    while durable < messages and time.monotonic() - moved_s < _STANDSTILL_S:
        await asyncio.sleep(_LOOK_EVERY_S)
        if (now := await asyncio.to_thread(_count, database)) > durable:
            durable, moved_s = now, time.monotonic()
    return durable, moved_s - started_s


def _count(database: Path) -> int:
    with closing(sqlite3.connect(f"{database.resolve().as_uri()}?mode=ro", uri=True)) as connection:
        return int(connection.execute(_COUNT).fetchone()[0])


async def _flood_bare(folder: Path, messages: int) -> float:
    """Return the seconds `mosquitto_sub` needs for as many messages, over a broker of its own."""
    async with running_broker(folder) as broker:
        session = ["-p", str(broker.port), "-u", USER, "-P", PASSWORDS[USER], "-i", "bare", "-c", "-q", "1", "-t", TOPIC]
        await (await _mosquitto_sub(*session, "-E")).wait()  # subscribes, and leaves the session behind
        subscriber = await _mosquitto_sub(*session, "-C", str(messages))
        with plain_client(broker.port) as gateway:
            started_s = time.monotonic()
            for payload in _events(messages):
                gateway.publish(payload)
            await subscriber.wait()
            return time.monotonic() - started_s


async def _mosquitto_sub(*arguments: str) -> asyncio.subprocess.Process:
    try:
        return await asyncio.create_subprocess_exec(
            "mosquitto_sub", *arguments, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.DEVNULL
        )
    except FileNotFoundError as error:
        raise CannotMeasure("mosquitto_sub is not installed; apt-get install mosquitto-clients") from error
