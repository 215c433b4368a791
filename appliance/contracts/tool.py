"""The four contracts of a tool (requirements T1), its call and its result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, ClassVar, Protocol

from pydantic import BaseModel

from appliance.contracts.operation import OperationLane
from appliance.contracts.principal import NOBODY, Principal
from appliance.contracts.principal import AccessLevel as AccessLevel  # a word of the contracts, too
from appliance.contracts.store import Transaction


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

    @property
    def input_schema(self) -> dict[str, Any]:
        """The arguments as JSON Schema."""
        return self.arguments.model_json_schema()

    @property
    def output_schema(self) -> dict[str, Any]:
        """The result as JSON Schema."""
        return self.result.model_json_schema(mode="serialization")


@dataclass(frozen=True, slots=True)
class SlaContract:
    """Bound of one call in ms and how often it may be tried again: calls without effect, and those of a tool that can restore
    what was before (T5)."""

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

    ``resource``: calls of tools that name the same one run one after the other (T8); empty: none is contended for.
    ``fallback_tool``: tried with the same arguments when this one fails for good (T5); its access level may not be higher.
    ``extends_plan``: a ledger tool that appends steps to its own turn.
    ``keeps_something``: a call without effect on the world that stores something, once an action, outside the commit that ends
    it; it is not made for a measurement (T2).
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
    resource: str = ""
    fallback_tool: str = ""
    extends_plan: bool = False
    keeps_something: bool = False

    @property
    def changes_something(self) -> bool:
        """Whether a call does more than read and speak: what a model wants of it always needs a person's yes."""
        return self.has_effect or self.is_held or self.security.access_level >= AccessLevel.OPERATOR


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
    principal: Principal = NOBODY

    @property
    def idempotency_key(self) -> str:
        """Key by which a repeated call is known to be the same."""
        return self.action_id


@dataclass(frozen=True, slots=True)
class ToolResult:
    """Structured outcome. On failure ``error_code`` and ``error`` say why; ``reply`` and ``words`` (plain JSON) name the sentence
    of the phrase files that says so in the language of the turn, if there is one."""

    ok: bool
    value: Mapping[str, Any]
    disposition: EffectDisposition
    error_code: str = ""
    error: str = ""
    reply: str = ""
    words: Mapping[str, Any] = field(default_factory=dict)


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


class LevelledTool(Protocol):
    """A tool of which some calls need a higher level than its contract says: the write of a critical tag."""

    def level_of(self, arguments: Any) -> AccessLevel:
        """Return the level this call needs."""
        ...


class DefiningTool(Protocol):
    """A tool whose arguments name something that the configuration defines, and that is no tag, asset or alarm: a webhook, a
    procedure. A person's yes is to that as it was defined then."""

    def definition_of(self, arguments: Mapping[str, Any], language: str) -> Any:
        """Return how what a call names is defined now, as JSON; None when it names nothing of that kind. ``arguments`` are as
        stored, so that some may be filled in only when the call is made. Secrets are in it as digests at most. Never raises."""
        ...


class ResourcefulTool(Tool, Protocol):
    """A tool whose calls contend for different resources, by their arguments: reads over different links need not wait for each
    other (T8)."""

    def resources_of(self, arguments: Any) -> Sequence[str]:
        """Return all that this call needs, in place of the contract's ``resource``; ``field:plc_1`` is part of ``field``."""
        ...


class RestorableTool(Tool, Protocol):
    """A tool with an effect that can be tried again after it failed, because what was before can be restored (T5)."""

    async def snapshot(self, call: ToolCall, arguments: Any) -> Any:
        """Return what is there before the call."""
        ...

    async def restore(self, call: ToolCall, arguments: Any, snapshot: Any) -> None:
        """Bring that back after a call that failed.

        Raises:
            Unavailable: it cannot be restored now; the call is not tried again.
            Uncertain: nobody knows whether it was restored.
        """
        ...


class ToolCaller(Protocol):
    """Calls other tools for a tool that declares them as dependencies (T4)."""

    async def call(self, tool: str, arguments: Mapping[str, Any]) -> ToolResult:
        """Return the result of a tool without effect, within the call under way.

        Raises:
            RecursiveCallPrevented: the tool is in the call path already; the message spells the path.
            Refused: it is no dependency of the calling tool, or it has an effect.
        """
        ...


class ComposedTool(Tool, Protocol):
    """A tool that calls others; it is given its caller when it is loaded."""

    def uses(self, caller: ToolCaller) -> None:
        """Take the caller to use in ``run``; the last one given counts. Do nothing else."""
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
