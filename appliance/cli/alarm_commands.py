"""``floorhand alarms …``: what is live, what became of every event, and a person's word on them."""

from __future__ import annotations

import getpass
from collections.abc import Callable
from typing import Annotated, Any

import typer

from appliance.cli import paper
from appliance.cli.exit_codes import OK, PROBLEM
from appliance.cli.options import AsJson, Config, Limit, finite, service_of
from appliance.cli.service import Service, segment

_ALARMS = {
    "activation_id": "activation",
    "revision": "revision",
    "asset": "asset",
    "priority": "priority",
    "state": "state",
    "value": "value",
    "unit": "unit",
    "raised_utc": "raised",
    "acknowledged_by": "acknowledged by",
    "session_id": "session",
}
_DEFINED = {
    "alarm_id": "alarm",
    "asset": "asset",
    "priority": "priority",
    "source_id": "gateway's name",
    "condition": "watched for",
    "latching": "latching",
    "group": "group",
}
_EVENTS = {
    "seq": "#",
    "source": "source",
    "alarm_id": "alarm",
    "change": "change",
    "disposition": "became",
    "duplicates": "came again",
    "was_missed": "read late",
    "admission_id": "admission",
    "journalled_utc": "journalled",
}
_HELD = {"alarm_id": "alarm", "kind": "is", "reason": "why", "by": "by", "left_s": "seconds left", "began_utc": "since"}
_ACCOUNT = {
    "source": "source",
    "seen": "seen",
    "journalled": "journalled",
    "duplicates": "duplicates",
    "conflicts": "conflicts",
    "announced": "announced",
    "suppressed": "suppressed",
    "waiting": "waiting",
    "unheard": "unheard",
    "was_missed": "read late",
    "missing": "missing",
    "restarts": "restarts",
    "since_utc": "since",
}
_UNREADABLE = {
    "topic": "topic",
    "count": "unreadable",
    "unseen": "not looked into",
    "newest_why": "newest, why",
    "newest_utc": "newest, when",
}

Activation = Annotated[str, typer.Argument(help="As `alarms list` shows it.")]
Alarm = Annotated[str, typer.Argument(help="As plant.yaml names it.")]
Shown = Annotated[int | None, typer.Option("--revision", min=1, help="Only if it is still as it was shown to you.")]
Why = Annotated[str, typer.Option("--reason", help="Why. It is recorded with your name.")]


def add_to(app: typer.Typer) -> None:
    """Register the group."""
    group = typer.Typer(no_args_is_help=True, help="Alarms.")
    commands: dict[str, Callable[..., Any]] = {
        "list": list_alarms,
        "defined": list_defined,
        "show": show_alarm,
        "ack": acknowledge_alarm,
        "reset": reset_alarm,
        "close": close_alarm,
        "shelve": shelve_alarm,
        "unshelve": unshelve_alarm,
        "out-of-service": take_out_of_service,
        "in-service": put_in_service,
        "held": list_held,
        "journal": show_journal,
        "account": show_account,
    }
    for name, command in commands.items():
        group.command(name)(command)
    app.add_typer(group, name="alarms")


def list_alarms(
    context: typer.Context,
    config: Config,
    everything: Annotated[bool, typer.Option("--all", help="Also those back to normal.")] = False,
    limit: Limit = 100,
    as_json: AsJson = False,
) -> None:
    """Show live alarms, newest first."""
    rows = service_of(context, config).get("/v1/alarms", live=not everything, limit=limit)
    paper.show_rows(rows, _ALARMS, as_json=as_json, empty="no alarm is live")
    paper.hint_of_more(rows, limit, as_json=as_json)


def list_defined(context: typer.Context, config: Config, as_json: AsJson = False) -> None:
    """Show every alarm the plant model has, and where it comes from."""
    rows = service_of(context, config).get("/v1/alarms/defined")
    paper.show_rows(rows, _DEFINED, as_json=as_json, empty="plant.yaml declares no alarm")


def show_alarm(context: typer.Context, activation: Activation, config: Config, as_json: AsJson = False) -> None:
    """Show one activation with every event about it."""
    found = service_of(context, config).get(f"/v1/alarms/activations/{segment(activation)}")
    if as_json:
        paper.show_json(found)
        return
    paper.show_facts({name: value for name, value in found.items() if name != "events"}, as_json=False)
    paper.say("\nevents:")
    paper.show_rows(found["events"], _EVENTS, as_json=False, empty="none")


def acknowledge_alarm(
    context: typer.Context, activation: Activation, config: Config, revision: Shown = None, as_json: AsJson = False
) -> None:
    """Acknowledge one activation. Refused when it changed since you were shown it."""
    _say_of(service_of(context, config), activation, "acknowledge", "acknowledged", revision, as_json=as_json)


def reset_alarm(
    context: typer.Context, activation: Activation, config: Config, revision: Shown = None, as_json: AsJson = False
) -> None:
    """Let go of a latched alarm, which is gone and acknowledged."""
    _say_of(service_of(context, config), activation, "reset", "reset", revision, as_json=as_json)


