"""``floorhand checks``: what was asked for earlier and is due later, and what became of it."""

from __future__ import annotations

import getpass
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from appliance.cli import paper
from appliance.cli.options import AsJson, Config, Limit, service_of
from appliance.cli.service import segment

_COLUMNS = {
    "id": "check",
    "status": "status",
    "what": "what",
    "by": "asked by",
    "due_utc": "due",
    "left": "in",
    "why": "why",
    "outcome": "outcome",
    "turn": "turn",
}


def add_to(app: typer.Typer) -> None:
    """Register the group."""
    group = typer.Typer(no_args_is_help=True, help="Checks that were asked for earlier.")
    group.command("list")(list_checks)
    group.command("cancel")(cancel_check)
    app.add_typer(group, name="checks")


def list_checks(
    context: typer.Context,
    config: Config,
    everything: Annotated[bool, typer.Option("--all", help="Also those that were made, missed or cancelled.")] = False,
    limit: Limit = 100,
    as_json: AsJson = False,
) -> None:
    """Show checks that wait, newest first, and why one does not know when it is due."""
    rows = service_of(context, config).get("/v1/checks", waiting=not everything, limit=limit)
    shown = rows if as_json else [_shown(row) for row in rows]
    paper.show_rows(shown, _COLUMNS, as_json=as_json, empty="no check yet" if everything else "no check waits")
    paper.hint_of_more(rows, limit, as_json=as_json)


def cancel_check(
    context: typer.Context,
    check: Annotated[str, typer.Argument(metavar="CHECK", help="As `checks list` shows it.")],
    config: Config,
    as_json: AsJson = False,
) -> None:
    """Cancel a check that waits. Your name is recorded with it."""
    cancelled = service_of(context, config).post(f"/v1/checks/{segment(check)}/cancel", {"by": getpass.getuser()})
    if as_json:
        paper.show_json(cancelled)
    else:
        paper.say(f"{check} is cancelled: {cancelled['what']}")


def _shown(row: Mapping[str, Any]) -> dict[str, Any]:
    left_s = row["left_s"]
    return {**row, "left": "" if left_s is None else f"{max(0, round(left_s))} s"}
