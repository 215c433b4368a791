"""Groups that need no running service: config and models."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

from appliance.cli import paper
from appliance.cli.fetching import fetch
from appliance.cli.options import AsJson, Config, actions_of


def add_to(app: typer.Typer) -> None:
    """Register the groups."""
    settings = typer.Typer(no_args_is_help=True, help="The configuration.")
    settings.command("check")(check_config)
    settings.command("show")(show_config)
    app.add_typer(settings, name="config")
    models = typer.Typer(no_args_is_help=True, help="Speech and language models.")
    models.command("list")(list_models)
    models.command("fetch")(fetch_model)
    app.add_typer(models, name="models")


def check_config(context: typer.Context, config: Config, as_json: AsJson = False) -> None:
    """Validate the configuration; every fault is named with file, key and cure. Exit code 78 with a fault."""
    checked = actions_of(context).check_config(config)
    if as_json:
        paper.show_json({"ok": True, **checked})
    else:
        for warning in checked.get("warnings", ()):
            paper.say(f"warning: {warning}")
        paper.say(f"{config}: the configuration is sound")


def show_config(context: typer.Context, config: Config, as_json: AsJson = False) -> None:
    """Show the configuration as it is understood, secrets hidden."""
    paper.show_facts(actions_of(context).show_config(config), as_json=as_json)


def list_models(context: typer.Context, config: Config, as_json: AsJson = False) -> None:
    """Show the models that are configured or were fetched."""
    columns = {"name": "name", "present": "present", "path": "path", "bytes": "bytes", "cure": "cure"}
    rows = actions_of(context).list_models(config)
    paper.show_rows(rows, columns, as_json=as_json, empty="no model is configured or fetched")


def fetch_model(
    context: typer.Context,
    url: Annotated[str, typer.Argument(help="https address of a file or archive.")],
    sha256: Annotated[str, typer.Option("--sha256", help="Its SHA-256, 64 hex digits.")],
    config: Config,
    name: Annotated[str, typer.Option("--name", help="Name to keep it under; the address' last part by default.")] = "",
    as_json: AsJson = False,
) -> None:
    """Download a model, verify it, put it in place. An interrupted download goes on where it stopped."""
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=paper.console(to_error=True), disable=as_json, transient=True) as progress:
        bar = progress.add_task("fetching", total=None)

        def tell(done_bytes: int, total_bytes: int | None) -> None:
            progress.update(bar, completed=done_bytes, total=total_bytes)

        placed = fetch(url, sha256, name, actions_of(context).find_models_dir(config), tell)
    if as_json:
        paper.show_json({"name": placed.name, "path": str(placed)})
    else:
        paper.say(f"{placed.name} is in place: {placed}")
