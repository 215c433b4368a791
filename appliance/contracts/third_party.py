"""What a package brings to add a tool of its own, and what its tool is given.

A package declares each tool as an entry point, by the tool's name::

    [project.entry-points."floorhand.tools"]
    count_parts = "acme_tools.count_parts:CountParts"

The entry point is a class with its four contracts in ``contract`` and an async ``run``, as the tools that ship are written. It is
called with one :class:`ToolPorts`; a class whose contract says ``Isolation.PROCESS`` is called with nothing, each time anew, in a
process that can be killed. Importing it must do nothing else: it is imported twice, first in a process that is thrown away. The
models of arguments and result refuse what they do not know (``extra="forbid"``). ``docs/tools.md`` has a complete one.

A tool in the core is trusted code. What it is handed cannot write, and what it raises or returns costs its own step alone; but it
shares the process, and who means to can reach everything in it. What must not be trusted has to say ``Isolation.PROCESS``.

What computes for long or calls what blocks has to say ``Isolation.PROCESS``: a tool in the core shares its one event loop with
the alarms. A tool has ``run``, never ``apply``: the ledger is written by the tools that ship alone. It passes the same checks,
approvals and limits as they do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from appliance.contracts.clock import Clock
from appliance.contracts.plant import Plant
from appliance.contracts.ports import Wording
from appliance.contracts.reading import Reading

ENTRY_POINTS = "floorhand.tools"


class FieldReader(Protocol):
    """The reading half of the field bus. Machines are written by ``write_tag`` alone, behind its limits and interlocks."""

    async def read(self, keys: Sequence[str]) -> dict[str, Reading]:
        """Read tags now. Raises Refused for a key that is not declared; see ``FieldBus.read``."""
        ...

    async def read_event_log(self, newest: int) -> list[Mapping[str, Any]]:
        """Return the newest entries of the PLC's log; see ``FieldBus.read_event_log``."""
        ...


@dataclass(frozen=True, slots=True)
class ToolPorts:
    """All that a tool of another package is handed. ``wording`` says numbers and replies, ``clock`` is the time it goes by."""

    field: FieldReader
    plant: Plant
    wording: Wording
    clock: Clock
