"""What a bench found: figures beside their ratios, and which reaches are met. Written as JSON, printed as a table."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table


@dataclass(frozen=True, slots=True)
class Reach:
    """A bound that a figure should keep: ``value`` at most ``bound``, or at least."""

    value: float
    bound: float
    says: str
    is_least: bool = False

    @property
    def is_met(self) -> bool:
        """Whether the figure keeps the bound."""
        return self.value >= self.bound if self.is_least else self.value <= self.bound

    def to_json(self) -> dict[str, Any]:
        """Return the value and its bound."""
        return {"value": self.value, "at_least" if self.is_least else "at_most": self.bound, "says": self.says}


@dataclass(slots=True)
class Findings:
    """Collected while a bench runs. A measurement that could not be taken is named in ``missing`` with the reason."""

    figures: dict[str, Any] = field(default_factory=dict)
    ratios: dict[str, float] = field(default_factory=dict)
    reaches: dict[str, Reach] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)

    def compare(self, name: str, value: float, reference: float) -> float:
        """Note ``value`` as a multiple of ``reference``, and return it."""
        self.ratios[name] = round(value / reference, 3) if reference else float("inf")
        return self.ratios[name]

    def reach(self, name: str, value: float, at_most: float, says: str) -> None:
        """Note an upper bound, in words ``says``, and whether it is kept."""
        self.reaches[name] = Reach(round(value, 3), at_most, says)

    def reach_least(self, name: str, value: float, at_least: float, says: str) -> None:
        """Note a lower bound, in words ``says``, and whether it is kept."""
        self.reaches[name] = Reach(round(value, 3), at_least, says, is_least=True)

    def to_json(self) -> dict[str, Any]:
        """Return figures at the top level, then ``ratios``, ``reaches`` (name to whether it is met) and what explains them."""
        return {
            **self.figures,
            "ratios": self.ratios,
            "reaches": {name: reach.is_met for name, reach in self.reaches.items()},
            "reach_details": {name: reach.to_json() for name, reach in self.reaches.items()},
            "missing": self.missing,
        }


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write ``content`` for machines to compare; the folder is made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def print_findings(title: str, findings: Findings) -> None:
    """Print figures, ratios and reaches for people."""
    console = Console(soft_wrap=True)
    table = Table(title=title, show_header=False)
    for name, value in _flat(findings.figures):
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        table.add_row(name, f"{value:,.10g}" if is_number else str(value).lower() if isinstance(value, bool) else str(value))
    table.add_section()
    for name, ratio in findings.ratios.items():
        table.add_row(name, f"{ratio:g} x")
    table.add_section()
    for name, reach in findings.reaches.items():
        table.add_row(name, f"{'met' if reach.is_met else 'MISSED'}: {reach.value:g}, {reach.says}")
    for name, why in findings.missing.items():
        table.add_row(name, f"not measured: {why}")
    console.print(table)


def _flat(figures: Mapping[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    rows: list[tuple[str, Any]] = []
    for name, value in figures.items():
        if isinstance(value, Mapping):
            rows += _flat(value, f"{prefix}{name}.")
        else:
            rows.append((prefix + name, value))
    return rows
