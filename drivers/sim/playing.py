"""Runs a simulated plant until it is told to stop: listens, lets time pass, takes orders, brings alarms to the broker."""

from __future__ import annotations

import asyncio
import os
import signal
import ssl
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from appliance.contracts.clock import Clock
from appliance.contracts.errors import ConfigError
from appliance.contracts.link import Link, LinkProtocol
from appliance.contracts.plant import Plant
from appliance.foundation.parent import signal_on_parents_death
from appliance.foundation.supervisor import Degraded, supervise
from drivers.mqtt.session import MqttSession
from drivers.mqtt.settings import MqttSettings
from drivers.mqtt.topics import IncomingMessage
from drivers.sim.control import can_be_awaited, follow_orders
from drivers.sim.gateway import Gateway
from drivers.sim.journal import Journal
from drivers.sim.listening import Endpoint
from drivers.sim.scenario import Scenario
from drivers.sim.simulation import Simulation

Report = Callable[..., None]

_MOST_BEHIND = 100  # steps made up for after a pause; a process that was stopped for an hour does not play that hour


@dataclass(frozen=True, slots=True)
class Where:
    """Where to listen, for all links. ``port`` None takes each link's own of the plant model, 0 a free one, else the first link
    has it and the others follow. ``protocol`` None is each link's own."""

    host: str = "127.0.0.1"
    port: int | None = None
    protocol: LinkProtocol | None = None
    device: str | None = None
    cert: Path | None = None
    key: Path | None = None
    client_ca: Path | None = None


@dataclass(frozen=True, slots=True)
class Broker:
    """The broker that the alarm gateway publishes to. Without a port nothing is published."""

    host: str = "127.0.0.1"
    port: int | None = None
    user: str | None = None
    password_file: Path | None = None
    journal: Path | None = None


@dataclass(frozen=True, slots=True)
class Playing:
    """What to play. ``links`` empty: all of the plant. ``takes_orders`` from standard input, and ends with it; ``traces`` tells
    of every request."""

    plant: Plant
    name: str
    scenario: Scenario
    links: tuple[str, ...] = ()
    where: Where = field(default_factory=Where)
    broker: Broker = field(default_factory=Broker)
    seed: int = 0
    speed: float = 1.0
    takes_orders: bool = True
    traces: bool = False


async def play(
    told: Playing, clock: Clock, report: Report, *, also: Callable[[Simulation], asyncio.Task[None]] | None = None
) -> None:
    """Play until ordered, signalled, or left alone. ``also`` starts something beside it.

    Raises:
        Refused: it cannot listen where it should.
        ConfigError: the plant has no such link, or a certificate is missing or cannot be used.
    """
    links = list(told.links or told.plant.link_by_id)
    endpoints = _endpoints(told.plant, links, told.where)
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for each in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(each, stopped.set)
    degraded = Degraded()
    session = _session(told.broker, clock, degraded)
    journal = Journal(told.broker.journal)
    gateway = Gateway(told.plant, journal, session, clock, report)
    simulation = Simulation(
        told.plant,
        links,
        told.scenario,
        gateway=gateway,
        clock=clock,
        report=report,
        stop=stopped.set,
        seed=told.seed,
        traces=told.traces,
    )
    listening = await simulation.start(endpoints)
    _tell_where(told, simulation, listening, report)
    try:
        async with asyncio.TaskGroup() as tasks:
            running = [tasks.create_task(_pass_time(simulation, clock, told)), tasks.create_task(gateway.run())]
            if also is not None:
                running.append(also(simulation))
            if session is not None:
                running.append(tasks.create_task(supervise("mqtt", session.run, clock, degraded)))
            if told.takes_orders:
                running.append(tasks.create_task(follow_orders(simulation.obey, stopped.set, report)))
            await stopped.wait()
            for task in running:
                task.cancel()
    finally:
        await simulation.stop()
        journal.close()


