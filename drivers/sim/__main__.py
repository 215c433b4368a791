"""``python -m drivers.sim``: the simulated plant as a process of its own.

Standard output carries JSON lines: ``ready`` with the port, ``write_received`` at the moment a write is applied, ``published``
after the broker acknowledged an alarm, ``counts`` and ``done`` on orders. Standard input takes orders ``{"do": …}`` unless
``--no-control``: ``overheat``, ``pressure_drop``, ``jam`` and ``recover`` with ``asset``; ``hold_write_reply``,
``hold_read_reply`` and ``silent`` with ``seconds``; ``refuse`` with a Modbus exception ``code`` and ``times``; ``counts``;
``stop``. It ends with its standard input and with its parent, so nothing is left running.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
from pathlib import Path

from appliance.contracts.clock import Clock
from appliance.foundation.log import start_logging
from appliance.foundation.parent import signal_on_parents_death
from appliance.foundation.supervisor import Degraded, supervise
from appliance.foundation.system_clock import SystemClock
from drivers.mqtt.session import MqttSession
from drivers.mqtt.settings import MqttSettings
from drivers.mqtt.topics import IncomingMessage
from drivers.sim.control import follow_orders, report
from drivers.sim.gateway import Gateway
from drivers.sim.journal import Journal
from drivers.sim.line import Line
from drivers.sim.plant_file import load_plant
from drivers.sim.plc import Plc
from drivers.sim.registers import Registers

_STEP_S = 0.05  # real seconds


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m drivers.sim", description="A simulated line: PLC, machines, alarm gateway")
    parser.add_argument("--plant", type=Path, required=True, help="plant.yaml")
    parser.add_argument("--link", help="link of the plant model to play (default: the first)")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen at")
    parser.add_argument("--port", type=int, default=0, help="Modbus TCP port, 0 for a free one")
    parser.add_argument("--mqtt-host", default="127.0.0.1")
    parser.add_argument("--mqtt-port", type=int, help="broker's port; without it nothing is published")
    parser.add_argument("--mqtt-user")
    parser.add_argument("--mqtt-password-file", type=Path)
    parser.add_argument("--journal", type=Path, help="file that keeps unpublished alarms over a restart")
    parser.add_argument("--seed", type=int, default=0, help="seed of the measurement noise")
    parser.add_argument(
        "--speed", type=float, default=60.0, help="simulated seconds a second; at 60 overheating takes one second"
    )
    parser.add_argument("--no-control", action="store_true", help="take no orders from standard input")
    return parser.parse_args(arguments)


async def _simulate(options: argparse.Namespace, clock: Clock) -> None:
    plant = load_plant(options.plant, os.environ)
    registers = Registers(plant, options.link or plant.links[0].id)
    degraded = Degraded()
    session = _session(options, clock, degraded)
    journal = Journal(options.journal)
    gateway = Gateway(plant, journal, session, clock, report)
    line = Line(plant, registers, gateway.changed, seed=options.seed)
    plc = Plc(registers, clock, report)
    plc.on_write(line.written)
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    asyncio.get_running_loop().add_signal_handler(signal.SIGINT, stopped.set)

    def counts() -> None:
        report(
            event="counts",
            raised=gateway.counts["raised"],
            cleared=gateway.counts["cleared"],
            published=journal.written,
            acked=journal.acknowledged,
            writes=dict(plc.write_counts),
        )

    orders = {
        "overheat": lambda order: line.overheat(order["asset"]),
        "pressure_drop": lambda order: line.drop_pressure(order["asset"]),
        "jam": lambda order: line.jam(order["asset"]),
        "recover": lambda order: line.recover(order.get("asset")),
        "hold_write_reply": lambda order: plc.hold_write_reply(float(order["seconds"])),
        "hold_read_reply": lambda order: plc.hold_read_reply(float(order["seconds"])),
        "silent": lambda order: plc.be_silent(float(order["seconds"])),
        "refuse": lambda order: plc.refuse(int(order["code"]), int(order.get("times", 1))),
        "counts": lambda _: counts(),
        "stop": lambda _: stopped.set(),
    }
    port = await plc.start(options.host, options.port)
    report(event="ready", port=port)
    async with asyncio.TaskGroup() as tasks:
        running = [tasks.create_task(_pass_time(line, options.speed)), tasks.create_task(gateway.run())]
        if session is not None:
            running.append(tasks.create_task(supervise("mqtt", session.run, clock, degraded)))
        if not options.no_control:
            running.append(tasks.create_task(follow_orders(orders, stopped.set)))
        await stopped.wait()
        for task in running:
            task.cancel()
    await plc.stop()
    journal.close()


async def _pass_time(line: Line, speed: float) -> None:
    while True:
        line.step(_STEP_S * speed)
        await asyncio.sleep(_STEP_S)


def _session(options: argparse.Namespace, clock: Clock, degraded: Degraded) -> MqttSession | None:
    if options.mqtt_port is None:
        return None
    settings = MqttSettings(
        host=options.mqtt_host,
        port=options.mqtt_port,
        username=options.mqtt_user,
        password_file=options.mqtt_password_file,
        client_id="line-gateway",
        alarm_topics=(),
        first_retry_s=0.2,
        longest_retry_s=5.0,
    )

    async def nothing_is_expected(_: IncomingMessage) -> None:
        return

    return MqttSession(settings, clock, degraded, nothing_is_expected)


def main() -> None:
    """Run until ordered, signalled, or left alone."""
    options = _options(sys.argv[1:])
    if not options.no_control:
        signal_on_parents_death(signal.SIGTERM)  # a parent already gone is seen as the end of standard input
    start_logging("warning")
    asyncio.run(_simulate(options, SystemClock()))


if __name__ == "__main__":
    main()
