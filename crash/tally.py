"""What a campaign found, by kind of point: counted, printed as a table, and as one JSON object."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console
from rich.table import Table

from crash.books import Findings

_FAULTS = ("lost", "doubled", "broken")
_WIDTH = 160  # of the table where there is no terminal


@dataclass(slots=True)
class Outcome:
    """How often what came of the histories of one kind of point."""

    histories: int = 0
    resumed: int = 0
    unknown_done: int = 0
    unknown_not_done: int = 0
    repeated: int = 0
    lost: int = 0
    doubled: int = 0
    broken: int = 0


@dataclass(slots=True)
class Tally:
    """Counted while the campaign runs. ``faults`` are sentences, each with the kills that led to it."""

    points: int = 0
    lives: int = 0
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    slowest_ready_ms: float = 0.0
    history_rows: int = 0
    history_ready_ms: float = 0.0
    kept: str = ""

    @property
    def ok(self) -> bool:
        """Whether nothing was found."""
        return not self.faults

    def note(self, name: str, kills: Sequence[str], findings: Findings, ready_ms: float | None = None) -> None:
        """Count a history that came to its end, and what was found in it."""
        outcome = self.outcomes.setdefault(name, Outcome())
        outcome.histories += 1
        outcome.resumed += findings.resumed
        outcome.unknown_done += findings.unknown_done
        outcome.unknown_not_done += findings.unknown - findings.unknown_done
        outcome.repeated += findings.repeated
        self.slowest_ready_ms = max(self.slowest_ready_ms, ready_ms or 0.0)
        self.complain(name, kills, findings)

    def complain(self, name: str, kills: Sequence[str], findings: Findings) -> None:
        """Take up what was found wrong."""
        outcome = self.outcomes.setdefault(name, Outcome())
        for kind in _FAULTS:
            found = getattr(findings, kind)
            setattr(outcome, kind, getattr(outcome, kind) + len(found))
            self.faults += [f"{kind}: {each} (killed at {', '.join(kills) or 'no point'}: {name})" for each in found]

    def to_json(self) -> dict[str, Any]:
        """Return the totals."""
        unknown = {"done": self._sum("unknown_done"), "not_done": self._sum("unknown_not_done")}
        return {
            "ok": self.ok,
            "points": self.points,
            "histories": self._sum("histories"),
            "lives": self.lives,
            **{kind: self._sum(kind) for kind in _FAULTS},
            "unknown": sum(unknown.values()),
            "unknown_settled": unknown,
            "repeated_with_mark": self._sum("repeated"),
            "resumed": self._sum("resumed"),
            "slowest_ready_ms": round(self.slowest_ready_ms, 1),
            "history": {"rows": self.history_rows, "ready_ms": round(self.history_ready_ms, 1)},
            **({"kept": self.kept} if self.kept else {}),
        }

    def print(self) -> None:
        """Print points by outcomes, and the faults."""
        console = Console(width=None if Console().is_terminal else _WIDTH)
        table = Table(
            "killed", *(name.replace("_", " ") for name in Outcome.__slots__), title="Kill points", title_justify="left"
        )
        for column in table.columns[1:]:
            column.justify = "right"
        for name, outcome in sorted(self.outcomes.items(), key=lambda pair: _as_listed(pair[0])):
            table.add_row(name, *(str(getattr(outcome, each) or "·") for each in Outcome.__slots__))
        console.print(table)
        for fault in self.faults:
            console.print(fault, markup=False, highlight=False)

    def _sum(self, what: str) -> int:
        return sum(getattr(outcome, what) for outcome in self.outcomes.values())


def _as_listed(name: str) -> tuple[bool, str, bool]:
    """Sort single kills before double ones, and before beside after."""
    when, _, what = name.partition(" ")
    return "," in name, what, when == "after"
