"""One model behind real sockets, answering well and in every bad way (A2). No wait here is virtual: all are tenths of seconds."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from appliance.contracts.model import Message, ModelRequest
from drivers.models.chat import MOST_NOTHING_BYTES
from drivers.models.failures import CallFailed
from drivers.models.settings import ModelPrice
from tests.support.model_asking import ASK, PLAN, SCHEMA, ask, chat, failing
from tests.support.model_peer import (
    OVERFLOW,
    ModelPeer,
    Play,
    bomb,
    calls_tool,
    counted,
    event,
    head,
    model_peer,
    piece,
    says,
    status,
)

pytestmark = pytest.mark.req("A2")


@pytest.fixture
def peer() -> Iterator[ModelPeer]:
    with model_peer() as peer:
        yield peer


# ---- what is asked, and a good answer


@pytest.mark.req("A1")
async def test_a_streamed_reply_is_put_together_and_counted(peer: ModelPeer) -> None:
    price = ModelPrice(tokens_in_per_million=10, tokens_out_per_million=100, tokens_cached_per_million=1, currency="EUR")
    reply = await ask(peer, says(PLAN), price=price.model_dump(), keys=["k-1"])
    assert (reply.text, reply.is_partial, reply.provider, reply.model) == (PLAN, False, "peer", "m-1")
    usage = reply.usage
    assert (usage.tokens_in, usage.tokens_out, usage.tokens_cached, usage.is_estimated) == (100, 7, 40, False)
    assert usage.cost == pytest.approx((60 * 10 + 40 * 1 + 7 * 100) / 1e6)
    assert usage.duration_ms > 0
    (asked,) = peer.asked
    assert asked.path == "/v1/chat/completions"
    assert (asked.headers["authorization"], asked.headers["accept-encoding"]) == ("Bearer k-1", "identity")
    assert asked.body["messages"][1] == {"role": "user", "content": "what is the temperature"}
    assert asked.body["response_format"]["json_schema"] == {"name": "answer", "strict": True, "schema": SCHEMA}
    assert (asked.body["max_tokens"], asked.body["stream"], asked.body["stream_options"]) == (32, True, {"include_usage": True})


@pytest.mark.req("A1")
async def test_the_form_is_asked_for_as_configured(peer: ModelPeer) -> None:
    assert (await ask(peer, calls_tool(("answer", PLAN)), output="tools")).text == PLAN
    assert peer.asked[-1].body["tools"] == [{"type": "function", "function": {"name": "answer", "parameters": SCHEMA}}]
    assert peer.asked[-1].body["tool_choice"]["function"]["name"] == "answer"
    assert (await ask(peer, says(PLAN), output="text")).text == PLAN
    said = peer.asked[-1].body["messages"][0]["content"]
    assert said.startswith("You plan.") and json.dumps(SCHEMA, separators=(",", ":")) in said
    assert "response_format" not in peer.asked[-1].body
    free = ModelRequest((Message("user", "hello"),), 8)
    await ask(peer, says("hello"), request=free, output="tools")
    assert not {"tools", "response_format"} & peer.asked[-1].body.keys()


async def test_other_ways_of_a_good_answer(peer: ModelPeer) -> None:
    whole = {
        "choices": [{"message": {"content": PLAN}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 9, "completion_tokens": 3},
    }
    once = await ask(peer, Play((head(200, "application/json"), json.dumps(whole).encode())))
    assert (once.text, once.usage.tokens_in, once.usage.cost, once.usage.is_estimated) == (PLAN, 9, None, False)
    alive = b": keep-alive\n\nevent: ping\nid: 7\nretry: 9\n\n\r\n"
    lively = Play(
        (head(), alive, piece(PLAN[:5]), alive, piece(PLAN[5:]), alive, piece(ended="stop"), event("[DONE]"), b"data: {junk")
    )
    assert (await ask(peer, lively)).text == PLAN
    torn = b"".join(says(PLAN).parts[1:])  # a character of three bytes, and every line, come in pieces
    assert (await ask(peer, Play((head(), *(torn[at : at + 3] for at in range(0, len(torn), 3)))))).text == PLAN
    assert (await ask(peer, Play((head(), piece(PLAN), piece(ended="stop"))))).text == PLAN  # no [DONE], no count
    thinking = Play((head(), piece(reasoning_content="hm " * 40), piece(PLAN), piece(ended="stop"), event("[DONE]")))
    assert (await ask(peer, thinking)).text == PLAN


async def test_what_comes_can_be_stored(peer: ModelPeer) -> None:
    halves = Play((head(), piece('{"t": "\ud83d'), piece('\udd25 \ud83d"}'), piece(ended="stop"), event("[DONE]")))
    assert (await ask(peer, halves)).text == '{"t": "🔥 \ufffd"}'
    asked = ModelRequest((Message("user", "half a \ud83d and a \x00"),), 8)
    assert (await ask(peer, says(PLAN), request=asked)).text == PLAN


async def test_newer_words_are_learnt(peer: ModelPeer) -> None:
    refusal = "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
    peer.plays = [status(400, json.dumps({"error": {"message": refusal}})), says(PLAN)]
    async with chat(peer) as model:
        with pytest.raises(CallFailed) as caught:
            await model.call(ASK).run(0, 5.0)
        assert caught.value.failure.retryable
        assert (await model.call(ASK).run(0, 5.0)).text == PLAN
    first, second = (each.body for each in peer.asked)
    assert (first["max_tokens"], second["max_completion_tokens"]) == (32, 32)
    assert not {"max_tokens", "temperature"} & second.keys()


async def test_without_a_count_it_is_estimated(peer: ModelPeer) -> None:
    for nonsense in (piece(), counted(-1, 3), counted("9", 3), counted(2**60, 3), counted(True, True), counted(None, None)):
        usage = (await ask(peer, says(PLAN, usage=nonsense))).usage
        assert usage.is_estimated and 10 < usage.tokens_in < 100 and 5 < usage.tokens_out < 40
    assert (await ask(peer, says(PLAN, usage=counted(9, 3, cached=900)))).usage.tokens_cached == 9


# ---- statuses and what they say


async def test_a_status_and_its_body_are_classified(peer: ModelPeer) -> None:
    failed = await failing(peer, status(400, OVERFLOW))
    assert (failed.failure.reason, failed.window_tokens) == ("context_overflow", 4096)
    assert (failed.usage.tokens_in, failed.usage.is_estimated) == (0, False)  # nothing was read, nothing is charged
    assert "8031" not in failed.words  # what the other side writes is not shown
    assert (await failing(peer, status(401, "sk-secret is wrong"), keys=["sk-secret"])).words == (
        "it does not take the key (answered 401)"
    )


@pytest.mark.parametrize(
    ("told", "again_s"),
    [
        ({}, 0.0),
        ({"Retry_After": "7"}, 7.0),
        ({"Retry_After": "999999999999"}, 600.0),
        ({"Retry_After": "9" * 400}, 600.0),
        ({"Retry_After": "-5"}, 0.0),
        ({"Retry_After": "soon"}, 0.0),
        ({"Retry_After": "Mon, 02 Mar 2026 08:00:30 GMT", "Date": "Mon, 02 Mar 2026 08:00:00 GMT"}, 30.0),
        ({"Retry_After": "Mon, 02 Mar 2026 07:00:00 GMT", "Date": "Mon, 02 Mar 2026 08:00:00 GMT"}, 0.0),
        ({"Retry_After": "Mon, 02 Mar 2099 08:00:00 GMT", "Date": "Mon, 02 Mar 2026 08:00:00 GMT"}, 600.0),
        ({"Retry_After": "Mon, 02 Mar 2026 08:00:30 GMT"}, 0.0),
        ({"Retry_After": "Mon, 02 Mar 2026 08:00:30 GMT", "Date": "Mon, 02 Mar 2026 08:00:00"}, 0.0),
    ],
)
async def test_retry_after_in_all_its_forms(peer: ModelPeer, told: dict[str, str], again_s: float) -> None:
    failed = await failing(peer, status(429, "", **told))
    assert (failed.failure.reason, failed.again_after_s) == ("rate_limited", again_s)


async def test_a_body_of_a_failure_that_does_not_come_is_not_waited_for(peer: ModelPeer) -> None:
    endless = Play((head(503, "application/json"),), for_ever=b"loading " * 512)
    assert (await failing(peer, endless)).failure.reason == "loading"
    assert (await failing(peer, Play((head(529),), holds=True), limit_s=10)).failure.reason == "overloaded"


async def test_a_redirect_is_not_followed(peer: ModelPeer) -> None:
    with model_peer([says(PLAN)]) as elsewhere:
        for code in (301, 302, 303, 307, 308):
            failed = await failing(peer, status(code, "", Location=f"{elsewhere.url}/chat/completions"), keys=["k-1"])
            assert failed.failure.reason == "redirected"
        assert elsewhere.asked == []


# ---- replies that break off, hang, or are none

GOOD = says(PLAN, usage=counted(50, 9)).parts
WIRE = b"".join(GOOD)
FIRST_TEXT = len(GOOD[0]) + len(GOOD[1]) + len(GOOD[2])


@pytest.mark.parametrize("at", [0, 1, 9, 40, len(GOOD[0]) - 2, len(GOOD[0]), len(GOOD[0]) + 3, len(GOOD[0]) + len(GOOD[1]) + 20])
async def test_a_reply_cut_before_its_first_letter(peer: ModelPeer, at: int) -> None:
    failed = await failing(peer, Play((WIRE[:at],)))
    assert (failed.failure.reason, failed.text) == ("cut", "")


@pytest.mark.parametrize("share", [0.0, 0.2, 0.4, 0.6, 0.8, 0.99])
async def test_half_a_reply_is_kept_wherever_it_is_cut(peer: ModelPeer, share: float) -> None:
    end = WIRE.index(b'"finish_reason": "stop"')
    at = FIRST_TEXT + int((end - FIRST_TEXT) * share)
    failed = await failing(peer, Play((WIRE[:at],)))
    assert failed.failure.reason == "cut"
    assert failed.text and PLAN.startswith(failed.text)
    assert failed.usage.is_estimated and failed.usage.tokens_in > 0  # it was read, and will be charged
    framed = Play((head(Content_Length=str(len(WIRE))).replace(b"Connection: close\r\n", b""), WIRE[len(GOOD[0]) : at]))
    assert (await failing(peer, framed)).text == failed.text
    chunked = head(Transfer_Encoding="chunked").replace(b"Connection: close\r\n", b"")
    body = WIRE[len(GOOD[0]) : at]
    assert (await failing(peer, Play((chunked, f"{len(body):x}\r\n".encode(), body, b"\r\n")))).text == failed.text


async def test_a_reply_cut_after_its_end_is_whole(peer: ModelPeer) -> None:
    assert (await ask(peer, Play((WIRE[: WIRE.index(b"[DONE]") + 2],)))).text == PLAN


async def test_slow_headers_and_silence_end_by_time(peer: ModelPeer) -> None:
    assert (await failing(peer, Play((), holds=True), limit_s=0.2)).failure.reason == "timeout"
    assert (await failing(peer, Play((head()[:30],), holds=True), limit_s=0.2)).failure.reason == "timeout"
    assert (
        await failing(peer, Play((head(), b": thinking\n\n"), holds=True), limit_s=0.2, stale_s=0.05)
    ).failure.reason == "timeout"
    stalled = await failing(peer, Play((head(), piece(PLAN[:9])), holds=True), stale_s=0.1)
    assert (stalled.failure.reason, stalled.text) == ("stalled", PLAN[:9])
    chatty = Play((head(), piece(PLAN[:9])), for_ever=b": still here\n\n")  # alive, and says nothing more
    assert (await failing(peer, chatty, stale_s=0.1)).failure.reason == "stalled"


@pytest.mark.parametrize(
    ("parts", "reason"),
    [
        ((head(200, "text/html"), b"<html>please log in</html>"), "junk"),
        ((head(200, "application/json"), b"{junk"), "junk"),
        ((head(200, "application/json"), b"[" * 200_000), "junk"),
        ((head(200, "application/json"), b'{"choices": 7}'), "junk"),
        ((head(200, "application/json"), b'{"hello": "world"}'), "junk"),
        ((head(200, "application/json"), b"\xff\xfe\x00"), "junk"),
        ((head(), b"data: {junk\n\n"), "junk"),
        ((head(), b"data: 7\n\n"), "junk"),
        ((b"\x00\x01\x02 not http\r\n\r\n",), "cut"),
        ((head(), event("[DONE]")), "nothing"),
        ((head(), piece("  \n"), piece(ended="stop"), event("[DONE]")), "nothing"),
        ((head(200, "application/json"), b'{"choices":[{"message":{"content":null},"finish_reason":"stop"}]}'), "nothing"),
        ((head(), piece("I can't"), piece(ended="content_filter"), event("[DONE]")), "filtered"),
        ((head(), piece(PLAN[:4]), event({"error": {"code": 503, "message": "Loading model"}})), "loading"),
        ((head(), piece(PLAN[:4]), b'error: {"code":500,"message":"boom"}\n\n'), "server_error"),
        ((head(), b"error: boom\n\n"), "junk"),
        ((head(), event({"error": "upstream died"})), "server_error"),
        ((head(), event({"error": {"message": "exceeds the available context size", "code": 400}})), "context_overflow"),
    ],
)
async def test_junk_nothing_and_errors_in_the_stream(peer: ModelPeer, parts: tuple[bytes, ...], reason: str) -> None:
    assert (await failing(peer, Play(parts))).failure.reason == reason


@pytest.mark.parametrize(
    "nothing", [b": nothing\n", b"data:\n\n", piece(" \n"), piece("\n\n\n\n"), b"\r\n", piece(role="assistant")]
)
async def test_64_kb_of_nothing_is_no_answer(peer: ModelPeer, nothing: bytes) -> None:
    failed = await failing(peer, Play((head(),), for_ever=nothing))
    assert failed.failure.reason == "nothing"
    padded = Play(
        (head(), nothing * (MOST_NOTHING_BYTES // len(nothing) // 2), piece(PLAN), piece(ended="stop"), event("[DONE]"))
    )
    assert (await ask(peer, padded)).text.strip() == PLAN


async def test_a_line_or_a_stream_that_does_not_end(peer: ModelPeer) -> None:
    assert (await failing(peer, Play((head(), b"data: "), for_ever=b"x" * 4096))).failure.reason in ("too_much", "nothing")
    assert (await failing(peer, Play((head(200, "application/json"),), for_ever=b"[" * 4096))).failure.reason == "junk"
    assert (
        await failing(peer, Play((b"HTTP/1.1 200 OK\r\n",), for_ever=b"X-More: " + b"y" * 1000 + b"\r\n"))
    ).failure.reason == "cut"


async def test_an_endless_loop_ends_at_most_tokens_and_is_kept(peer: ModelPeer) -> None:
    reply = await ask(peer, Play((head(),), for_ever=piece("again ")))
    assert reply.is_partial
    assert reply.text.startswith("again again") and len(reply.text) < 6 * (32 + 64)
    broad = await ask(peer, Play((head(),), for_ever=piece("again " * 200)))
    assert broad.is_partial and len(broad.text) < 64 * 1024
    thinking = await failing(peer, Play((head(),), for_ever=piece(reasoning_content="hm ")))
    assert thinking.failure.reason == "nothing"
    assert (await ask(peer, says(PLAN[:9], ended="length"))).is_partial


async def test_what_is_packed_is_not_unpacked(peer: ModelPeer) -> None:
    assert (await failing(peer, bomb())).failure.reason == "junk"


async def test_wrong_tools_are_no_answer(peer: ModelPeer) -> None:
    assert (await failing(peer, calls_tool(("write_tag", PLAN)), output="tools")).failure.reason == "wrong_tool"
    assert (await failing(peer, calls_tool(("write_tag", PLAN)), output="schema")).failure.reason == "wrong_tool"
    two = await ask(peer, calls_tool(("answer", PLAN), ("write_tag", '{"n": 9}')), output="tools")
    assert two.text == PLAN
    assert (await failing(peer, calls_tool(("write_tag", PLAN), ("answer", PLAN)), output="tools")).failure.reason == "wrong_tool"
    assert (await ask(peer, says(PLAN), output="tools")).text == PLAN  # where tools are not known it is written as text
    parsed = {
        "choices": [
            {"message": {"tool_calls": [{"function": {"name": "answer", "arguments": {"n": 3}}}]}, "finish_reason": "stop"}
        ]
    }
    once = await ask(peer, Play((head(200, "application/json"), json.dumps(parsed).encode())), output="tools")
    assert json.loads(once.text) == {"n": 3}
    odd: list[Any] = [None, 7, [], [7], [{"function": 7}], [{"function": {"name": ["x"], "arguments": 7}}], {"a": 1}]
    for calls in odd:
        strange = Play((head(), piece(tool_calls=calls), piece(ended="tool_calls"), event("[DONE]")))
        assert (await failing(peer, strange, output="tools")).failure.reason in ("nothing", "wrong_tool")
