"""Groups that show the ledger: sessions, turns, deliveries, unknowns, sync."""

from __future__ import annotations

import getpass
from collections.abc import Callable
from enum import StrEnum
from typing import Annotated, Any

import typer

from appliance.cli import paper
from appliance.cli.exit_codes import OK, PROBLEM
from appliance.cli.options import AsJson, Config, Limit, service_of
from appliance.cli.service import segment
from appliance.contracts.delivery import Channel

_VERIFY_S = 60.0  # a verification reads back from the field, and waits for a link that is away
_ACTIONS = {"number": "#", "step_id": "step", "tool": "tool", "state": "state", "result": "result"}
_EFFECTS = {"action_id": "action", "tool": "tool", "status": "effect", "was_unknown": "was unknown", "settled_by": "settled by"}
_DELIVERIES = {
    "id": "id",
    "channel": "channel",
    "status": "status",
    "attempts": "tries",
    "topic": "topic",
    "lead": "lead",
    "text": "text",
}


class Verdict(StrEnum):
    """How an unknown ended, in a person's word."""

    DONE = "done"
    NOT_DONE = "not-done"
    INTERRUPTED = "interrupted"


def add_to(app: typer.Typer) -> None:
    """Register the groups."""
    unknowns: dict[str, Callable[..., Any]] = {"list": list_unknowns, "verify": verify_unknown, "settle": settle_unknown}
    groups: tuple[tuple[str, str, dict[str, Callable[..., Any]]], ...] = (
        ("sessions", "Conversations.", {"list": list_sessions}),
        ("turns", "Turns of conversations.", {"list": list_turns, "show": show_turn}),
        ("deliveries", "What was said or sent.", {"list": list_deliveries}),
        ("unknowns", "What nobody knows the end of.", unknowns),
        ("sync", "The operation log.", {"status": sync_status}),
    )
    for name, help_text, commands in groups:
        group = typer.Typer(no_args_is_help=True, help=help_text)
        for verb, command in commands.items():
            group.command(verb)(command)
        app.add_typer(group, name=name)


def list_sessions(context: typer.Context, config: Config, limit: Limit = 100, as_json: AsJson = False) -> None:
    """Show conversations, newest first."""
    rows = service_of(context, config).get("/v1/sessions", limit=limit)
    columns = {
        "id": "session",
        "lane": "lane",
        "state": "state",
        "turns": "turns",
        "opened_utc": "opened",
        "last_turn_utc": "last turn",
    }
    paper.show_rows(rows, columns, as_json=as_json, empty="no conversation yet")
    paper.hint_of_more(rows, limit, as_json=as_json)


def list_turns(
    context: typer.Context,
    config: Config,
    session: Annotated[str | None, typer.Option("--session", help="Only of this conversation.")] = None,
    limit: Limit = 100,
    as_json: AsJson = False,
) -> None:
    """Show turns, newest first."""
    rows = service_of(context, config).get("/v1/turns", session=session, limit=limit)
    columns = {
        "id": "turn",
        "session_id": "session",
        "state": "state",
        "intent": "intent",
        "source": "understood by",
        "actions_done": "done",
        "actions": "of",
        "offline": "offline",
        "failure": "failure",
        "updated_utc": "updated",
    }
    paper.show_rows(rows, columns, as_json=as_json, empty="no turn yet")
    paper.hint_of_more(rows, limit, as_json=as_json)


def show_turn(
    context: typer.Context, turn: Annotated[str, typer.Argument(help="Turn id.")], config: Config, as_json: AsJson = False
) -> None:
    """Show one turn whole: its actions, effects and what was said."""
    found = service_of(context, config).get(f"/v1/turns/{segment(turn)}")
    if as_json:
        paper.show_json(found)
        return
    found["actions"] = [{**action, "number": action["position"] + 1} for action in found["actions"]]
    parts = ("plan", "context", "actions", "effects", "confirmations", "deliveries")
    paper.show_facts({name: value for name, value in found.items() if name not in parts}, as_json=False)
    for name, columns in (("actions", _ACTIONS), ("effects", _EFFECTS), ("deliveries", _DELIVERIES)):
        paper.say(f"\n{name}:")
        paper.show_rows(found[name], columns, as_json=False, empty="none")


def list_deliveries(
    context: typer.Context,
    config: Config,
    channel: Annotated[Channel | None, typer.Option("--channel", help="Only what was said, or only what was sent.")] = None,
    limit: Limit = 100,
    as_json: AsJson = False,
) -> None:
    """Show what was said or sent, newest first."""
    rows = service_of(context, config).get("/v1/deliveries", channel=channel, limit=limit)
    paper.show_rows(rows, _DELIVERIES, as_json=as_json, empty="nothing was said yet")
    paper.hint_of_more(rows, limit, as_json=as_json)


def list_unknowns(context: typer.Context, config: Config, as_json: AsJson = False) -> None:
    """Show work whose end is unknown, effects and inputs in one list, with what is to be done about each."""
    rows = service_of(context, config).get("/v1/unknowns")
    columns = {"id": "id", "kind": "kind", "what": "what", "arguments": "arguments", "since_utc": "since", "turn_id": "turn"}
    paper.show_rows(rows, columns | {"to_do": "what to do"}, as_json=as_json, empty="nothing is unknown")


def verify_unknown(
    context: typer.Context,
    identity: Annotated[str, typer.Argument(metavar="ID", help="As `unknowns list` shows it.")],
    config: Config,
    as_json: AsJson = False,
) -> int:
    """Have the appliance look for itself what became of an unknown effect. Exit code 1 when it cannot tell."""
    body = {"by": getpass.getuser()}
    found = service_of(context, config).post(f"/v1/unknowns/{segment(identity)}/verify", body, wait_s=_VERIFY_S)
    is_known = found["status"] in ("applied", "none")
    if as_json:
        paper.show_json(found)
    elif is_known:
        paper.say(f"{identity}: " + ("it was done" if found["status"] == "applied" else "it was not done"))
    else:
        paper.say(
            f"{identity} is unknown still{': ' + found['note'] if found['note'] else ''}; look at the machine and settle it"
        )
    return OK if is_known else PROBLEM


def settle_unknown(
    context: typer.Context,
    identity: Annotated[str, typer.Argument(metavar="ID", help="As `unknowns list` shows it.")],
    verdict: Annotated[Verdict, typer.Option("--as", help="How it ended.")],
    config: Config,
    note: Annotated[str, typer.Option("--note", help="Why you know; done and not-done need it.")] = "",
    as_json: AsJson = False,
) -> None:
    """Say how an unknown ended. Your name is recorded with it."""
    body = {"verdict": str(verdict), "note": note, "by": getpass.getuser()}
    settled = service_of(context, config).post(f"/v1/unknowns/{segment(identity)}/settle", body)
    if as_json:
        paper.show_json(settled)
    else:
        paper.say(f"{identity} settled as {verdict}")


def sync_status(context: typer.Context, config: Config, as_json: AsJson = False) -> None:
    """Show how much of the operation log the coordinator holds, lane by lane, and what keeps the rest here."""
    state = service_of(context, config).get("/v1/sync")
    if as_json:
        paper.show_json(state)
        return
    columns = {"lane": "lane", "local": "written here", "acknowledged": "at coordinator", "pending": "to go"}
    paper.show_rows(state["lanes"], columns, as_json=False, empty="no operation yet")
    for why in state["why"].values():
        paper.say(why)
