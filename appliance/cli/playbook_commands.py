"""``floorhand playbooks list | show | reload``."""

from __future__ import annotations

import getpass
import json
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from appliance.cli import paper
from appliance.cli.exit_codes import OK, PROBLEM
from appliance.cli.options import AsJson, Config, service_of
from appliance.cli.service import segment

_COLUMNS = {
    "name": "playbook",
    "access": "access",
    "faults": "for faults",
    "names": "called",
    "phrases": "asked for by",
    "source": "from",
    "why": "not in use because",
}
_RELOAD_WAIT_S = 60.0  # every sentence is parsed anew, on a small machine too
_LOOK = "`floorhand playbooks list` shows what is not taken up; to reload again is harmless."


def add_to(app: typer.Typer) -> None:
    """Register the group."""
    group = typer.Typer(no_args_is_help=True, help="What is done for an alarm or when it is asked for, and edits of it.")
    group.command("list")(list_playbooks)
    group.command("show")(show_playbook)
    group.command("reload")(reload_playbooks)
    app.add_typer(group, name="playbooks")


def list_playbooks(context: typer.Context, config: Config, as_json: AsJson = False) -> int:
    """Show the playbooks in use, what starts them and where they are from, and what is not in use.

    Exit code 1 when something is not in use: a playbook with a fault, or an edit that was not taken up.
    """
    rows = service_of(context, config).get("/v1/playbooks")
    shown = rows if as_json else [_shown(row) for row in rows]
    paper.show_rows(shown, _COLUMNS, as_json=as_json, empty="there is no playbook")
    return PROBLEM if any(row["why"] for row in rows) else OK


def show_playbook(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="Name of a playbook; `floorhand playbooks list` shows them.")],
    config: Config,
    as_json: AsJson = False,
) -> None:
    """Show one playbook: its folder, parameters, steps, and its page for people."""
    found = service_of(context, config).get(f"/v1/playbooks/{segment(name)}")
    if as_json:
        paper.show_json(found)
        return
    behind = ("steps", "guidance")
    paper.show_facts({key: value for key, value in found.items() if key not in behind}, as_json=False)
    for step in found.get("steps", ()):
        when = f" when {step['when']}" if step["when"] else ""
        paper.say(f"step {step['id']}: {step['tool']}{when}: {json.dumps(step.get('arguments', {}), ensure_ascii=False)}")
    if found.get("guidance"):
        paper.say(f"\n{found['guidance']}")


def reload_playbooks(context: typer.Context, config: Config, as_json: AsJson = False) -> None:
    """Take up what was edited in the playbooks' folder, all or nothing. Your name is recorded with it.

    With a fault anywhere nothing is taken up: what is in use goes on, every fault is named, and the exit code is 1.
    """
    by = {"by": getpass.getuser()}
    done = service_of(context, config).post("/v1/playbooks", by, wait_s=_RELOAD_WAIT_S, look=_LOOK)
    if as_json:
        paper.show_json(done)
        return
    for name, how in done["changed"].items():
        paper.say(f"{name}: {how}")
    if done["changed"]:
        paper.say(
            f"in use from now on, at commit {done['commit'][:12]}; `floorhand context --stale` shows who still holds the old"
        )
    else:
        paper.say(f"nothing was edited: what is in {done['folder']} is in use")


def _shown(row: Mapping[str, Any]) -> dict[str, Any]:
    """One row with its lists in words."""
    names, phrases = ([each for said in row[key].values() for each in said] for key in ("names", "phrases"))
    return {**row, "faults": ", ".join(row["faults"]), "names": ", ".join(names), "phrases": "; ".join(phrases)}
