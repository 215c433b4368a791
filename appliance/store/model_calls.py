"""What calls of language models took: one row a call, whatever came of it; sums by session and by day (A4)."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from appliance.contracts.clock import IdSource
from appliance.contracts.model import ModelCall
from appliance.contracts.store import Ledger, Transaction
from appliance.store.columns import utc_text

MOST_CALLS = 50_000
"""Kept; the oldest make room, in the transaction that adds one. A call in two minutes, day and night, is ten weeks."""

_INSERT = """INSERT INTO model_call (id, session_id, turn_id, provider, model, purpose, outcome, tokens_in, tokens_out,
    tokens_cached, is_estimated, duration_ms, cost, currency, began_utc) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"""
_MOST_ROWS = 10_000  # sums of one name in several currencies are several rows
_SUMS = """SELECT {group} AS name, currency, count(*) AS calls, sum(outcome <> 'ok') AS not_ok, sum(tokens_in) AS tokens_in,
    sum(tokens_out) AS tokens_out, sum(tokens_cached) AS tokens_cached, sum(is_estimated) AS estimated,
    sum(duration_ms) AS duration_ms, sum(cost) AS cost, sum(cost IS NULL) AS unpriced, max(seq) AS newest
    FROM model_call WHERE began_utc >= ? GROUP BY name, currency ORDER BY newest DESC LIMIT ?"""
_NEWEST = "SELECT * FROM model_call WHERE began_utc >= ? ORDER BY seq DESC LIMIT ?"
_GROUPS = {"session": "session_id", "day": "substr(began_utc, 1, 10)"}


@dataclass(slots=True)
class Taken:
    """Sum of the calls of one session, or of one day (UTC). ``tokens_cached`` are among ``tokens_in``.

    ``costs``: currency -> sum of what is known; the cost of ``unpriced`` calls is not known. ``not_ok`` failed or broke off,
    ``estimated`` were not counted by the server.
    """

    name: str
    calls: int = 0
    not_ok: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    tokens_cached: int = 0
    estimated: int = 0
    duration_ms: float = 0.0
    costs: dict[str, float] = field(default_factory=dict)
    unpriced: int = 0


def insert(tx: Transaction, ids: IdSource, call: ModelCall) -> None:
    """Add one call, and drop the oldest when there are too many."""
    usage = call.usage
    tx.execute(
        _INSERT,
        (
            *(ids.mint("mc"), call.session_id, call.turn_id, call.provider, call.model, call.purpose, call.outcome),
            *(usage.tokens_in, usage.tokens_out, usage.tokens_cached, usage.is_estimated, usage.duration_ms),
            *(usage.cost, usage.currency, utc_text(call.began_utc)),
        ),
    )
    tx.execute("DELETE FROM model_call WHERE seq <= (SELECT max(seq) FROM model_call) - ?", (MOST_CALLS,))


async def by_session(ledger: Ledger, *, since: datetime | None = None, limit: int = 100) -> list[Taken]:
    """Return the sums of the sessions that called last, newest first."""
    return await _sums(ledger, "session", since, limit)


async def by_day(ledger: Ledger, *, since: datetime | None = None, limit: int = 100) -> list[Taken]:
    """Return the sums of the newest days, newest first."""
    return await _sums(ledger, "day", since, limit)


async def newest(ledger: Ledger, *, since: datetime | None = None, limit: int = 100) -> list[dict[str, Any]]:
    """Return single calls, newest first, as JSON can carry them."""
    rows = await ledger.fetch(_NEWEST, (_from(since), limit))
    return [{name: row[name] for name in row.keys()} | {"is_estimated": bool(row["is_estimated"])} for row in rows]  # noqa: SIM118 - a Row iterates over its values


async def _sums(ledger: Ledger, group: str, since: datetime | None, limit: int) -> list[Taken]:
    taken: dict[str, Taken] = {}
    for row in await ledger.fetch(_SUMS.format(group=_GROUPS[group]), (_from(since), _MOST_ROWS)):
        summed = taken.setdefault(row["name"], Taken(row["name"]))
        for name in ("calls", "not_ok", "tokens_in", "tokens_out", "tokens_cached", "estimated", "duration_ms", "unpriced"):
            setattr(summed, name, getattr(summed, name) + row[name])
        if row["cost"] is not None:
            summed.costs[row["currency"]] = row["cost"]
    return list(taken.values())[:limit]


def _from(since: datetime | None) -> str:
    return "" if since is None else utc_text(since)
