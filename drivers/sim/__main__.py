"""``python -m drivers.sim``: the simulated plant as a process of its own, for the demo and the tests.

Standard output carries JSON lines: ``ready`` with the port, ``write_received`` at the moment a write is applied, ``published``
after the broker acknowledged an alarm, ``counts`` and ``done`` on orders. Standard input takes the orders of
``drivers/sim/orders.py`` unless ``--no-control``. It ends with its standard input and with its parent, so that nothing
is left running.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
from pathlib import Path

from appliance.foundation.log import start_logging
from appliance.foundation.parent import signal_on_parents_death
from appliance.foundation.system_clock import SystemClock
from drivers.sim.plant_file import load_plant
from drivers.sim.playing import Broker, Playing, Where, play
from drivers.sim.scenario import Scenario, check_against, load_scenario
from drivers.sim.telling import report_json


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m drivers.sim", description="A simulated line: PLC, machines, alarm gateway")
    parser.add_argument("--plant", type=Path, required=True, help="plant.yaml")
    parser.add_argument("--scenario", type=Path, help="scenario file; without one the machines run by themselves")
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
    parser.add_argument("--trace", action="store_true", help="report every request")
    parser.add_argument("--no-control", action="store_true", help="take no orders from standard input")
    return parser.parse_args(arguments)


def main() -> None:
    """Run until ordered, signalled, or left alone."""
    options = _options(sys.argv[1:])
    if not options.no_control:
        signal_on_parents_death(signal.SIGTERM)  # a parent already gone is seen as the end of standard input
    start_logging("warning")
    plant = load_plant(options.plant, os.environ)
    scenario = load_scenario(options.scenario) if options.scenario else Scenario()
    check_against(scenario, plant, str(options.scenario))
    told = Playing(
        plant=plant,
        name=str(options.plant),
        scenario=scenario,
        links=(options.link or plant.links[0].id,),
        where=Where(host=options.host, port=options.port),
        broker=Broker(options.mqtt_host, options.mqtt_port, options.mqtt_user, options.mqtt_password_file, options.journal),
        seed=options.seed,
        speed=options.speed,
        takes_orders=not options.no_control,
        traces=options.trace,
    )
    asyncio.run(play(told, SystemClock(), report_json))


if __name__ == "__main__":
    main()
