"""``floorhand approvals …``: what was allowed and refused, which rules are in force, and letting a session go on."""

from __future__ import annotations

import getpass
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from appliance.cli import paper
from appliance.cli.exit_codes import OK, PROBLEM
from appliance.cli.options import AsJson, Config, Limit, service_of
from appliance.cli.service import segment

_DECISIONS = {
    "decided_utc": "when",
    "decision": "decided",
    "tool": "tool",
    "subject": "about",
    "rule": "by rule",
    "by": "who asked",
    "identified": "known by",
    "why": "why",
    "session_id": "session",
}
_RULES = {"rule": "rule", "about": "about", "applies": "is about it"}
_INTERLOCKS = {"require": "interlock", "holds": "holds now", "why": "why not"}


def add_to(app: typer.Typer) -> None:
    """Register the group."""
    group = typer.Typer(no_args_is_help=True, help="What may be done, and on whose word.")
    group.command("list")(list_decisions)
    group.command("rules")(rules)
    group.command("reset")(reset)
    app.add_typer(group, name="approvals")


def list_decisions(
    context: typer.Context,
    config: Config,
    session: Annotated[str, typer.Option("--session", help="Of this session only.")] = "",
    limit: Limit = 50,
    as_json: AsJson = False,
) -> None:
    """What was decided about calls that change something, newest first."""
    rows = service_of(context, config).get("/v1/approvals", session=session, limit=limit)
    paper.show_rows(rows, _DECISIONS, as_json=as_json, empty="nothing was decided yet")
    paper.hint_of_more(rows, limit, as_json=as_json)


def rules(
    context: typer.Context,
    config: Config,
    about: Annotated[str, typer.Argument(metavar="[TAG|TOOL]", help="What would happen with it; without it, all rules.")] = "",
    role: Annotated[str, typer.Option("--role", help="If somebody of this role asked.")] = "",
    as_json: AsJson = False,
) -> None:
    """The rules in force, in the order they are asked, and what would happen with a write to a tag, or with a tool."""
    told = service_of(context, config).get("/v1/approvals/rules", about=about, role=role)
    if as_json:
        paper.show_json(told)
        return
    paper.say(f"asked in this order: {', '.join(told['order'])}")
    paper.show_rows(told["rules"], _RULES if about else {"rule": "rule", "about": "about"}, as_json=False, empty="there are none")
    if not about:
        for write in told["writes"]:
            paper.say(f"writes: {paper.spell(dict(write))}")
        return
    if told["interlocks"]:
        paper.show_rows(told["interlocks"], _INTERLOCKS, as_json=False, empty="")
    for name, value in told["limits"].items():
        paper.say(f"{name}: {paper.spell(value)}")
    paper.say(outcome_of(told))


def reset(
    context: typer.Context,
    config: Config,
    session: Annotated[str, typer.Argument(help="As `approvals list` shows it.")],
    as_json: AsJson = False,
) -> int:
    """Let a session go on in which three calls in a row were refused. Your name is kept. Exit code 1 when nothing was stopped."""
    told = service_of(context, config).post(f"/v1/approvals/{segment(session)}/reset", {"by": getpass.getuser()})
    if as_json:
        paper.show_json(told)
    elif told["denials"]:
        paper.say(f"{session} goes on; calls that were refused in a row: {told['denials']}")
    else:
        paper.say(f"nothing was refused in {session} since the last yes")
    return OK if told["denials"] else PROBLEM


def outcome_of(told: Mapping[str, Any]) -> str:
    """Return what would happen, as one sentence."""
    what = f"a write to {told['subject']}" if told["tool"] == "write_tag" else f"a call of {told['tool']}"
    match told["outcome"]:
        case "allow":
            return f"{what} by {told['role']} is made without asking"
        case "ask":
            code = ", and the yes has to bring the code that is read out" if told["needs_code"] else ""
            return f"{what} by {told['role']} is asked for{code}"
        case _:
            return f"{what} by {told['role']} is refused ({told['rule']}): {told['why']}"
