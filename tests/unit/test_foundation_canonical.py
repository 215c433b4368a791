"""Canonical JSON has the bytes that ``json.dumps`` would give it, whichever way they are made: hashes hang on every one."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appliance.contracts.operation import OperationLane
from appliance.foundation import canonical
from appliance.foundation.canonical import canonical_json, digest, digest_of_text
from appliance.foundation.system_clock import SystemClock

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
CONTENTS = st.recursive(
    SCALARS | st.sampled_from(OperationLane),
    lambda inner: (
        st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(st.text(), inner) | st.dictionaries(st.integers(), inner)
    ),
    max_leaves=20,
)


def dumped(content: Any) -> str:
    return json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


@pytest.mark.req("Y1", "X7")
@given(CONTENTS)
def test_the_bytes_are_those_of_json_dumps(content: Any) -> None:
    assert canonical_json(content) == dumped(content)
    if "\\ud" not in ascii(content).lower():  # a lone surrogate has no bytes
        assert digest(content) == digest_of_text(dumped(content)) == hashlib.sha256(dumped(content).encode()).hexdigest()


def test_a_python_without_accelerator_writes_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    content = {"b": [1.5, -0.0, 1e300, True, None], "a": {"é": '\u2028\x7f"', "10": (1, 2)}}
    fast = canonical_json(content)
    monkeypatch.setattr(canonical, "_chunks", None)
    assert canonical_json(content) == fast == dumped(content)


@pytest.mark.parametrize("content", [float("nan"), {"a": [float("inf")]}, {"a": object()}, {1: 0, "1": 0}])
def test_what_has_no_canonical_form_is_refused_and_leaves_nothing_behind(content: Any) -> None:
    with pytest.raises((ValueError, TypeError)) as refused:
        canonical_json(content)
    with pytest.raises(refused.type):
        dumped(content)
    assert canonical_json({"n": 1}) == '{"n":1}'


def test_the_clock_is_asked_again_every_time_with_nothing_set() -> None:
    clock = SystemClock()
    assert {clock.is_synced for _ in range(50)} <= {True, False}
    assert isinstance(clock.is_synced, bool)
