"""The simulated plant: play, record and replay a line; for engineers at a desk, and for trying alarms before they happen."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from appliance.cli import paper
from appliance.cli.options import AsJson, Config, actions_of, finite

_LISTENING = "Where to listen"
_ALARMS = "Alarms over MQTT"


class Protocol(StrEnum):
    """Modbus protocols as they are typed."""

    TCP = "tcp"
    RTU_OVER_TCP = "rtu-over-tcp"
    TLS = "tls"
    UDP = "udp"
    RTU = "rtu"


PlantFile = Annotated[
    Path | None, typer.Option("--plant", help="Plant model.", show_default="the scenario's, else plant.yaml of --config")
]
ScenarioName = Annotated[
    str | None, typer.Option("--scenario", help="Scenario file, or a name from `floorhand plant scenarios`.")
]
Links = Annotated[list[str] | None, typer.Option("--link", help="Only this link; may be repeated.", show_default="all")]
Host = Annotated[str, typer.Option("--host", help="Address to listen at.", rich_help_panel=_LISTENING)]
Port = Annotated[
    int | None,
    typer.Option(
        "--port",
        min=0,
        max=65_535,
        help="Port of the first link, further links follow; 0 takes free ones.",
        show_default="as in the plant model",
        rich_help_panel=_LISTENING,
    ),
]
ProtocolName = Annotated[
    Protocol | None,
    typer.Option("--protocol", help="For all links.", show_default="as in the plant model", rich_help_panel=_LISTENING),
]
Device = Annotated[
    str | None,
    typer.Option("--device", help="Serial device for rtu.", show_default="a pseudo-terminal", rich_help_panel=_LISTENING),
]
Cert = Annotated[Path | None, typer.Option("--cert", help="The device's certificate for tls.", rich_help_panel=_LISTENING)]
CertKey = Annotated[Path | None, typer.Option("--key", help="Its key.", rich_help_panel=_LISTENING)]
ClientCa = Annotated[
    Path | None, typer.Option("--client-ca", help="Demand client certificates of this CA.", rich_help_panel=_LISTENING)
]
MqttHost = Annotated[str, typer.Option("--mqtt-host", help="Broker.", rich_help_panel=_ALARMS)]
MqttPort = Annotated[
    int | None, typer.Option("--mqtt-port", help="Its port; without it nothing is published.", rich_help_panel=_ALARMS)
]
MqttUser = Annotated[str | None, typer.Option("--mqtt-user", rich_help_panel=_ALARMS)]
MqttPassword = Annotated[Path | None, typer.Option("--mqtt-password-file", rich_help_panel=_ALARMS)]
JournalFile = Annotated[
    Path | None, typer.Option("--journal", help="Keeps unpublished alarms over a restart.", rich_help_panel=_ALARMS)
]
NoControl = Annotated[
    bool, typer.Option("--no-control", help="Take no orders from standard input, and do not end with whoever started it.")
]
Trace = Annotated[bool, typer.Option("--trace", help="Tell every request.")]
JsonLines = Annotated[bool, typer.Option("--json", help="Tell what happens in JSON lines.")]
Output = Annotated[Path, typer.Option("--output", "-o", help="File to make; one that is there is not touched.")]


def add_to(app: typer.Typer) -> None:
    """Register the group."""
    plant = typer.Typer(no_args_is_help=True, help="A simulated plant, and recordings of a real one.")
    plant.command("run")(run)
    plant.command("record")(record)
    plant.command("replay")(replay)
    plant.command("check")(check)
    plant.command("scenarios")(scenarios)
    plant.command("vocabulary")(vocabulary)
    plant.command("generate")(generate)
    app.add_typer(plant, name="plant")


def run(
    context: typer.Context,
    config: Config,
    plant: PlantFile = None,
    scenario: ScenarioName = None,
    links: Links = None,
    host: Host = "127.0.0.1",
    port: Port = None,
    protocol: ProtocolName = None,
    device: Device = None,
    cert: Cert = None,
    key: CertKey = None,
    client_ca: ClientCa = None,
    speed: Annotated[
        float | None,
        typer.Option(
            "--speed", callback=finite, min=0.01, help="Simulated seconds a second.", show_default="the scenario's, else 1"
        ),
    ] = None,
    seed: Annotated[
        int | None, typer.Option("--seed", help="The same seed gives the same values.", show_default="the scenario's, else 0")
    ] = None,
    mqtt_host: MqttHost = "127.0.0.1",
    mqtt_port: MqttPort = None,
    mqtt_user: MqttUser = None,
    mqtt_password_file: MqttPassword = None,
    journal: JournalFile = None,
    no_control: NoControl = False,
    trace: Trace = False,
    as_json: JsonLines = False,
) -> int:
    """Play the plant: its devices answer Modbus, its values move, its alarms are published. Ctrl-C ends it.

    Started from a script or service (standard input is a pipe), it ends with its standard input and with whoever started
    it; with --no-control it runs on until it is stopped.

    Orders can be typed: words such as `set motor_3.temperature 95`, `misbehave short_reply for_s=10`, `recover`, `stop`, or
    JSON such as {"do": "misbehave", "mode": "slow", "delay_s": 3}.
    """
    ended: int = _do(context, "run", {"links": links or []}, locals())
    return ended


def record(
    context: typer.Context,
    config: Config,
    output: Output,
    plant: PlantFile = None,
    seconds: Annotated[
        float, typer.Option("--seconds", callback=finite, min=0.1, help="How long; Ctrl-C ends it sooner.")
    ] = 60.0,
    every_s: Annotated[float, typer.Option("--every", callback=finite, min=0.02, help="Seconds between two samples.")] = 0.5,
    as_json: JsonLines = False,
) -> None:
    """Record the real line: every Modbus tag of the plant model, raw and decoded. Only reads, never writes."""
    recorded = _do(context, "record", {}, locals())
    if as_json:
        paper.show_line({"event": "done", **recorded})
    else:
        paper.say(f"{recorded['file']}: {recorded['samples']} samples of {recorded['tags']} tags")


def replay(
    context: typer.Context,
    recording: Annotated[Path, typer.Argument(help="What `floorhand plant record` made.")],
    links: Links = None,
    host: Host = "127.0.0.1",
    port: Port = None,
    protocol: ProtocolName = None,
    device: Device = None,
    cert: Cert = None,
    key: CertKey = None,
    client_ca: ClientCa = None,
    speed: Annotated[float, typer.Option("--speed", callback=finite, min=0.01, help="Recorded seconds a second.")] = 1.0,
    again: Annotated[bool, typer.Option("--again", help="Start over at the end; else the last values stay.")] = False,
    wait: Annotated[bool, typer.Option("--wait", help="Begin with the first request.")] = False,
    mqtt_host: MqttHost = "127.0.0.1",
    mqtt_port: MqttPort = None,
    mqtt_user: MqttUser = None,
    mqtt_password_file: MqttPassword = None,
    journal: JournalFile = None,
    no_control: NoControl = False,
    trace: Trace = False,
    as_json: JsonLines = False,
) -> int:
    """Serve a recording over Modbus: the recorded registers at their recorded times; what was silent is silent again."""
    ended: int = _do(context, "replay", {"links": links or []}, locals())
    return ended


def check(
    context: typer.Context,
    config: Config,
    scenario: Annotated[str, typer.Option("--scenario", help="Scenario file, or its name.")],
    plant: PlantFile = None,
    as_json: AsJson = False,
) -> None:
    """Validate a scenario against its plant; every fault is named with file, key and cure. Exit code 78 with a fault."""
    checked = _do(context, "check", {}, locals())
    if as_json:
        paper.show_json({"ok": True, **checked})
    else:
        paper.say(
            f"{checked['scenario']}: sound; plays {checked['tags_played']} tags of {checked['plant']}, {checked['events']} events"
        )


def scenarios(context: typer.Context, config: Config, as_json: AsJson = False) -> None:
    """List the scenarios of the configuration folder."""
    rows = _do(context, "scenarios", {}, locals())
    columns = {"name": "name", "plant": "plant", "about": "about"}
    paper.show_rows(rows, columns, as_json=as_json, empty=f"no scenario in {config / 'scenarios'}")


def vocabulary(context: typer.Context, as_json: AsJson = False) -> None:
    """List what a scenario may say: every order (also typed while it runs) and every signal, with their fields.

    An order has `at_s`, and may have `every_s` and `rounds` to repeat.
    """
    rows = _do(context, "vocabulary", {}, locals())
    columns = {"kind": "kind", "name": "name", "fields": "fields", "about": "about"}
    paper.show_rows(rows, columns, as_json=as_json, empty="")


def generate(
    context: typer.Context,
    output: Output,
    assets: Annotated[int, typer.Option("--assets", min=1, max=10_000)] = 250,
    tags_per_asset: Annotated[int, typer.Option("--tags-per-asset", min=1, max=1_000)] = 20,
    alarms: Annotated[int, typer.Option("--alarms", min=0, max=100_000)] = 500,
    devices: Annotated[int, typer.Option("--devices", min=1, max=247, help="Units behind the one link.")] = 20,
    every_s: Annotated[float, typer.Option("--every", callback=finite, min=0.02, help="Seconds between two polls.")] = 1.0,
    host: Annotated[str, typer.Option("--host")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=1, max=65_535)] = 5020,
    as_json: AsJson = False,
) -> None:
    """Write a big, valid plant model: for benches, floods, and to see what a large site needs."""
    made = _do(context, "generate", {}, locals())
    if as_json:
        paper.show_json(made)
    else:
        paper.say(f"{made['file']}: {made['assets']} assets, {made['tags']} tags, {made['alarms']} alarms")


def _do(context: typer.Context, command: str, changed: dict[str, Any], given: dict[str, Any]) -> Any:
    told = {name: value for name, value in given.items() if name != "context"}
    return actions_of(context).plant(command, told | changed)
