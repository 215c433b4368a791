"""``floorhand hold | release | drain | stop``: the appliance as a whole, while it runs."""

from __future__ import annotations

import getpass
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from appliance.cli import paper
from appliance.cli.exit_codes import OK, PROBLEM, TRY_LATER
from appliance.cli.options import AsJson, Config, finite, service_of
from appliance.cli.service import CommandFault, Service, segment

_WORKING = frozenset({"planning", "executing"})
_ASK_FOR_S = 30.0  # one request of a longer wait: the service lets none wait for more than a minute
_MOST_TURNS = 1000


def add_to(app: typer.Typer) -> None:
    """Register the commands."""
    for command in (hold, release, drain, stop):
        app.command()(command)


def hold(
    context: typer.Context,
    config: Config,
    reason: Annotated[str, typer.Option("--reason", help="Why, for those who come after you.")],
    as_json: AsJson = False,
) -> None:
    """Carry nothing out until `release`: alarms are still taken and told. Your name is recorded. It survives a restart."""
    body = {"on": True, "reason": reason, "by": getpass.getuser()}
    _show_hold(service_of(context, config).post("/v1/hold", body), as_json=as_json)


def release(
    context: typer.Context,
    config: Config,
    of: Annotated[str, typer.Option("--for", metavar="NAME", help="End what this person holds, instead of your own.")] = "",
    everyone: Annotated[bool, typer.Option("--all", help="End what every person holds.")] = False,
    as_json: AsJson = False,
) -> int:
    """End your own hold. Exit code 1 when you hold nothing, or while others or the key switch hold still. Your name is kept."""
    if of and everyone:
        raise typer.BadParameter("give --for or --all, not both")
    now = service_of(context, config).post("/v1/hold", {"on": False, "by": getpass.getuser(), "of": of, "everyone": everyone})
    if now["on_hold"] and not as_json:
        paper.say("released, and still:")
    _show_hold(now, as_json=as_json)
    return PROBLEM if now["on_hold"] else OK


def drain(
    context: typer.Context,
    config: Config,
    wait_s: Annotated[float, typer.Option("--wait", callback=finite, min=0, help="Seconds to wait for what runs.")] = 60.0,
    undo: Annotated[bool, typer.Option("--undo", help="Take work again.")] = False,
    as_json: AsJson = False,
) -> int:
    """Take nothing new and wait for what runs, as before an update. Exit code 75 when something runs still after the wait.

    Alarms are led as ever. What else comes waits on disk for `drain --undo` or for the next start.
    """
    service = service_of(context, config)
    now = _undrain(service) if undo else _drain(service, wait_s)
    if as_json:
        paper.show_json(now)
    elif undo:
        paper.say("work is taken again" if now["was_draining"] else "nothing was drained: work is taken as ever")
    elif now["drained"]:
        paper.say("drained: nothing that somebody asked for runs, and nothing new is taken")
    else:
        paper.say(f"still running: {now['turns_running']}; nothing new is taken. `floorhand drain` waits again, --undo ends it")
    return OK if undo or now["drained"] else TRY_LATER


def stop(
    context: typer.Context,
    config: Config,
    turn: Annotated[str, typer.Argument(metavar="[TURN]", help="The one that runs, if it is the only one.")] = "",
    reason: Annotated[str, typer.Option("--reason", help="Why, for the record.")] = "stopped from the command line",
    as_json: AsJson = False,
) -> None:
    """Stop a turn: within a second its step is given up and the rest is skipped. What a step did stays done, or unknown."""
    service = service_of(context, config)
    turn = turn or _only_running(service)
    stopped = service.post(f"/v1/turns/{segment(turn)}/stop", {"by": getpass.getuser(), "reason": reason})
    if as_json:
        paper.show_json(stopped)
        return
    how = "is being stopped" if stopped["state"] in _WORKING else f"is {stopped['state']}"
    paper.say(f"{stopped['turn']} {how}; `floorhand turns show {stopped['turn']}` says what became of its steps")


def _show_hold(now: Mapping[str, Any], *, as_json: bool) -> None:
    if as_json:
        paper.show_json(now)
    elif not now["on_hold"]:
        paper.say("not on hold: work is carried out")
    for each in () if as_json else now["holds"]:
        paper.say(spell_hold(each))


def spell_hold(each: Mapping[str, Any]) -> str:
    """Return one hold as a sentence."""
    who = "the key switch" if each["source"] == "key_switch" else each["by"]
    why = f": {each['reason']}" if each["reason"] and each["source"] != "key_switch" else ""
    return f"on hold by {who} since {each['since']}{why}"


def _drain(service: Service, wait_s: float) -> Mapping[str, Any]:
    left_s = wait_s
    while True:
        asked_s = min(left_s, _ASK_FOR_S)
        body = {"on": True, "by": getpass.getuser(), "wait_s": asked_s}
        now: Mapping[str, Any] = service.post("/v1/drain", body, wait_s=asked_s)
        left_s -= asked_s
        if now["drained"] or left_s <= 0:
            return now


def _undrain(service: Service) -> Mapping[str, Any]:
    now: Mapping[str, Any] = service.post("/v1/drain", {"on": False, "by": getpass.getuser()})
    return now


def _only_running(service: Service) -> str:
    running = [str(each["id"]) for each in service.get("/v1/turns", limit=_MOST_TURNS) if each["state"] in _WORKING]
    if len(running) == 1:
        return running[0]
    if not running:
        raise CommandFault(PROBLEM, "nothing_runs", "no turn runs", "`floorhand turns list` shows those there were.")
    cure = "Name one: floorhand stop TURN."
    raise CommandFault(PROBLEM, "several_run", f"{len(running)} turns run: {', '.join(running)}", cure, {"turns": running})
