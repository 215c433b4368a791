"""``floorhand run | coordinator | status | doctor | ask | speak``."""

from __future__ import annotations

import getpass
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from appliance.cli import paper
from appliance.cli.exit_codes import OK, PROBLEM, TRY_LATER
from appliance.cli.operating_commands import spell_hold
from appliance.cli.options import AsJson, Config, actions_of, finite, service_of
from appliance.cli.token_commands import TokenFile, token_from
from appliance.foundation.id_source import request_key

Text = Annotated[str, typer.Argument(help="The sentence.")]
Language = Annotated[str, typer.Option("--language", help="Language of the text; the appliance's own by default.")]
AlreadyJson = Annotated[bool, typer.Option("--json", help="Changes nothing: what this command writes is JSON lines anyhow.")]


def add_to(app: typer.Typer) -> None:
    """Register the commands."""
    for command in (run, coordinator, status, doctor, ask, speak):
        app.command()(command)


def run(context: typer.Context, config: Config, as_json: AlreadyJson = False) -> int:
    """Run the appliance until it is told to stop. Logs go to standard error as JSON lines."""
    return actions_of(context).run(config)


def coordinator(
    context: typer.Context,
    host: Annotated[str | None, typer.Option(help="Address to listen on.")] = None,
    port: Annotated[int | None, typer.Option(help="TCP port; 0 takes a free one.")] = None,
    database: Annotated[str | None, typer.Option(help="SQLite file or postgresql:// URL.")] = None,
    admin_token_file: Annotated[Path | None, typer.Option(help="File with the administrator's token, made if missing.")] = None,
    signing_key_file: Annotated[
        Path | None, typer.Option(help="File with the key that signs session tokens, made if missing; beside the admin token.")
    ] = None,
    fleet: Annotated[str | None, typer.Option(help="Name of all its appliances, in session tokens for all of them.")] = None,
    tls_cert: Annotated[Path | None, typer.Option(help="PEM certificate chain.")] = None,
    tls_key: Annotated[Path | None, typer.Option(help="PEM private key.")] = None,
    as_json: AlreadyJson = False,
) -> int:
    """Run the central service that appliances sync with."""
    given = {
        "host": host,
        "port": port,
        "database": database,
        "admin_token_file": admin_token_file,
        "signing_key_file": signing_key_file,
        "fleet": fleet,
        "tls_cert": tls_cert,
        "tls_key": tls_key,
    }
    return actions_of(context).coordinator({name: value for name, value in given.items() if value is not None})


def status(context: typer.Context, config: Config, as_json: AsJson = False) -> int:
    """Show what the running appliance says of itself. Exit code 1 while a part is degraded, and while on hold or draining."""
    now = service_of(context, config).get("/v1/status")
    is_whole = now["ready"] and not now["degraded"] and not now.get("draining") and not now.get("hold", {}).get("on_hold")
    if as_json:
        paper.show_json(now)
    else:
        for line in _first_of_all(now):
            paper.say(line)
        models = now.get("language_models", ())
        paper.show_facts({**now, "language_models": {each["name"]: _model_told(each) for each in models}}, as_json=False)
    return OK if is_whole else PROBLEM


def doctor(context: typer.Context, config: Config, as_json: AsJson = False) -> int:
    """Examine machine, configuration and links. Exit code 1 with any finding; safe while the service runs."""
    findings = actions_of(context).examine(config)
    if as_json:
        paper.show_json({"ok": all(each["ok"] for each in findings), "findings": list(findings)})
    else:
        for each in findings:
            paper.say(f"{'ok     ' if each['ok'] else 'PROBLEM'}  {each['check']}: {each['detail']}")
            if not each["ok"]:
                paper.say(f"         cure: {each['cure']}")
    return OK if all(each["ok"] for each in findings) else PROBLEM


