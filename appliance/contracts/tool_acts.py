"""What the local API may ask about tools: their contracts, and how long they take."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any, Protocol


class ToolActs(Protocol):
    """What the local API may ask about tools. Every answer is JSON-serialisable."""

    def tools(self) -> Sequence[Mapping[str, Any]]:
        """Return each tool with its contracts at a glance: ``{name, description, level, bound_ms, retries, scope, effect, kind,
        source, arguments, why}``; ``why`` says of one that cannot be used now, or was left out, why that is."""
        ...

    def tool(self, name: str) -> Mapping[str, Any]:
        """Return everything a tool declares, with ``input_schema`` and ``output_schema``.

        Raises:
            ToolValidationError: there is none of this name.
        """
        ...

    def stress(self, name: str, arguments: Mapping[str, Any], runs: int) -> AsyncGenerator[Mapping[str, Any]]:
        """Call a tool again and again; yield each call as ``{run, took_ms, why}`` (empty when it went well), and at the end
        ``{name, runs, failed, p50_ms, p95_ms, max_ms, proposed_ms, declared_ms, is_too_low, note}``. The first step raises.

        Raises:
            ToolValidationError: there is none of this name, or the arguments do not fit.
            Refused: it changes or keeps something, is done in the ledger, is not ready, or another measurement is under way.
        """
        ...
