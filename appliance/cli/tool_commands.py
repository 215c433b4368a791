"""``floorhand tools list | show | stress``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import chain, islice
from typing import Annotated, Any

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from appliance.cli import paper
from appliance.cli.exit_codes import OK, PROBLEM, USAGE
from appliance.cli.options import AsJson, Config, service_of
from appliance.cli.service import CommandFault, segment

_COLUMNS = {
    "name": "tool",
    "level": "level",
    "bound_ms": "bound ms",
    "scope": "scope",
    "effect": "effect",
    "kind": "runs in",
    "source": "from",
    "arguments": "arguments [optional]",
    "why": "not usable because",
}
_LONGEST_RUN_S = 60.0  # no call takes longer than 45 s

Name = Annotated[str, typer.Argument(help="Name of a tool; `floorhand tools list` shows them.")]


def add_to(app: typer.Typer) -> None:
    """Register the group."""
    group = typer.Typer(no_args_is_help=True, help="What plans are made of, with its contracts.")
    group.command("list")(list_tools)
    group.command("show")(show_tool)
    group.command("stress")(stress_tool)
    app.add_typer(group, name="tools")


def list_tools(context: typer.Context, config: Config, as_json: AsJson = False) -> None:
    """Show every tool with its contracts at a glance, and those of other packages that were left out."""
    paper.show_rows(service_of(context, config).get("/v1/tools"), _COLUMNS, as_json=as_json, empty="there is no tool")


def show_tool(context: typer.Context, name: Name, config: Config, as_json: AsJson = False) -> None:
    """Show everything a tool declares, with the JSON Schema of what goes in and comes out."""
    tool = service_of(context, config).get(f"/v1/tools/{segment(name)}")
    if as_json:
        paper.show_json(tool)
        return
    schemas = {key: tool[key] for key in ("input_schema", "output_schema")}
    paper.show_facts({key: value for key, value in tool.items() if key not in schemas}, as_json=False)
    for key, schema in schemas.items():
        paper.say(f"{key}: {json.dumps(schema, ensure_ascii=False, indent=2)}")


def stress_tool(
    context: typer.Context,
    name: Name,
    config: Config,
    arguments: Annotated[str, typer.Option("--arguments", help="The call's arguments, as JSON.")] = "{}",
    runs: Annotated[int, typer.Option("--runs", min=1, max=1000, help="How often it is called.")] = 50,
    as_json: AsJson = False,
) -> int:
    """Call a tool without effect again and again, and propose its max_execution_time_ms: the 95th percentile times 1.3.

    Exit code 1 when the tool declares less than that, or nothing can be proposed. Ctrl-C stops it.
    """
    body = {"arguments": _arguments(arguments), "runs": runs}
    calls = service_of(context, config).stream(f"/v1/tools/{segment(name)}/stress", body, within_s=_LONGEST_RUN_S)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[took]}"))
    found: Mapping[str, Any] = {}
    done = 0
    try:
        first = list(islice(calls, 1))  # what is refused is told before anything is drawn
        with Progress(*columns, console=paper.console(to_error=True), disable=as_json, transient=True) as progress:
            bar = progress.add_task(name, total=runs, took="")
            for told in chain(first, calls):
                if "run" in told:
                    done = told["run"]
                    progress.update(bar, completed=done, took=told["why"] or f"{told['took_ms']:.1f} ms")
                else:
                    found = told
    except KeyboardInterrupt:
        raise CommandFault(PROBLEM, "stopped", f"stopped after {done} of {runs} calls; nothing is proposed") from None
    except CommandFault as fault:
        if fault.facts.get("field") not in (None, "tool"):  # of the arguments, as they were typed here
            cure = f"Give them with --arguments; `floorhand tools show {name}` shows which."
            raise CommandFault(USAGE, fault.code, fault.message, cure, fault.facts) from None
        raise
    if not found:
        raise CommandFault(PROBLEM, "broken_off", "the measurement ended early", "See the service's journal.")
    paper.show_facts(found, as_json=as_json)
    return PROBLEM if found["is_too_low"] or found["proposed_ms"] is None else OK


def _arguments(told: str) -> dict[str, Any]:
    try:
        arguments = json.loads(told)
    except ValueError as error:
        raise CommandFault(USAGE, "usage", f"--arguments is no JSON: {error}", 'For example \'{"keys": ["a.b"]}\'.') from error
    if not isinstance(arguments, dict):
        raise CommandFault(USAGE, "usage", "--arguments must be a JSON object", 'For example \'{"keys": ["a.b"]}\'.')
    return arguments
