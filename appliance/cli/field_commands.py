"""``floorhand tags list | read | probe | history``."""

from __future__ import annotations

from typing import Annotated

import typer

from appliance.cli import paper
from appliance.cli.exit_codes import OK, PROBLEM
from appliance.cli.history_command import show_history
from appliance.cli.options import AsJson, Config, service_of
from appliance.cli.service import segment

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

_PROBE_COLUMNS = {
    "is_declared": "declared",
    "order": "order",
    "hex": "bytes",
    "unsigned": "unsigned",
    "signed": "signed",
    "float": "float",
    "value": "value as declared",
}


def add_to(app: typer.Typer) -> None:
    """Register the group."""
    group = typer.Typer(no_args_is_help=True, help="Values of the machines.")
    group.command("list")(list_tags)
    group.command("read")(read_tags)
    group.command("probe")(probe_tag)
    group.command("history")(show_history)
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


def probe_tag(
    context: typer.Context,
    key: Annotated[str, typer.Argument(help="asset.name")],
    config: Config,
    as_json: AsJson = False,
) -> None:
    """Show the raw registers of a tag, and what they mean in all four byte and word orders.

    The row with the true value is the order the device uses: declare it as word_order.
    """
    probed = service_of(context, config).get(f"/v1/tags/{segment(key)}/probe")
    if as_json:
        paper.show_json(probed)
        return
    paper.show_facts({name: fact for name, fact in probed.items() if name not in ("readings", "raw")}, as_json=False)
    paper.say(f"raw: {' '.join(probed['raw'])}")
    paper.show_rows(probed["readings"], _PROBE_COLUMNS, as_json=False, empty="nothing read")
