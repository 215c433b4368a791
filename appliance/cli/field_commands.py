"""``floorhand tags list | read``."""

from __future__ import annotations

from typing import Annotated

import typer

from appliance.cli import paper
from appliance.cli.exit_codes import OK, PROBLEM
from appliance.cli.options import AsJson, Config, service_of

_COLUMNS = {
    "key": "tag",
    "value": "value",
    "unit": "unit",
    "quality": "quality",
    "age_s": "seconds old",
    "wire": "wire address",
    "writable": "writable",
    "why": "why",
}


def add_to(app: typer.Typer) -> None:
    """Register the group."""
    group = typer.Typer(no_args_is_help=True, help="Values of the machines.")
    group.command("list")(list_tags)
    group.command("read")(read_tags)
    app.add_typer(group, name="tags")


def list_tags(context: typer.Context, config: Config, as_json: AsJson = False) -> None:
    """Read every declared tag now."""
    rows = service_of(context, config).get("/v1/tags")
    paper.show_rows(rows, _COLUMNS, as_json=as_json, empty="no tag is declared in plant.yaml")


def read_tags(
    context: typer.Context,
    keys: Annotated[list[str], typer.Argument(help="asset.name, several allowed.")],
    config: Config,
    as_json: AsJson = False,
) -> int:
    """Read tags now. Exit code 1 when one of them could not be read."""
    rows = service_of(context, config).get("/v1/tags", keys=",".join(keys))
    paper.show_rows(rows, _COLUMNS, as_json=as_json, empty="nothing read")
    return OK if all(row["quality"] == "good" for row in rows) else PROBLEM
