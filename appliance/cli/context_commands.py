"""``floorhand context SESSION | --stale``: what a language model would be shown, and who still holds what is out of date."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from appliance.cli import paper
from appliance.cli.exit_codes import OK, PROBLEM
from appliance.cli.options import AsJson, Config, service_of
from appliance.cli.service import segment


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command()(context)


def context(
    typed: typer.Context,
    config: Config,
    session: Annotated[str, typer.Argument(metavar="[SESSION]", help="A session, as `sessions list` names it.")] = "",
    stale: Annotated[
        bool, typer.Option("--stale", help="List the running sessions whose procedures or notes are older than those in use.")
    ] = False,
    as_json: AsJson = False,
) -> int:
    """Show what a language model would be shown for the newest sentence of a session, by tier, with tokens.

    With --stale: exit code 1 when a running session holds something that has changed (it ends by itself once it rests), or
    a playbook was edited and is not in use (`floorhand playbooks reload`).
    """
    if stale == bool(session):
        raise typer.BadParameter("give a session or --stale, and not both")
    service = service_of(typed, config)
    if stale:
        found = service.get("/v1/contexts/stale")
        _show_stale(found, as_json=as_json)
        return PROBLEM if found["running"] or found["not_taken_up"] else OK
    shown = service.get(f"/v1/contexts/of/{segment(session)}")
    if as_json:
        paper.show_json(shown)
    else:
        _show(shown)
    return OK


def _show_stale(found: Mapping[str, Any], *, as_json: bool) -> None:
    if as_json:
        paper.show_json(found)
        return
    for each in found["running"]:
        paper.say(f"{each['session']} ({each['lane']}) since {each['taken_utc']}: {'; '.join(each['changed'])}")
    if not found["running"]:
        paper.say("every running session holds what is in use now")
    if found["not_taken_up"]:
        paper.say(f"edited and not in use, for no session: {', '.join(found['not_taken_up'])}. `floorhand playbooks reload`")


def _show(shown: Mapping[str, Any]) -> None:
    model = shown["model"] or "no model is configured; this is an estimate for a small one"
    frozen = f"frozen {shown['snapshot_utc']}" if shown["snapshot_utc"] else "not frozen yet"
    paper.say(f"model: {model}")
    answer = f"answer at most {shown['reply_tokens']} (a sixth of the window, from 200 to 800)"
    paper.say(f"window: {shown['context_tokens']} tokens; prompt {shown['tokens']}; {answer}")
    paper.say(f"tools offered: {', '.join(shown['tools'])}")
    for tier in shown["tiers"]:
        what = [f"{tier['tokens']} tokens"]
        what += [frozen] if tier["tier"] == "context" else []
        what += [f"{tier['shortened']} shortened"] if tier["shortened"] else []
        what += [f"{tier['left_out']} left out for want of room"] if tier["left_out"] else []
        paper.say(f"\n--- {tier['tier']}: {', '.join(what)}")
        paper.say(tier["text"])
