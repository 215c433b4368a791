"""A language model as the appliance sees one: a request that fits its window, a reply that is data, what it cost (A1, A2, A4)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, Protocol

from appliance.contracts.errors import Malformed, Unavailable


class ModelsAway(Unavailable):
    """No model answers now: all failed, or are in their cool-down. Facts: ``reasons`` by provider."""

    code = "models_away"


class ContextOverflow(Malformed):
    """The request does not fit the model's window: make it shorter and ask again. Facts: ``context_tokens``."""

    code = "context_overflow"


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a chat."""

    role: Literal["system", "user", "assistant"]
    content: str


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """``schema`` is the JSON Schema the reply has to follow; None: free text. Whether the reply follows it is for the caller to
    check, whatever the server promised. ``most_tokens`` bounds the reply. ``session_id``, ``turn_id`` and ``purpose`` are for the
    account."""

    messages: tuple[Message, ...]
    most_tokens: int
    schema: Mapping[str, Any] | None = None
    schema_name: str = "answer"
    purpose: str = "plan"
    session_id: str = ""
    turn_id: str = ""


@dataclass(frozen=True, slots=True)
class Usage:
    """What a call took. ``cost`` None: not known. ``is_estimated``: the server gave no numbers."""

    tokens_in: int
    tokens_out: int
    tokens_cached: int = 0
    is_estimated: bool = False
    duration_ms: float = 0.0
    cost: float | None = None
    currency: str = ""


@dataclass(frozen=True, slots=True)
class ModelReply:
    """``text`` is untrusted. ``is_partial``: the reply broke off, and this is what had come of it."""

    text: str
    provider: str
    model: str
    usage: Usage
    is_partial: bool = False
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ModelCall:
    """The account of one call, whatever came of it: ``outcome`` is ``ok``, ``partial`` or the reason of the failure."""

    provider: str
    model: str
    purpose: str
    outcome: str
    usage: Usage
    session_id: str
    turn_id: str
    began_utc: datetime


class LanguageModel(Protocol):
    """One model, or a chain of them tried in order."""

    @property
    def context_tokens(self) -> int:
        """Tokens of request and reply together that the model used next can take."""
        ...

    @property
    def name(self) -> str:
        """``PROVIDER/MODEL`` of the one used next, for records."""
        ...

    def count_tokens(self, text: str) -> int:
        """Return how many tokens a text is for the model used next; never fewer than it turns out to be, as far as that is
        known."""
        ...

    def request_tokens(self, request: ModelRequest) -> int:
        """Return :meth:`count_tokens` of a whole request as it is sent: texts, what the chat's template puts round them, and
        the schema where the model reads it. With ``most_tokens`` it has to fit :attr:`context_tokens`."""
        ...

    def give_up(self, name: str) -> bool:
        """Let the model of this :attr:`name` rest, which took no length of a request, and forget what was learnt of it, which
        may be wrong. Return whether another may be asked now."""
        ...

    async def complete(self, request: ModelRequest) -> ModelReply:
        """Ask once, with every retry, rotation and fallback there is.

        Raises:
            ModelsAway: nobody answers now.
            ContextOverflow: the request is too long for its window.
        """
        ...