def takes_orders(*, wanted: bool) -> bool:
    """Whether to follow standard input: not when it is /dev/null or a file. A plant that does ends with whoever started it."""
    if not wanted or not can_be_awaited(sys.stdin.fileno()):
        return False
    if not os.isatty(sys.stdin.fileno()):
        signal_on_parents_death(signal.SIGTERM)  # a parent already gone is seen as the end of standard input
    return True


async def _pass_time(simulation: Simulation, clock: Clock, told: Playing) -> None:
    """Step at fixed places in time, so that the same seed and speed give the same values however busy the machine is."""
    step_s = told.scenario.step_s
    began_ns, made = clock.monotonic_ns(), 0
    while True:
        due = int((clock.monotonic_ns() - began_ns) / 1e9 / step_s)
        if due - made > _MOST_BEHIND:
            began_ns += int((due - made - 1) * step_s * 1e9)
            due = made + 1
        for _ in range(due - made):
            simulation.step(step_s * told.speed)
        made = max(made, due)
        await asyncio.sleep(max(0.0, (made + 1) * step_s - (clock.monotonic_ns() - began_ns) / 1e9))


def _tell_where(told: Playing, simulation: Simulation, listening: Mapping[str, Endpoint], report: Report) -> None:
    links = {
        link: {"protocol": str(end.protocol), "where": end.where, "port": None if end.device else end.port}
        for link, end in listening.items()
    }
    first = next(iter(listening.values()), Endpoint())
    report(event="ready", port=first.port, plant=told.name, links=links)
    for link, end in listening.items():
        devices = ", ".join(map(str, simulation.memory.of(link).device_ids)) or "none"
        report(event="listening", link=link, protocol=str(end.protocol), where=end.where, devices=devices)
        if end.protocol is LinkProtocol.RTU and told.where.device is None:
            report(event="note", text="  A pseudo-terminal has no parity bit: whoever opens it must say `parity: N`.")
    if told.takes_orders:
        report(event="takes_orders")


def _endpoints(plant: Plant, links: list[str], where: Where) -> dict[str, Endpoint]:
    endpoints: dict[str, Endpoint] = {}
    for number, name in enumerate(links):
        link = plant.link_by_id.get(name)
        if link is None:
            raise ConfigError(
                "is not a link of the plant", file="--link", key=name, cure=f"There is {', '.join(plant.link_by_id)}."
            )
        protocol = where.protocol or link.protocol
        port = link.port if where.port is None else where.port and where.port + number
        if where.device is not None and len(links) > 1:
            raise ConfigError(
                "is one line, and the plant has several links", file="--device", key=where.device, cure="Add --link."
            )
        endpoints[name] = Endpoint(
            protocol=protocol,
            host=where.host,
            port=port,
            device=where.device if protocol is LinkProtocol.RTU else None,
            baud=link.serial.baud if link.serial else 19_200,
            tls=_tls(where, link) if protocol is LinkProtocol.TLS else None,
        )
    return endpoints


def _tls(where: Where, link: Link) -> ssl.SSLContext:
    if where.cert is None or where.key is None:
        raise ConfigError(
            "needs --cert and --key, the device's own", file="--protocol tls", key=link.id, cure="Or add --protocol tcp."
        )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(where.cert, where.key)
        if where.client_ca is not None:
            context.load_verify_locations(where.client_ca)
            context.verify_mode = ssl.CERT_REQUIRED
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(
            f"cannot be used ({error})", file="--cert", key=link.id, cure="Give PEM files that belong together."
        ) from error
    return context


def _session(broker: Broker, clock: Clock, degraded: Degraded) -> MqttSession | None:
    if broker.port is None:
        return None
    settings = MqttSettings(
        host=broker.host,
        port=broker.port,
        username=broker.user,
        password_file=broker.password_file,
        client_id="line-gateway",
        state_prefix="plant",
        alarm_topics=(),
        first_retry_s=0.2,
        longest_retry_s=5.0,
    )

    async def nothing_is_expected(_: IncomingMessage) -> None:
        return

    return MqttSession(settings, clock, degraded, nothing_is_expected)