def ask(
    context: typer.Context,
    text: Text,
    config: Config,
    language: Language = "",
    wait_s: Annotated[
        float, typer.Option("--wait", callback=finite, min=0, max=120, help="Seconds to wait for the answer.")
    ] = 30.0,
    steer: Annotated[bool, typer.Option("--steer", help="Add it to what is being done now, after the step under way.")] = False,
    redirect: Annotated[bool, typer.Option("--redirect", help="Put it in the place of what is left of what runs.")] = False,
    key: Annotated[str, typer.Option(help="Your name for this request: given again, it is not done twice.")] = "",
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> int:
    """Say TEXT to the appliance as if it had been heard. Exit code 1 when what was asked failed or was stopped, or your token is
    not taken, 75 when it is not done yet, 76 when no answer came."""
    if steer and redirect:
        raise typer.BadParameter("--steer adds and --redirect replaces: give one of them", param_hint="--redirect")
    arrival = "steer" if steer else "redirect" if redirect else "queue"
    key = key or request_key()
    body = {"text": text, "language": language, "wait_s": wait_s, "key": key, "arrival": arrival, "by": getpass.getuser()}
    joins = "" if arrival == "queue" else f" --{arrival}"
    spoken = f" --language {shlex.quote(language)}" if language else ""
    token = token_from(token_file)
    shown = f" --token-file {shlex.quote(str(token_file))}" if token_file is not None else ""
    again = f"floorhand ask{joins}{spoken}{shown} --key {shlex.quote(key)} {shlex.quote(text)}"
    look = f"`floorhand turns list` shows whether it was. Asked again with its key it is not done twice: {again}"
    answer = service_of(context, config).post("/v1/ask", body, wait_s=wait_s, look=look, token=token)
    if as_json:
        paper.show_json(answer)
    else:
        for reply in answer.get("replies", []):
            paper.say(str(reply))
        paper.say(_how_far(answer))
        if answer.get("limit"):
            paper.say(f"({answer['limit']})")
    return _exit_code_of(answer)


def speak(context: typer.Context, text: Text, config: Config, language: Language = "", as_json: AsJson = False) -> None:
    """Have the appliance say TEXT."""
    delivery = service_of(context, config).post("/v1/speak", {"text": text, "language": language})
    if as_json:
        paper.show_json(delivery)
    else:
        paper.say(f"queued as {delivery['delivery']}")


def _first_of_all(now: Mapping[str, Any]) -> list[str]:
    """Return, in sentences, what somebody who looks must not miss among the facts."""
    lines = [f"NOT READY{' (it is ending)' if now.get('stopping') else ''}"] if not now["ready"] else []
    lines += [f"ON HOLD{spell_hold(each).removeprefix('on hold')}" for each in now.get("hold", {}).get("holds", ())]
    lines += ["DRAINING: nothing new is taken; `floorhand drain --undo` ends it"] if now.get("draining") else []
    lines += [f"NEEDS ATTENTION: {part}: {now['degraded'].get(part, '')}" for part in now.get("needs_attention", ())]
    return lines


def _model_told(model: Mapping[str, Any]) -> str:
    """Return how a language model stands, in words."""
    named = f"{model['model']}, " if model["model"] else ""
    if model["ready"]:
        return f"{named}ready, {model['context_tokens']} tokens"
    rests = f"not asked for another {model['ready_in_s']:g} s" if model["ready_in_s"] else "being tried again"
    return f"{named}{rests}: {model['why']}"


def _is_under_way(answer: Mapping[str, Any]) -> bool:
    """Whether it waits still, or works: a turn that was joined goes on after it took the words up."""
    return answer["status"] != "terminal" or answer["state"] in ("planning", "executing")


def _exit_code_of(answer: Mapping[str, Any]) -> int:
    if _is_under_way(answer):
        return TRY_LATER
    return PROBLEM if answer["outcome"] != "done" or answer.get("failure") else OK


def _how_far(answer: Mapping[str, Any]) -> str:
    """Say how it ended and, if badly, why; or how far it is."""
    if _is_under_way(answer):
        far = f"{answer['turn']}: {answer['state']}" if answer["turn"] else "no turn yet: it waits"
        return f"({far}; it is taken and goes on: `floorhand turns list` shows how)"
    ended = f"{answer['turn'] or 'no turn'}: {answer['state'] or 'ended'}, {answer['outcome']}"
    why = answer.get("failure") or ("the service's log says why" if answer["outcome"] == "failed" else "")
    return f"({ended}: {why})" if why else f"({ended})"
