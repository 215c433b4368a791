"""Every way a call of a model fails, and what is done then: one table, read from its top (A2).

retryable   the same may be tried again after a wait
compress    the request is too long: it has to become shorter, and only when no length is taken another model is asked
rotate      another key of the same provider may do, at once
fallback    another model may do
slow        it cost much time: another model, if one is there, is asked before the same again
rests       the provider is not asked again for a while; it does not, when the fault lies in what was asked
person      it stays so until a person mends it
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from appliance.contracts.model import Usage
from drivers.models.refusal import own_words


class Trouble(StrEnum):
    """What a call ends with that has no status."""

    UNKNOWN_HOST = "unknown_host"
    NOT_REACHED = "not_reached"
    NOT_TRUSTED = "not_trusted"
    UNUSABLE = "unusable"  # our settings: a key, a certificate file, an address nobody should ask
    TIMEOUT = "timeout"
    CUT = "cut"
    STALLED = "stalled"
    JUNK = "junk"
    NOTHING = "nothing"
    TOO_MUCH = "too_much"
    WRONG_TOOL = "wrong_tool"
    FILTERED = "filtered"


@dataclass(frozen=True, slots=True)
class Failure:
    """What kind of failure it is; ``words`` say it to people, with what they may do."""

    reason: str
    words: str
    retryable: bool = False
    compress: bool = False
    rotate: bool = False
    fallback: bool = True
    slow: bool = False
    rests: bool = True
    person: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    """``on``: statuses or troubles it is about. ``says``: what the body must say; None: whatever it says."""

    on: frozenset[int | Trouble]
    failure: Failure
    says: re.Pattern[str] | None = None


def _row(on: int | Trouble | range | tuple[int, ...], failure: Failure, says: str = "") -> Row:
    kinds = frozenset(on) if isinstance(on, range | tuple) else frozenset({on})
    return Row(kinds, failure, re.compile(says) if says else None)


_OVERFLOW = (
    r"exceed_context_size|exceeds the available context size"  # llama.cpp
    r"|context_length_exceeded|maximum context length|maximum model length"  # OpenAI, DeepSeek, Mistral, vLLM
    r"|context (?:size|window|length).{0,40}(?:exceed|overflow|full|too small)"
    r"|exceed\w* (?:[\w']+ ){0,3}context(?: (?:size|window|length|limit)|[.,;\"]|$)"  # not a deadline of Go's, also a context
    r"|prompt (?:is |contains )?too (?:long|many)|input (?:is )?too (?:long|large)|too many (?:input )?tokens"
    r"|exceeds the (?:maximum|max) number of (?:input )?tokens|reduce the length of|context the overflows"
)
"""What servers say when a request does not fit their model's window. Ollama says nothing: it drops the beginning, so what is
certainly too long is not sent at all."""

_TOO_LARGE_AT_ONCE = r"request too large"  # more tokens in one request than a minute allows: waiting does not help
_USED_UP = (
    r"insufficient_quota|exceeded your current quota|quota (?:is |has been )?(?:exceeded|exhausted)|credit balance|billing"
    r"|payment|insufficient (?:\w+ )?(?:balance|credits?|funds)|out of credits?|per day|daily (?:limit|quota)|arrear"
)
_MODERATED = (
    r"moderation|content[_ ](?:filter|policy)|flagged|data_inspection_failed|responsible ?ai|inappropriate content"
    r"|sensitive (?:content|information|words)"
)
_NO_SUCH_MODEL = (
    r"model.{0,80}(?:not found|does not exist|not exist|unknown|no longer|not loaded)|(?:invalid|unknown|no such) model"
)

OTHER_WORDS = r"max_completion_tokens"
"""How newer models of OpenAI want the length of a reply named; and they take no temperature."""

CONTEXT_OVERFLOW = Failure("context_overflow", "the request does not fit its window", compress=True, fallback=False, rests=False)
NO_LENGTH_FITS = Failure("too_small", "it takes no request, however short; see `context_tokens` and its server", person=True)
"""No answer but what the caller found out: every length was refused."""
_BAD_KEY = Failure("bad_key", "it does not take the key", rotate=True, person=True)
_NO_MONEY = Failure("used_up", "the account has no money or quota left", rotate=True, person=True)
_WRONG_ADDRESS = Failure("wrong_address", "nothing answers chats there; correct `url` (most end in /v1) or `model`", person=True)
_LATER = Failure("server_error", "its server failed", retryable=True)

TABLE: tuple[Row, ...] = (
    # What was asked is too long, in whichever way they say so.
    _row((400, 413, 422, 429, 500), CONTEXT_OVERFLOW, _OVERFLOW),
    _row((413, 429), CONTEXT_OVERFLOW, _TOO_LARGE_AT_ONCE),
    _row(413, CONTEXT_OVERFLOW),
    # What was asked is not wanted.
    _row((400, 403, 422, 451), Failure("filtered", "it does not want to talk about that", rests=False), _MODERATED),
    _row(Trouble.FILTERED, Failure("filtered", "it does not want to talk about that", rests=False)),
    # The model, or the address.
    _row((400, 404, 422), Failure("no_such_model", "it has no model of that name; correct `model`", person=True), _NO_SUCH_MODEL),
    _row((404, 405, 410), _WRONG_ADDRESS),
    _row(range(300, 400), Failure("redirected", "it sends on to another address, not followed; correct `url`", person=True)),
    _row(400, Failure("other_words", "it calls a parameter otherwise, which is learnt", retryable=True), OTHER_WORDS),
    # Keys and money.
    _row(400, _BAD_KEY, r"api[ _-]?key"),
    _row(401, _BAD_KEY),
    _row(402, _NO_MONEY),
    _row((400, 403, 429), _NO_MONEY, _USED_UP),
    _row(403, Failure("forbidden", "the key may not ask this model", rotate=True, person=True)),
    _row(429, Failure("rate_limited", "it is asked too often", retryable=True, rotate=True)),
    # Later, perhaps.
    _row((408, 425), Failure("timeout", "it was too slow", retryable=True)),
    _row(503, Failure("loading", "it is loading its model", retryable=True), r"loading"),
    _row((503, 529), Failure("overloaded", "it has too much to do", retryable=True)),
    _row((502, 504), Failure("gateway", "what stands before it does not reach it", retryable=True)),
    _row((501, 505), Failure("bad_request", "its server cannot do what is asked; try another `output`")),
    _row(range(500, 600), _LATER),
    # Everything else that was refused would be refused again.
    _row(range(400, 500), Failure("bad_request", "it refuses the form of the request; try another `output`")),
    # Without a status.
    _row(Trouble.UNKNOWN_HOST, Failure("unknown_host", "its name is not known now", retryable=True)),
    _row(Trouble.NOT_REACHED, Failure("not_reached", "nothing answers at its address", retryable=True)),
    _row(Trouble.NOT_TRUSTED, Failure("not_trusted", "no trusted connection comes about; see `url` and `ca_file`", person=True)),
    _row(Trouble.UNUSABLE, Failure("unusable", "its settings cannot be used", person=True)),
    _row(Trouble.TIMEOUT, Failure("timeout", "it was too slow", retryable=True, slow=True)),
    _row(Trouble.CUT, Failure("cut", "the connection broke", retryable=True)),
    _row(Trouble.STALLED, Failure("stalled", "it fell silent in the middle", retryable=True, slow=True)),
    _row(Trouble.JUNK, Failure("junk", "what answers there is no model", retryable=True)),
    _row(Trouble.NOTHING, Failure("nothing", "it answered nothing", retryable=True)),
    _row(Trouble.TOO_MUCH, Failure("too_much", "its answer does not end", retryable=True)),
    _row(Trouble.WRONG_TOOL, Failure("wrong_tool", "it called what it was not offered", retryable=True)),
)
"""The first row that fits holds."""

_UNHEARD_OF = Failure("junk", "what answers there is no model", retryable=True)  # 1xx, or a status below 100


def classify(on: int | Trouble, body: str = "") -> Failure:
    """Return what a status, or a trouble without one, means. ``body`` is untrusted; it is searched, and never shown."""
    said = own_words(body)
    return next((row.failure for row in TABLE if on in row.on and (row.says is None or row.says.search(said))), _UNHEARD_OF)


class CallFailed(Exception):
    """One try failed. ``text`` is what had come of a reply, ``window_tokens`` what the server said its window is (0: nothing).

    ``again_after_s`` is when it wants to be asked again; 0: it did not say.
    """

    def __init__(
        self,
        failure: Failure,
        usage: Usage,
        *,
        text: str = "",
        detail: str = "",
        again_after_s: float = 0.0,
        window_tokens: int = 0,
    ) -> None:
        super().__init__(failure.reason)
        self.failure = failure
        self.usage = usage
        self.text = text
        self.detail = detail
        self.again_after_s = again_after_s
        self.window_tokens = window_tokens

    @property
    def words(self) -> str:
        """The failure for people; ``detail`` is what this machine knows of it, never what the other side wrote."""
        return f"{self.failure.words} ({self.detail})" if self.detail else self.failure.words
