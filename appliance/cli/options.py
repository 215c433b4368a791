"""Options that mean the same in every command."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated

import typer

from appliance.cli.actions import LocalActions
from appliance.cli.service import Service

INSTALLED_CONFIG = Path("/etc/floorhand")  # where the installed service keeps its configuration


def default_config() -> Path:
    """Return ``./config`` when there is one, else the installed folder."""
    here = Path("config")
    return here if here.is_dir() else INSTALLED_CONFIG


Config = Annotated[
    Path,
    typer.Option(
        "--config",
        envvar="FLOORHAND_CONFIG",
        help="Configuration folder.",
        default_factory=default_config,
        show_default="./config, else /etc/floorhand",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Answer in JSON.")]
Limit = Annotated[int, typer.Option("--limit", min=1, max=1000, help="Newest so many.")]


def finite(value: float | None) -> float | None:
    """Callback of options that take a fraction: to the parser ``nan`` is a number within any range, and ``inf`` within many."""
    if value is not None and not math.isfinite(value):
        raise typer.BadParameter(f"{value} is no number that can be used; give one like 1.5")
    return value


def actions_of(context: typer.Context) -> LocalActions:
    """Return the local actions this process was started with."""
    found = context.obj
    assert isinstance(found, LocalActions)
    return found


def service_of(context: typer.Context, config: Path) -> Service:
    """Return the running service that ``config`` describes."""
    return Service(actions_of(context).find_socket(config))