def close_alarm(
    context: typer.Context, activation: Activation, reason: Why, config: Config, revision: Shown = None, as_json: AsJson = False
) -> None:
    """Close an activation whose end never came, whatever its state. What the PLC still shows is raised anew."""
    service = service_of(context, config)
    _say_of(service, activation, "close", "closed", revision, as_json=as_json, reason=reason)


def shelve_alarm(
    context: typer.Context,
    alarm: Alarm,
    minutes: Annotated[float, typer.Option("--minutes", callback=finite, min=0.1, help="For how long.")],
    reason: Why,
    config: Config,
    as_json: AsJson = False,
) -> None:
    """Keep an alarm from being announced for a time. Its states go on."""
    body = {"minutes": minutes, "reason": reason}
    _hold(service_of(context, config), alarm, "shelve", body, f"{alarm} is shelved for {minutes:g} minutes", as_json=as_json)


def unshelve_alarm(context: typer.Context, alarm: Alarm, config: Config, as_json: AsJson = False) -> None:
    """Announce a shelved alarm again, at once if it is active."""
    _hold(service_of(context, config), alarm, "unshelve", {}, f"{alarm} is announced again", as_json=as_json)


def take_out_of_service(context: typer.Context, alarm: Alarm, reason: Why, config: Config, as_json: AsJson = False) -> None:
    """Keep an alarm from being announced until it is put back."""
    done = f"{alarm} is out of service"
    _hold(service_of(context, config), alarm, "out-of-service", {"reason": reason}, done, as_json=as_json)


def put_in_service(context: typer.Context, alarm: Alarm, config: Config, as_json: AsJson = False) -> None:
    """Put an alarm back into service; it is announced at once if it is active."""
    _hold(service_of(context, config), alarm, "in-service", {}, f"{alarm} is in service", as_json=as_json)


def list_held(context: typer.Context, config: Config, as_json: AsJson = False) -> None:
    """Show what is shelved, suppressed by design or out of service, and why."""
    rows = service_of(context, config).get("/v1/alarms/held")
    paper.show_rows(rows, _HELD, as_json=as_json, empty="every alarm is announced")


def show_journal(
    context: typer.Context,
    config: Config,
    alarm: Annotated[str | None, typer.Option("--alarm", help="Only of this alarm.")] = None,
    source: Annotated[str | None, typer.Option("--source", help="Only from this source.")] = None,
    became: Annotated[str | None, typer.Option("--became", help="Only these: announce, chatter, shelved, …")] = None,
    limit: Limit = 100,
    as_json: AsJson = False,
) -> None:
    """Show every event that came in and what became of it, newest first."""
    rows = service_of(context, config).get("/v1/alarms/journal", alarm=alarm, source=source, disposition=became, limit=limit)
    paper.show_rows(rows, _EVENTS, as_json=as_json, empty="no alarm event yet")
    paper.hint_of_more(rows, limit, as_json=as_json)


def show_account(
    context: typer.Context,
    config: Config,
    accept: Annotated[str | None, typer.Option("--accept-missing", help="You looked into this source, or topic.")] = None,
    as_json: AsJson = False,
) -> int:
    """Account for every event from source to loudspeaker. Exit code 1 when something is lost."""
    service = service_of(context, config)
    if accept is not None:
        service.post(f"/v1/alarms/sources/{segment(accept)}/accept-missing", {"by": getpass.getuser()})
    account = service.get("/v1/alarms/account")
    if as_json:
        paper.show_json(account)
    else:
        paper.show_rows(account["sources"], _ACCOUNT, as_json=False, empty="no alarm event yet")
        if account["unreadable"]:
            paper.say("\nalarms that could not be read:")
            paper.show_rows(account["unreadable"], _UNREADABLE, as_json=False, empty="")
        for name, counters in account["drivers"].items():
            paper.say(f"\n{name}:")
            paper.show_facts(counters, as_json=False)
        paper.say("\n" + ("Nothing is lost." if account["holds"] else "\n".join(account["faults"])))
    return OK if account["holds"] else PROBLEM


def _say_of(service: Service, activation: str, act: str, done: str, revision: int | None, *, as_json: bool, **more: Any) -> None:
    body: dict[str, Any] = {"by": getpass.getuser(), "revision": revision, **more}
    answer = service.post(f"/v1/alarms/activations/{segment(activation)}/{act}", body)
    if as_json:
        paper.show_json(answer)
    else:
        paper.say(f"{activation} {done}: it is {answer['state'].replace('_', ' ')}")


def _hold(service: Service, alarm: str, act: str, body: dict[str, Any], done: str, *, as_json: bool) -> None:
    answer = service.post(f"/v1/alarms/defined/{segment(alarm)}/{act}", body | {"by": getpass.getuser()})
    if as_json:
        paper.show_json(answer)
    else:
        paper.say(done)
