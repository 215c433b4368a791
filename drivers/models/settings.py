"""Which language models may be asked, in what order, and how long for."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, IPvAnyAddress, SecretStr, StringConstraints, model_validator

from appliance.foundation.hosts import is_loopback, url_faults
from drivers.models.tokens import Output

ModelName = Annotated[str, StringConstraints(pattern="^[a-z0-9][a-z0-9_-]{0,62}$")]
MOST_MODELS = 8
"""Each that is away may cost a call its patience before the next is tried."""

FEWEST_CONTEXT_TOKENS = 512
"""No window is smaller, whatever a server says: the rules alone take more than half of it."""

_Price = Annotated[float, Field(ge=0, le=1_000_000)]


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)  # a key may be in it


class ModelPrice(_Frozen):
    """What a provider charges, per million tokens."""

    tokens_in_per_million: _Price = Field(description="tokens it reads")
    tokens_out_per_million: _Price = Field(description="tokens it writes")
    tokens_cached_per_million: _Price | None = Field(default=None, description="tokens it had read before; absent: as others")
    currency: str = Field(pattern="^[A-Z]{3}$", description="three letters: EUR, CNY, USD")

    def cost(self, tokens_in: int, tokens_out: int, tokens_cached: int) -> float:
        """Return what a call costs; ``tokens_cached`` are among ``tokens_in``."""
        per_cached = self.tokens_in_per_million if self.tokens_cached_per_million is None else self.tokens_cached_per_million
        fresh = max(0, tokens_in - tokens_cached)
        return (fresh * self.tokens_in_per_million + tokens_cached * per_cached + tokens_out * self.tokens_out_per_million) / 1e6


class ModelSettings(_Frozen):
    """One model at one address. With no model the appliance works with its phrases and playbooks alone."""

    name: ModelName = Field(description="what it is called in records: a-z, 0-9, - and _")
    url: str = Field(description="address up to /v1, as https://HOST[:PORT]/v1; plain http only for this machine")
    model: str = Field(default="", max_length=200, description="the model's name there; some servers have only one and need none")
    context_tokens: int = Field(
        default=4096, ge=FEWEST_CONTEXT_TOKENS, le=4_000_000, description="tokens of request and reply together"
    )
    output: Output = Field(
        default="schema",
        description="what makes it answer in a form: schema (JSON schema), tools (a function), text (asked to)",
    )
    keys: tuple[SecretStr, ...] = Field(
        default=(), max_length=16, description="keys, better as ${NAME}; the next is used when one is refused or used up"
    )
    key_files: tuple[Path, ...] = Field(default=(), max_length=16, description="files (mode 0600) that hold one key each")
    ca_file: Path | None = Field(default=None, description="PEM file of the site's own certificate authority")
    allow_plain: bool = Field(default=False, description="plain http may leave this machine, for everybody on the way to read")
    allow_addresses: tuple[IPvAnyAddress, ...] = Field(
        default=(), description="link-local addresses it may lead to all the same; no other is ever asked"
    )
    connect_s: float = Field(default=5.0, gt=0, le=60, description="longest wait for a connection")
    timeout_s: float = Field(
        default=60.0, gt=0, le=600, description="longest one try may take; a small machine reads 4,000 tokens in 40 s"
    )
    stale_s: float = Field(default=20.0, gt=0, le=300, description="longest silence once it has begun to answer")
    most_reply_tokens: int = Field(default=1024, ge=16, le=65_536, description="longest reply that is ever asked for")
    price: ModelPrice | None = Field(default=None, description="what it costs; absent: not known, and shown as that")

    @model_validator(mode="after")
    def _is_safe(self) -> Self:
        allowed = [str(each) for each in self.allow_addresses]
        faults = url_faults(self.url, path="/v1", allow_plain=self.allow_plain, allowed=allowed)
        if not all(is_usable_key(key.get_secret_value()) for key in self.keys):
            faults.append("keys: a key is printable ASCII without spaces")
        if self.most_reply_tokens >= self.context_tokens:
            faults.append("most_reply_tokens leaves no room for a request in context_tokens; make it smaller")
        if faults:
            raise ValueError("; ".join(faults))
        return self

    @property
    def host(self) -> str:
        """The host of the URL."""
        return urlsplit(self.url).hostname or ""

    @property
    def must_be_loopback(self) -> bool:
        """Whether the host was taken for this machine by its name, and has to be."""
        return self.url.startswith("http://") and not self.allow_plain and is_loopback(self.host)


class ModelPatience(_Frozen):
    """How long a model is waited for."""

    within_s: float = Field(
        default=90.0,
        gt=0,
        le=900,
        description="longest wait for an answer with every retry and model; then it goes without",
    )


def is_usable_key(key: str) -> bool:
    """Return whether a key can be sent in a header."""
    return bool(key) and key.isascii() and key.isprintable() and " " not in key


def has_distinct_names(models: tuple[ModelSettings, ...]) -> tuple[ModelSettings, ...]:
    """Return the models.

    Raises:
        ValueError: two have the same name, by which they are told apart in records.
    """
    names = [each.name for each in models]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"{twice[0]} names two models; give each a name of its own")
    return models


ModelList = Annotated[tuple[ModelSettings, ...], Field(max_length=MOST_MODELS), AfterValidator(has_distinct_names)]
"""Models in the order they are tried."""
