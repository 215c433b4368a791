"""The four contracts of a tool (requirements T1), its call and its result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import Any, ClassVar, Protocol

from pydantic import BaseModel

from appliance.contracts.operation import OperationLane
from appliance.contracts.store import Transaction


class AccessLevel(IntEnum):
    """Who may call a tool; each level includes those below it."""

    PUBLIC = 0
    INTERNAL = 1
    OPERATOR = 2
    CRITICAL = 3


class EffectDisposition(StrEnum):
    """What a call did to the world (T7). UNKNOWN is never re-run blindly."""

    NONE = "none"
    APPLIED = "applied"
    UNKNOWN = "unknown"


class Isolation(StrEnum):
    """Where a tool runs: in the core's event loop, or in a process of its own that can be killed (S6)."""

    CORE = "core"
    PROCESS = "process"


@dataclass(frozen=True, slots=True)
class SchemaContract:
    """Input and output models. The three lists are about ``arguments`` and are checked against its JSON Schema at load."""

    arguments: type[BaseModel]
    result: type[BaseModel]
    required_fields: tuple[str, ...] = ()
    nullable_fields: tuple[str, ...] = ()
    enum_constraints: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SlaContract:
    """Bound of one call in ms and how often it may be tried again (only ever for calls without effect)."""

    max_execution_time_ms: int
    retries: int = 0


@dataclass(frozen=True, slots=True)
class SecurityContract:
    """Who may call, and which data it touches (``field``, ``memory``, ``ledger``, ``speech``)."""

    access_level: AccessLevel
    data_scope: str


@dataclass(frozen=True, slots=True)
class TelemetryContract:
    """Names of the log events the runner emits round a call, and arguments that must not be logged."""

    on_start: str
    on_success: str
    on_failure: str
    redact: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ToolContract:
    """All four, plus dependencies and whether a call changes the world outside the ledger.

    ``is_held``: refused while the appliance is on hold (R10), as everything with an effect is. ``isolation`` is where it runs.
    ``overwrites``: the argument that names what a call replaces. Once another call about the same may have come after or beside
    it, reading back tells nothing of this one.
    """

    name: str
    description: str
    schema: SchemaContract
    sla: SlaContract
    security: SecurityContract
    telemetry: TelemetryContract
    has_effect: bool
    dependencies: tuple[str, ...] = ()
    is_held: bool = False
    isolation: Isolation = Isolation.CORE
    overwrites: str = ""


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call with resolved arguments. ``idempotency_key`` is the action's id: stable across restarts."""

    tool: str
    arguments: Mapping[str, Any]
    turn_id: str
    session_id: str
    action_id: str
    lane: str
    language: str
    context: Mapping[str, Any]

    @property
    def idempotency_key(self) -> str:
        """Key by which a repeated call is known to be the same."""
        return self.action_id


@dataclass(frozen=True, slots=True)
class ToolResult:
    """Structured outcome. On failure ``error_code`` and ``error`` say why, in words fit to be spoken."""

    ok: bool
    value: Mapping[str, Any]
    disposition: EffectDisposition
    error_code: str = ""
    error: str = ""


class Tool(Protocol):
    """A tool that reads or changes the world outside the ledger."""

    contract: ClassVar[ToolContract]

    async def run(self, call: ToolCall, arguments: Any) -> Mapping[str, Any]:
        """Do it once and return fields of the result model. Raises the contracts' errors."""
        ...


class GuardedTool(Protocol):
    """A tool that is not READY at all times (S8)."""

    def not_ready(self) -> str:
        """Return why a call would be in vain now, in words fit to be spoken; empty when it is READY. Must be quick."""
        ...


class VerifiableTool(Tool, Protocol):
    """A tool with an effect that can find out later whether it happened."""

    async def verify(self, call: ToolCall, arguments: Any) -> tuple[EffectDisposition, Mapping[str, Any]]:
        """Return APPLIED or NONE with evidence, or UNKNOWN when the world does not tell.

        Raises:
            Unavailable: the evidence cannot be had now; ask again later.
        """
        ...


@dataclass(frozen=True, slots=True)
class Record:
    """An entry for the operation log, written in the transaction that records the effect as applied."""

    lane: OperationLane
    kind: str
    entity: str
    payload: Mapping[str, Any]


class RecordedTool(Tool, Protocol):
    """A tool whose applied effect is told to the coordinator as a record of its own."""

    def record_of(self, call: ToolCall, value: Mapping[str, Any]) -> Record:
        """Return the record of an applied call; ``value`` are the result's fields."""
        ...


class LedgerTool(Protocol):
    """A tool whose whole effect is rows in the ledger: done in the transaction that marks its action done,
    so it happens exactly once whatever dies."""

    contract: ClassVar[ToolContract]

    def apply(self, tx: Transaction, call: ToolCall, arguments: Any) -> Mapping[str, Any]:
        """Write the rows and return fields of the result model. Must not block on anything but ``tx``."""
        ...
