"""``floorhand token make | show | revoke``, and where the other commands get a token from."""

from __future__ import annotations

import getpass
import os
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from appliance.cli import paper
from appliance.cli.exit_codes import OK, PROBLEM, USAGE
from appliance.cli.options import AsJson, Config, service_of
from appliance.cli.service import CommandFault
from appliance.contracts.errors import ConfigError
from appliance.contracts.session_token import FEWEST_HOURS, LIFE_HERE, MOST_HOURS, is_name
from appliance.foundation import private_file

TOKEN_VARIABLE = "FLOORHAND_TOKEN"
"""Environment variable with a token's text; ``--token-file`` goes before it."""

_LONGEST_BYTES = 8192  # twice the longest token: the service says of what is between that it is too long

TokenFile = Annotated[
    Path | None,
    typer.Option("--token-file", help=f"File with your session token; without it the text in {TOKEN_VARIABLE} counts."),
]


def add_to(app: typer.Typer) -> None:
    """Register the commands."""
    token = typer.Typer(help="Session tokens: who asks, and what they may.", no_args_is_help=True)
    for command in (make, show, revoke):
        token.command()(command)
    app.add_typer(token, name="token")


def token_from(file: Path | None) -> str:
    """Return the token to show, empty for none.

    Raises:
        CommandFault: the file cannot be read, others can, or there is no token in it; or in the variable.
    """
    if file is not None:
        return read_token_file(file)
    text = os.environ.get(TOKEN_VARIABLE, "")
    return _checked(text, TOKEN_VARIABLE) if text else ""


def read_token_file(file: Path) -> str:
    """Return the text of a token's file. Raises CommandFault: it cannot be read, others can, or it holds no token."""
    try:
        content = private_file.read(file, key="token")
    except ConfigError as error:
        raise CommandFault(PROBLEM, "token_file", f"{file} can be read by others", error.cure) from error
    except OSError as error:
        raise CommandFault(
            USAGE, "token_file", f"{file} cannot be read: {error.strerror}", "Name the file of a token."
        ) from error
    return _checked(content[: _LONGEST_BYTES + 1].decode("utf-8", "replace"), str(file))


def _checked(text: str, where: str) -> str:
    """Return a text that can be sent as a token: one word of printable ASCII. What it is worth is the service's to say."""
    text = text.strip()
    if not text or not text.isascii() or not text.isprintable() or " " in text or len(text) > _LONGEST_BYTES:
        cure = "Give what `floorhand token make` or the coordinator's administrator gave out, and nothing else."
        raise CommandFault(PROBLEM, "token_file", f"{where} holds no session token", cure)
    return text


def _life(hours: float) -> float:
    if not FEWEST_HOURS <= hours <= MOST_HOURS:
        raise typer.BadParameter(LIFE_HERE)
    return hours


def make(
    context: typer.Context,
    person: Annotated[str, typer.Argument(help="Who will show it, as records name them.")],
    config: Config,
    role: Annotated[str, typer.Option("--role", help="One of access.roles in policies.yaml.")],
    hours: Annotated[float, typer.Option("--hours", callback=_life, help="It ends after this; 24 at most.")] = 8.0,
    out: Annotated[Path | None, typer.Option("--out", help="Write it into this file, for nobody else to read.")] = None,
    as_json: AsJson = False,
) -> None:
    """Make a session token for PERSON that this appliance takes. Another person than yourself, and roles above that of who
    types here, need sudo."""
    if not is_name(person):
        raise CommandFault(USAGE, "usage", "PERSON is no name", "Name who will show the token, as in records: ana")
    wanted = {"person": person, "role": role, "hours": hours, "by": getpass.getuser()}
    made = service_of(context, config).post("/v1/tokens", wanted)
    if out is not None:
        _write(out, made.pop("token"))
        made["file"] = str(out)
    if as_json:
        paper.show_json(made)
        return
    if out is None:
        print(made.pop("token"))
    told = f"{made['id']}: {made['person']} is {made['role']} ({made['level']}) at {made['for']} until {made['ends_utc']}"
    paper.console(to_error=True).print(escape(f"{told}, {out}" if out is not None else told))
    if made["limit"]:
        paper.console(to_error=True).print(escape(made["limit"]))


def show(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(help="File with a session token.")],
    config: Config,
    as_json: AsJson = False,
) -> int:
    """Show what a token says, and whether it is taken here. Exit code 1 when it is not."""
    found = service_of(context, config).post("/v1/tokens/look", {"token": read_token_file(file)})
    if as_json:
        paper.show_json(found)
    else:
        verdict = f"taken here, and gives {found['level']}" if found["verifies"] else f"NOT taken here: {found['why']}"
        paper.say(verdict)
        for more in (found["limit"], found["cure"]):
            if more:
                paper.say(more)
        paper.show_facts(found["says"], as_json=False)
    return OK if found["verifies"] else PROBLEM


def revoke(
    context: typer.Context,
    token_id: Annotated[str, typer.Argument(metavar="ID", help="Its jti, as `token show` tells it.")],
    config: Config,
    note: Annotated[str, typer.Option("--note", help="Why, for those who come after you.")] = "",
    as_json: AsJson = False,
) -> None:
    """End a token at this appliance, at once. Your name is recorded with it."""
    ended = service_of(context, config).post("/v1/tokens/revoke", {"id": token_id, "by": getpass.getuser(), "note": note})
    if as_json:
        paper.show_json(ended)
    else:
        paper.say(f"{ended['id']} is not taken here any more (revoked by {ended['revoked_by']} at {ended['revoked_utc']})")
        if not ended["made_here"]:
            paper.say("no token of this id was made here: if it is not one of the coordinator's, look at the id again")


def _write(out: Path, token: str) -> None:
    try:
        private_file.replace(out, f"{token}\n".encode())
    except OSError as error:
        cure = "Choose another --out. The token that was made is given to nobody."
        raise CommandFault(USAGE, "token_file", f"{out} cannot be written: {error.strerror}", cure) from error
