"""The command line as a whole: builds it, runs it, turns faults into messages and exit codes."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import typer

from appliance.cli import (
    alarm_commands,
    approval_commands,
    audit_commands,
    check_commands,
    context_commands,
    core_commands,
    field_commands,
    identity_commands,
    ledger_commands,
    local_commands,
    operating_commands,
    paper,
    plant_commands,
    playbook_commands,
    ticket_commands,
    token_commands,
    tool_commands,
    usage_commands,
)
from appliance.cli.actions import LocalActions
from appliance.cli.exit_codes import OK, USAGE, exit_code_of
from appliance.cli.service import CommandFault
from appliance.contracts.errors import FloorhandError

_HELP = (
    "Floorhand: the hand on the factory floor. "
    "Exit codes: 0 ok, 1 a named problem, 2 usage, 69 no service, 75 try later, 76 sent, but no answer came, 78 configuration."
)


def build_cli(actions: LocalActions) -> typer.Typer:
    """Return the command line; ``actions`` does what cannot be asked of the service."""
    app = typer.Typer(name="floorhand", help=_HELP, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)

    @app.callback()
    def root(context: typer.Context, version: bool = typer.Option(False, "--version", help="Show the version and stop.")) -> None:
        context.obj = actions

    core_commands.add_to(app)
    operating_commands.add_to(app)
    alarm_commands.add_to(app)
    ledger_commands.add_to(app)
    identity_commands.add_to(app)
    audit_commands.add_to(app)
    field_commands.add_to(app)
    local_commands.add_to(app)
    plant_commands.add_to(app)
    ticket_commands.add_to(app)
    check_commands.add_to(app)
    token_commands.add_to(app)
    tool_commands.add_to(app)
    playbook_commands.add_to(app)
    usage_commands.add_to(app)
    context_commands.add_to(app)
    approval_commands.add_to(app)
    return app


def run_cli(actions: LocalActions, arguments: Sequence[str]) -> int:
    """Run one command and return its exit code."""
    as_json = "--json" in arguments
    try:
        ended = build_cli(actions)(args=list(arguments), prog_name="floorhand", standalone_mode=False)
    except typer.exceptions.TyperException as error:
        if error.format_message():  # empty: no command was given and the help is printed already
            _tell("usage", error.format_message(), "See `floorhand --help`, or `--help` after a command.", {}, as_json=as_json)
        return USAGE
    except CommandFault as error:
        _tell(error.code, error.message, error.cure, error.facts, as_json=as_json)
        return error.exit_code
    except FloorhandError as error:
        _tell(error.code, error.message, error.cure, error.facts, as_json=as_json)
        return exit_code_of(error)
    return ended if isinstance(ended, int) else OK


def _tell(code: str, message: str, cure: str, facts: object, *, as_json: bool) -> None:
    if as_json:
        paper.show_json({"error": {"code": code, "message": message, "cure": cure, "facts": facts}})
    sys.stderr.write(f"{message}\n")
    if cure and cure not in message:  # a ConfigError's message names its cure already
        sys.stderr.write(f"{cure}\n")
