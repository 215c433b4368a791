"""``floorhand tickets``: what the appliance could not bring to an end and handed to people."""

from __future__ import annotations

import getpass
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from appliance.cli import paper
from appliance.cli.exit_codes import USAGE
from appliance.cli.options import AsJson, Config, Limit, service_of
from appliance.cli.service import CommandFault, segment

_COLUMNS = {
    "id": "ticket",
    "status": "status",
    "tool": "tool",
    "error_code": "code",
    "error": "error",
    "sent": "sent to",
    "turn_id": "turn",
    "opened_utc": "opened",
}
_SENT = {"topic": "webhook", "change": "tells", "status": "status", "tries": "tries", "failure": "why not", "ended_utc": "ended"}

Identity = Annotated[str, typer.Argument(metavar="TICKET", help="As `tickets list` shows it.")]


def add_to(app: typer.Typer) -> None:
    """Register the group."""
    group = typer.Typer(no_args_is_help=True, help="What could not be done and was handed to people.")
    group.command("list")(list_tickets)
    group.command("show")(show_ticket)
    group.command("resolve")(resolve_ticket)
    app.add_typer(group, name="tickets")


def list_tickets(
    context: typer.Context,
    config: Config,
    everything: Annotated[bool, typer.Option("--all", help="Also those that are closed.")] = False,
    limit: Limit = 100,
    as_json: AsJson = False,
) -> None:
    """Show open tickets, newest first."""
    rows = service_of(context, config).get("/v1/tickets", open=not everything, limit=limit)
    told = rows if as_json else [row | {"sent": _became(row)} for row in rows]
    paper.show_rows(told, _COLUMNS, as_json=as_json, empty="no ticket yet" if everything else "no ticket is open")
    paper.hint_of_more(rows, limit, as_json=as_json)


def show_ticket(context: typer.Context, ticket: Identity, config: Config, as_json: AsJson = False) -> None:
    """Show one ticket whole, with what became of its messages."""
    found = service_of(context, config).get(f"/v1/tickets/{segment(ticket)}")
    if as_json:
        paper.show_json(found)
        return
    facts = {name: value for name, value in found.items() if name not in ("deliveries", "messages")}
    paper.show_facts(facts | {"sent to": _became(found)}, as_json=False)
    paper.say("\nmessages:")
    paper.show_rows(found["deliveries"], _SENT, as_json=False, empty="none: no webhook takes tickets")


def resolve_ticket(
    context: typer.Context,
    ticket: Identity,
    config: Config,
    note: Annotated[str, typer.Option("--note", help="What was done about it.")],
    as_json: AsJson = False,
) -> None:
    """Say that a ticket is done. Your name is recorded with it."""
    if not note.strip():
        raise CommandFault(USAGE, "usage", "the note has no words", 'Say what was done: --note "cable plugged in"')
    body = {"note": note.strip(), "by": getpass.getuser()}
    closed = service_of(context, config).post(f"/v1/tickets/{segment(ticket)}/resolve", body)
    if as_json:
        paper.show_json(closed)
    else:
        paper.say(f"{ticket} is resolved")


def _became(ticket: Mapping[str, Any]) -> str:
    """Return what became of a ticket's message at each webhook, in a line."""
    told = []
    for name, message in ticket["messages"].items():
        tries = f"{message['tries']} {'try' if message['tries'] == 1 else 'tries'}"
        why = f": {message['why']}" if message["why"] and message["status"] != "sent" else ""
        told.append(f"{name}: {message['status']}, {tries}{why}")
    return "; ".join(told)
