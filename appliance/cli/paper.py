"""How answers look: tables for people, JSON for programs. Answers go to standard output, faults to standard error."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

Shown = Mapping[str, Any]

_WIDE = 200  # columns when nobody looks: a pipe must not cut values


def console(*, to_error: bool = False) -> Console:
    """Return a console on the current standard output (or error)."""
    stream = sys.stderr if to_error else sys.stdout
    return Console(file=stream, width=None if stream.isatty() else _WIDE, highlight=False, soft_wrap=True)


def show_json(answer: Any) -> None:
    """Print one JSON document."""
    print(json.dumps(answer, ensure_ascii=False, indent=2, default=str))


def show_line(answer: Any) -> None:
    """Print one JSON document on one line, among others."""
    print(json.dumps(answer, ensure_ascii=False, default=str))


def show_rows(rows: Sequence[Shown], columns: Mapping[str, str], *, as_json: bool, empty: str) -> None:
    """Print rows as a table. ``columns`` maps a key to its heading; ``empty`` is said when there are none."""
    if as_json:
        show_json(list(rows))
    elif not rows:
        console().print(empty)
    else:
        table = Table(box=None, header_style="bold", pad_edge=False)
        for heading in columns.values():
            table.add_column(heading, overflow="fold")
        for row in rows:
            table.add_row(*(escape(spell(row.get(key))) for key in columns))
        console().print(table)


def hint_of_more(rows: Sequence[Shown], limit: int, *, as_json: bool) -> None:
    """Say behind a table that is as long as it may be that there may be more. To standard error: it is no row."""
    if not as_json and len(rows) >= limit:
        console(to_error=True).print(f"only the newest {limit} are shown; --limit shows more")


def show_facts(facts: Shown, *, as_json: bool) -> None:
    """Print one mapping, a line a fact; nested ones are indented by their key."""
    if as_json:
        show_json(facts)
        return
    for name, value in _flat(facts, ""):
        console().print(f"[bold]{escape(name)}[/bold]: {escape(spell(value))}")


def say(text: str) -> None:
    """Print one plain line."""
    console().print(escape(text))


def spell(value: Any) -> str:
    """Write a value as people read it."""
    if value is None or value == "":
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, list | dict):
        return json.dumps(value, ensure_ascii=False) if value else "-"
    return str(value)


def _flat(facts: Shown, prefix: str) -> list[tuple[str, Any]]:
    lines: list[tuple[str, Any]] = []
    for name, value in facts.items():
        if isinstance(value, Mapping) and value:
            lines += _flat(value, f"{prefix}{name}.")
        else:
            lines.append((f"{prefix}{name}", value))
    return lines
