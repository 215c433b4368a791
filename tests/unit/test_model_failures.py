"""The table of failures: every row is reached, by what real servers answer, and says one thing alone."""

from __future__ import annotations

import pytest

from drivers.models.failures import TABLE, Failure, Row, Trouble, classify
from tests.support.model_peer import OVERFLOW

pytestmark = pytest.mark.req("A2")

OPENAI_LONG = (
    '{"error":{"message":"This model\'s maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens.",'
    '"type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}'
)
LLAMA_SCHEMA = (
    '{"error":{"code":400,"message":"Unable to generate parser for this template. Automatic parser generation failed: JSON '
    'schema error at #: unrecognized type nosuch","type":"invalid_request_error"}}'
)
QUOTA = (
    '{"error":{"message":"You exceeded your current quota, please check your plan and billing details.",'
    '"code":"insufficient_quota"}}'
)
TOO_MANY = '{"error":{"message":"Rate limit reached for requests","type":"requests","code":"rate_limit_exceeded"}}'
LARGE = '{"error":{"message":"Request too large for model on tokens per minute (TPM): Limit 6000, Requested 9000"}}'

# on, body -> reason, retryable, compress, rotate, fallback
CASES: list[tuple[int | Trouble, str, str, str]] = [
    (400, OVERFLOW, "context_overflow", "compress"),
    (400, OPENAI_LONG, "context_overflow", "compress"),
    (422, '{"detail":"Input is too long for requested model."}', "context_overflow", "compress"),
    (500, "the request exceeds the available context size. try increasing the context size", "context_overflow", "compress"),
    (400, '{"error":"Trying to keep the first 5000 tokens when context the overflows"}', "context_overflow", "compress"),
    (413, "", "context_overflow", "compress"),
    (429, LARGE, "context_overflow", "compress"),
    (400, LLAMA_SCHEMA, "bad_request", "fallback"),
    (400, "", "bad_request", "fallback"),
    (422, '{"detail":[{"msg":"field required"}]}', "bad_request", "fallback"),
    (418, "", "bad_request", "fallback"),
    (400, '{"error":{"message":"API key not valid. Please pass a valid API key."}}', "bad_key", "rotate fallback"),
    (401, '{"error":{"message":"Invalid API Key","type":"authentication_error","code":401}}', "bad_key", "rotate fallback"),
    (400, '{"error":{"message":"Use \'max_completion_tokens\' instead."}}', "other_words", "retryable fallback"),
    (402, "", "used_up", "rotate fallback"),
    (403, "", "forbidden", "rotate fallback"),
    (403, '{"error":{"message":"Insufficient balance"}}', "used_up", "rotate fallback"),
    (403, '{"error":{"message":"Your input was flagged","code":403}}', "filtered", "fallback"),
    (400, '{"error":{"code":"content_filter"}}', "filtered", "fallback"),
    (451, "flagged", "filtered", "fallback"),
    (404, '{"error":{"message":"model \\"qwen9\\" not found, try pulling it first"}}', "no_such_model", "fallback"),
    (400, '{"error":{"message":"invalid model ID"}}', "no_such_model", "fallback"),
    (404, '{"error":{"message":"File Not Found","type":"not_found_error","code":404}}', "wrong_address", "fallback"),
    (405, "", "wrong_address", "fallback"),
    (301, "", "redirected", "fallback"),
    (307, "", "redirected", "fallback"),
    (408, "", "timeout", "retryable fallback"),
    (425, "", "timeout", "retryable fallback"),
    (429, TOO_MANY, "rate_limited", "retryable rotate fallback"),
    (429, "", "rate_limited", "retryable rotate fallback"),
    (429, QUOTA, "used_up", "rotate fallback"),
    (500, "", "server_error", "retryable fallback"),
    (501, "", "bad_request", "fallback"),
    (502, "<html>Bad Gateway</html>", "gateway", "retryable fallback"),
    (503, '{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}', "loading", "retryable fallback"),
    (503, '{"error":{"message":"The server is overloaded"}}', "overloaded", "retryable fallback"),
    (504, "", "gateway", "retryable fallback"),
    (520, "", "server_error", "retryable fallback"),
    (529, '{"type":"overloaded_error"}', "overloaded", "retryable fallback"),
    (Trouble.UNKNOWN_HOST, "", "unknown_host", "retryable fallback"),
    (Trouble.NOT_REACHED, "", "not_reached", "retryable fallback"),
    (Trouble.NOT_TRUSTED, "", "not_trusted", "fallback"),
    (Trouble.UNUSABLE, "", "unusable", "fallback"),
    (Trouble.TIMEOUT, "", "timeout", "retryable fallback"),
    (Trouble.CUT, "", "cut", "retryable fallback"),
    (Trouble.STALLED, "", "stalled", "retryable fallback"),
    (Trouble.JUNK, "", "junk", "retryable fallback"),
    (Trouble.NOTHING, "", "nothing", "retryable fallback"),
    (Trouble.TOO_MUCH, "", "too_much", "retryable fallback"),
    (Trouble.WRONG_TOOL, "", "wrong_tool", "retryable fallback"),
    (Trouble.FILTERED, "", "filtered", "fallback"),
    (99, "", "junk", "retryable fallback"),
]


def flags(failure: Failure) -> str:
    return " ".join(name for name in ("retryable", "compress", "rotate", "fallback") if getattr(failure, name))


def row_of(on: int | Trouble, body: str) -> Row | None:
    return next((row for row in TABLE if on in row.on and (row.says is None or row.says.search(body.lower()))), None)


@pytest.mark.parametrize(("on", "body", "reason", "what"), CASES)
def test_what_a_failure_means(on: int | Trouble, body: str, reason: str, what: str) -> None:
    failure = classify(on, body)
    assert (failure.reason, flags(failure)) == (reason, what)


def test_every_row_is_reached_and_every_trouble_has_one() -> None:
    reached = [row_of(on, body) for on, body, _, _ in CASES]
    assert [row for row in TABLE if row not in reached] == []
    assert {trouble for trouble in Trouble if row_of(trouble, "") is None} == set()
    assert {code for code in range(300, 600) if row_of(code, "") is None} == set()


def test_an_address_that_answers_no_chats_is_told_with_the_likely_mistake() -> None:
    assert "correct `url` (most end in /v1)" in str(classify(404, "404 page not found"))


def test_what_is_too_long_goes_nowhere_else_and_costs_the_provider_nothing() -> None:
    for row in TABLE:
        assert row.failure.compress != row.failure.fallback
        if row.failure.compress:
            assert not row.failure.retryable and not row.failure.rotate and not row.failure.rests


def test_a_body_may_hold_anything() -> None:
    for body in ("\x00" * 9000, "{" * 9000, "context " * 4000, "model " * 4000, "insufficient " * 4000):
        assert classify(400, body).words
