"""``floorhand tags history``."""

from __future__ import annotations

from typing import Annotated

import typer

from appliance.cli import paper
from appliance.cli.exit_codes import OK, PROBLEM
from appliance.cli.options import AsJson, Config, finite, service_of
from appliance.cli.service import segment
from appliance.cli.text_plot import columns_of, plot
from appliance.contracts.history import MOST_MINUTES

_COLUMNS = 72
_LABEL = 10


def show_history(
    context: typer.Context,
    key: Annotated[str, typer.Argument(help="asset.name")],
    config: Config,
    minutes: Annotated[float, typer.Option("--minutes", callback=finite, min=1, max=MOST_MINUTES, help="How far back.")] = 60.0,
    as_json: AsJson = False,
) -> int:
    """Show what a tag did, as a plot. Exit code 1 when no value is known of that time."""
    track = service_of(context, config).get(f"/v1/tags/{segment(key)}/history", minutes=minutes)
    points = [(point["at_s"], point["value"]) for point in track["points"]]
    values = columns_of(points, track["length_s"], _COLUMNS)
    known = [value for _, value in points if value is not None]
    if as_json:
        paper.show_json(track)
    elif not known:
        paper.say(f"no value of {key} is known from the last {minutes:g} minutes")
    else:
        lines = plot(values)
        labels = [f"{max(known):g}", *[""] * (len(lines) - 2), f"{min(known):g}"]
        for label, line in zip(labels, lines, strict=True):
            paper.say(f"{label:>{_LABEL}} {line}")
        ago = f"{minutes:g} minutes ago"
        paper.say(f"{'':{_LABEL}} {ago}{'now':>{_COLUMNS - len(ago)}}")
        facts = f"lowest {min(known):g}, highest {max(known):g}, newest {known[-1]:g}"
        paper.say(f"{key}: {facts} {track['unit']}".rstrip())
    return OK if known else PROBLEM
