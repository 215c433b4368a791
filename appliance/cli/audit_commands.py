"""``floorhand audit verify | list``: the hash-chained log of what was refused and decided."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from appliance.cli import paper
from appliance.cli.exit_codes import OK, PROBLEM
from appliance.cli.options import AsJson, Config, Limit, actions_of, service_of
from appliance.cli.service import Service
from appliance.contracts.operation import OperationLane

Walked = Mapping[str, Any]


def add_to(app: typer.Typer) -> None:
    """Register the group."""
    group = typer.Typer(no_args_is_help=True, help="The log of what was refused and decided.")
    group.command("verify")(verify)
    group.command("list")(list_audit)
    app.add_typer(group, name="audit")


def verify(
    context: typer.Context,
    config: Config,
    data: Annotated[
        Path | None, typer.Option("--data", help="Data folder of an appliance that does not run; it is only read.")
    ] = None,
    as_json: AsJson = False,
) -> int:
    """Verify every entry of the operation log. Exit code 1 when one is missing, moved or altered; the first is named by lane."""
    ends: dict[str, Walked] = {}
    lost = 0
    screen = paper.console(to_error=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=screen, disable=as_json or not screen.is_terminal, transient=True) as progress:
        bars = {str(lane): progress.add_task(f"lane {lane}", total=None) for lane in OperationLane}
        slices = _ask(service_of(context, config)) if data is None else actions_of(context).walk_audit(data)
        for walked in slices:
            ends[walked["lane"]] = walked
            lost += walked["lost"]
            progress.update(bars[walked["lane"]], completed=walked["upto"], total=walked["newest"])
    broken = [walked["broken"] for walked in ends.values() if walked["broken"]]
    entries = sum(walked["upto"] for walked in ends.values()) - lost
    is_whole = not broken and not lost
    if as_json:
        lanes = {lane: walked["upto"] for lane, walked in ends.items()}
        paper.show_json({"ok": is_whole, "entries": entries, "verified": lanes, "lost": lost, "broken": broken})
    else:
        for each in broken:
            paper.say(f"BROKEN: entry {each['seq']} of lane {each['lane']} {each['what']}; what comes after it proves nothing")
        if lost:
            paper.say(f"LOST: {lost} entries that were damaged and could not be saved; the salvage has stated which")
        paper.say(f"{entries} entries verified" + (": the log is whole" if is_whole else ""))
    return OK if is_whole else PROBLEM


def list_audit(context: typer.Context, config: Config, limit: Limit = 100, as_json: AsJson = False) -> None:
    """Show what was refused or decided, newest first."""
    rows = service_of(context, config).get("/v1/audit", limit=limit)
    columns = {"seq": "#", "at_utc": "at", "kind": "what", "entity": "about", "payload": "facts", "clock_synced": "clock set"}
    paper.show_rows(rows, columns, as_json=as_json, empty="nothing was refused or decided yet")
    paper.hint_of_more(rows, limit, as_json=as_json)


def _ask(service: Service) -> Iterable[Walked]:
    """Walk lane by lane, slice by slice: no request takes long, and the service keeps nothing between them."""
    for lane in OperationLane:
        after, is_over = 0, False
        while not is_over:
            walked: Walked = service.get("/v1/audit/verify", lane=str(lane), after=after)
            yield walked
            after, is_over = walked["upto"], walked["is_over"]
