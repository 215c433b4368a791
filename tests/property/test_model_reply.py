"""Whatever a model's server sends, a reply is put together, or it is junk: nothing else happens."""

from __future__ import annotations

import itertools
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drivers.models.reply import Incoming, JunkReply, ServerFailed
from drivers.models.sse import EventLines
from tests.support.model_peer import calls_tool, counted, event, piece

pytestmark = pytest.mark.req("A2")

LEAF = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
ANY = st.recursive(LEAF, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3))
CALL = st.fixed_dictionaries(
    {}, optional={"index": ANY, "function": ANY | st.fixed_dictionaries({"name": ANY, "arguments": ANY})}
)
SAID = st.fixed_dictionaries(
    {}, optional={"content": ANY, "reasoning_content": ANY, "tool_calls": ANY | st.lists(CALL, max_size=3)}
)
CHOICE = ANY | st.fixed_dictionaries({}, optional={"delta": ANY | SAID, "message": ANY | SAID, "finish_reason": ANY})
USAGE = ANY | st.dictionaries(st.sampled_from(["prompt_tokens", "completion_tokens", "prompt_tokens_details"]), ANY)
EVENT = ANY | st.fixed_dictionaries({}, optional={"choices": ANY | st.lists(CHOICE, max_size=2), "usage": USAGE, "error": ANY})

WIRE = b"".join(
    [piece("a\u20acb"), b": ping\n\n", *calls_tool(("answer", '{"n": "三"}')).parts[1:], counted(9, 3), event("[DONE]")]
)


@settings(max_examples=300, deadline=None)
@given(st.lists(EVENT, max_size=4), st.sampled_from(["", "answer"]), st.booleans())
def test_any_json_is_a_reply_or_junk(events: list[object], tool: str, whole: bool) -> None:
    came = Incoming(tool=tool)
    for each in events:
        try:
            data = json.dumps(each).encode()
            _ = came.take_whole(data) if whole else came.take(data)
        except (JunkReply, ServerFailed):
            pass
    came.content.encode("utf-8")
    assert came.trouble() is not None or came.content.strip()
    if came.tokens is not None:
        assert all(isinstance(count, int) and count >= 0 for count in came.tokens)
        assert came.tokens[2] <= came.tokens[0]


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=60))
def test_any_bytes_are_junk_or_json(data: bytes) -> None:
    with pytest.raises((JunkReply, ServerFailed)):
        Incoming().take(b"\xff" + data)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(0, len(WIRE)), max_size=12))
def test_it_does_not_matter_where_the_network_cuts(cuts: list[int]) -> None:
    edges = [0, *sorted(cuts), len(WIRE)]
    lines = EventLines()
    in_parts = [data for start, end in itertools.pairwise(edges) for data in lines.feed(WIRE[start:end])]
    assert in_parts == list(EventLines().feed(WIRE))


def test_what_is_nested_too_deep_is_junk() -> None:
    for deep in (b"[" * 100_000, b'{"error":' * 100_000):
        with pytest.raises(JunkReply):
            Incoming().take(deep)
    for depth in range(900, 1000, 7):
        nested = b'{"choices":[{"delta":{"tool_calls":[{"function":{"name":"answer","arguments":' + b'{"a":' * depth
        try:
            Incoming(tool="answer").take(nested + b"1" + b"}" * depth + b"}}]}}]}")
        except JunkReply:
            continue
