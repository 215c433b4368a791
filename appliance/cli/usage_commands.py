"""``floorhand usage``: what calls of language models took, by session or by day."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Any

import typer

from appliance.cli import paper
from appliance.cli.options import AsJson, Config, Limit, service_of

_SUMS = {
    "name": "name",
    "calls": "calls",
    "not_ok": "not whole",
    "tokens_in": "tokens in",
    "tokens_cached": "of them cached",
    "tokens_out": "tokens out",
    "estimated": "estimated",
    "seconds": "seconds",
    "cost": "cost",
}
_CALLS = {
    "began_utc": "at",
    "provider": "provider",
    "model": "model",
    "purpose": "for",
    "outcome": "outcome",
    "tokens_in": "tokens in",
    "tokens_cached": "of them cached",
    "tokens_out": "tokens out",
    "seconds": "seconds",
    "cost": "cost",
    "session_id": "session",
}
_NONE = "no language model was called"


class By(StrEnum):
    """What is summed up, or every call for itself."""

    SESSION = "session"
    DAY = "day"
    CALL = "call"


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command("usage")(usage)


def usage(
    context: typer.Context,
    config: Config,
    by: Annotated[By, typer.Option("--by", help="Sums by session or by day (UTC), or single calls.")] = By.DAY,
    since: Annotated[
        datetime | None,
        typer.Option("--since", formats=["%Y-%m-%d", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M:%S%z"], help="From then on, in UTC."),
    ] = None,
    limit: Limit = 100,
    as_json: AsJson = False,
) -> None:
    """Show what calls of language models took: tokens, time, and cost where the price is configured."""
    asked: dict[str, Any] = {"limit": limit}
    if since is not None:
        asked["since"] = (since if since.tzinfo else since.replace(tzinfo=UTC)).isoformat()
    service = service_of(context, config)
    if by is By.CALL:
        rows, columns = service.get("/v1/usage/calls", **asked), _CALLS
    else:
        rows, columns = service.get("/v1/usage", by=str(by), **asked), _SUMS | {"name": str(by)}
    shown = rows if as_json else [_shown(row) for row in rows]
    paper.show_rows(shown, columns, as_json=as_json, empty=_NONE)
    paper.hint_of_more(rows, limit, as_json=as_json)


def _shown(row: Mapping[str, Any]) -> dict[str, Any]:
    costs = row["costs"] if "costs" in row else {} if row["cost"] is None else {row["currency"]: row["cost"]}
    unpriced = row["unpriced"] if "unpriced" in row else int(row["cost"] is None)
    return {**row, "seconds": round(row["duration_ms"] / 1000, 1), "cost": _cost(costs, unpriced, row.get("calls", 1))}


def _cost(costs: Mapping[str, float], unpriced: int, calls: int) -> str:
    """Write what is known of a cost, and that the rest is not: an unknown cost is not no cost."""
    known = " + ".join(f"{cost:.4f} {currency}" for currency, cost in sorted(costs.items()))
    if not unpriced:
        return known
    return f"{known}, unknown for {unpriced} of {calls}" if known else "unknown"
