"""What ``floorhand plant`` does, command by command. Answers are plain values; the command line shows them."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from appliance.contracts.errors import ConfigError
from appliance.contracts.link import LinkProtocol
from appliance.contracts.plant import Plant
from appliance.foundation.log import start_logging
from appliance.foundation.system_clock import SystemClock
from appliance.foundation.yaml_file import nearest
from drivers.sim.generating import generate_plant
from drivers.sim.orders import ORDERS
from drivers.sim.plant_file import load_plant
from drivers.sim.playing import Broker, Playing, Where, play, takes_orders
from drivers.sim.recorder import record
from drivers.sim.recording import load_recording
from drivers.sim.replaying import Replay
from drivers.sim.scenario import Scenario, check_against, find_scenarios, load_scenario
from drivers.sim.signals import SIGNALS
from drivers.sim.telling import report_json, report_words
from drivers.sim.vocabulary import vocabulary

Given = Mapping[str, Any]

_SCENARIOS = "scenarios"
_PLANT = "plant.yaml"
_DUMPER: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


def run_plant(given: Given) -> int:
    """Play a plant until told to stop.

    Raises:
        ConfigError: plant, scenario, link or certificate cannot be used.
        Refused: it cannot listen where it should.
    """
    scenario, plant, name = _found(given)
    told = Playing(
        plant=plant,
        name=name,
        scenario=scenario,
        links=tuple(given["links"]),
        where=_where(given),
        broker=_broker(given),
        seed=scenario.seed if given["seed"] is None else given["seed"],
        speed=given["speed"] or scenario.speed,
        takes_orders=takes_orders(wanted=not given["no_control"]),
        traces=given["trace"],
    )
    start_logging("warning")
    asyncio.run(play(told, SystemClock(), _report(given)))
    return 0


def record_line(given: Given) -> Given:
    """Record a real line; return what was recorded.

    Raises:
        ConfigError: the plant cannot be used, or the file cannot be made.
        Refused: the plant has nothing to be read.
    """
    plant = load_plant(_plant_file(given, Scenario(), None), os.environ)
    start_logging("warning")
    report = _report(given)
    samples = asyncio.run(record(plant, given["output"], given["seconds"], given["every_s"], SystemClock(), report))
    return {"file": str(given["output"]), "samples": samples, "tags": len(plant.tags)}


def replay_line(given: Given) -> int:
    """Serve a recording until told to stop.

    Raises:
        ConfigError: it is no recording, or a link or certificate cannot be used.
        Refused: it cannot listen where it should.
    """
    recording = load_recording(given["recording"])
    clock, report = SystemClock(), _report(given)
    replay = Replay(recording, clock, report, speed=given["speed"], again=given["again"], waits=given["wait"])
    told = Playing(
        plant=recording.plant,
        name=str(given["recording"]),
        scenario=Scenario(machines=False),
        links=tuple(given["links"]),
        where=_where(given),
        broker=_broker(given),
        takes_orders=takes_orders(wanted=not given["no_control"]),
        traces=given["trace"],
    )
    start_logging("warning")
    asyncio.run(play(told, clock, report, also=replay.start))
    return 0


def check_scenario(given: Given) -> Given:
    """Check a scenario against its plant; return what is in it.

    Raises:
        ConfigError: naming every fault.
    """
    scenario, plant, name = _found(given)
    played = scenario.signals(plant)
    return {"scenario": given["scenario"], "plant": name, "tags_played": len(played), "events": len(scenario.events)}


def list_scenarios(given: Given) -> Sequence[Given]:
    """Return the scenarios of the configuration folder; one that cannot be read says so."""
    rows: list[Given] = []
    for name, path in find_scenarios(given["config"] / _SCENARIOS).items():
        try:
            scenario = load_scenario(path)
            rows.append({"name": name, "about": scenario.about, "plant": str(scenario.plant or "any"), "path": str(path)})
        except ConfigError as error:
            rows.append({"name": name, "about": error.message, "plant": "", "path": str(path)})
    return rows


def list_vocabulary(given: Given) -> Sequence[Given]:
    """Return every order and every signal: its name, its fields (those in brackets may be left out), and what it does."""
    return [
        {"kind": kind, "name": name, "fields": fields, "about": about}
        for kind, adapter, discriminator in (("order", ORDERS, "do"), ("signal", SIGNALS, "signal"))
        for name, fields, about in vocabulary(adapter.json_schema(), discriminator)
    ]


def generate(given: Given) -> Given:
    """Write a generated plant model.

    Raises:
        ConfigError: the numbers do not fit together, or the file cannot be made.
    """
    numbers = {name: given[name] for name in ("assets", "tags_per_asset", "alarms", "devices", "every_s", "host", "port")}
    output: Path = given["output"]
    try:
        plant = generate_plant(**numbers)
        Plant.model_validate(plant)
    except ValueError as error:
        raise ConfigError(str(error), file="floorhand plant generate", key="options", cure="See --help.") from error
    text = yaml.dump(plant, Dumper=_DUMPER, sort_keys=False, allow_unicode=True, width=160)
    try:
        with output.open("x", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        cure = "Name another file." if isinstance(error, FileExistsError) else "Name a file that can be written."
        raise ConfigError(f"cannot be made ({error.strerror})", file=str(output), key="-o", cure=cure) from error
    return {"file": str(output), "assets": given["assets"], "tags": len(plant["tags"]), "alarms": len(plant["alarms"])}


COMMANDS: Mapping[str, Callable[[Given], Any]] = {
    "run": run_plant,
    "record": record_line,
    "replay": replay_line,
    "check": check_scenario,
    "scenarios": list_scenarios,
    "vocabulary": list_vocabulary,
    "generate": generate,
}
"""Command -> what does it."""


def _found(given: Given) -> tuple[Scenario, Plant, str]:
    """Return scenario and plant, checked against each other, and the name of the plant's file."""
    file = _scenario_file(given["scenario"], given["config"]) if given["scenario"] else None
    scenario = load_scenario(file) if file else Scenario()
    plant_file = _plant_file(given, scenario, file)
    plant = load_plant(plant_file, os.environ)
    if file is not None:
        check_against(scenario, plant, str(file))
    return scenario, plant, str(plant_file)


def _scenario_file(told: str, config: Path) -> Path:
    """A path, or the name of one in the configuration folder."""
    path = Path(told)
    if path.exists() or path.suffix:
        return path
    known = find_scenarios(config / _SCENARIOS)
    if told not in known:
        raise ConfigError("is neither a file nor a scenario", file="--scenario", key=told, cure=nearest(told, known))
    return known[told]


def _plant_file(given: Given, scenario: Scenario, scenario_file: Path | None) -> Path:
    if given["plant"] is not None:
        return Path(given["plant"])
    if scenario.plant is not None and scenario_file is not None:
        return scenario_file.parent / scenario.plant
    return Path(given["config"]) / _PLANT


def _where(given: Given) -> Where:
    protocol = LinkProtocol(given["protocol"].replace("-", "_")) if given["protocol"] else None
    return Where(given["host"], given["port"], protocol, given["device"], given["cert"], given["key"], given["client_ca"])


def _broker(given: Given) -> Broker:
    return Broker(given["mqtt_host"], given["mqtt_port"], given["mqtt_user"], given["mqtt_password_file"], given["journal"])


def _report(given: Given) -> Callable[..., None]:
    return report_json if given["as_json"] else report_words
