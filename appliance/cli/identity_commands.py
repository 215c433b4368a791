"""``floorhand identity`` and ``floorhand ledger``: whose the ledger is, and what was lost of it."""

from __future__ import annotations

import getpass
from typing import Annotated

import typer

from appliance.cli import paper
from appliance.cli.options import AsJson, Config, service_of

Note = Annotated[str, typer.Option("--note", help="Why you know, for those who come after you.")]


def add_to(app: typer.Typer) -> None:
    """Register the commands."""
    identity = typer.Typer(help="Whether this ledger is this machine's own.", no_args_is_help=True)
    identity.command("adopt")(adopt)
    app.add_typer(identity, name="identity")
    ledger = typer.Typer(help="The ledger's file: trouble, copies, losses.", no_args_is_help=True)
    ledger.command("show")(show)
    ledger.command("settle")(settle)
    app.add_typer(ledger, name="ledger")


def adopt(context: typer.Context, config: Config, note: Note, as_json: AsJson = False) -> None:
    """Have this machine go on with a ledger that may be a copy. If the original still runs, the coordinator finds the fork."""
    done = service_of(context, config).post("/v1/identity/adopt", {"by": getpass.getuser(), "note": note})
    if as_json:
        paper.show_json(done)
    else:
        paper.say("adopted: " + "; ".join(done["adopted"]))


def show(context: typer.Context, config: Config, as_json: AsJson = False) -> None:
    """Show what is wrong with the storage, what says that this may be a copy, and what was lost of damaged ledgers."""
    found = service_of(context, config).get("/v1/ledger")
    if as_json:
        paper.show_json(found)
        return
    paper.show_facts({"trouble": found["trouble"] or "none", "machine": found["machine"] or "unknown"}, as_json=False)
    signs = {"what": "sign", "detail": "detail", "found_utc": "found"}
    paper.show_rows(found["identity"], signs, as_json=False, empty="nothing says that it is a copy")
    losses = {"salvage": "#", "why": "why", "set_aside": "damaged file", "lost": "missing", "settled_by": "settled by"}
    rows = [{**salvage, "lost": ", ".join(salvage["lost"]) or "nothing"} for salvage in found["salvages"]]
    paper.show_rows(rows, losses, as_json=False, empty="it was never damaged")


def settle(
    context: typer.Context,
    number: Annotated[int, typer.Argument(metavar="NUMBER", help="As `ledger show` lists it.")],
    config: Config,
    note: Note,
    as_json: AsJson = False,
) -> None:
    """Say that you know what was lost with a damaged ledger, and that it is dealt with. Your name is recorded with it."""
    settled = service_of(context, config).post(f"/v1/ledger/salvages/{number}/settle", {"by": getpass.getuser(), "note": note})
    if as_json:
        paper.show_json(settled)
    else:
        paper.say(f"salvage {number} is settled; the damaged file {settled['set_aside']} may go when nobody needs it")
