"""Working memory: bounded, counted, gone with the session."""

from __future__ import annotations

import sys

import pytest

from appliance.contracts.errors import Refused
from appliance.memory.settings import MemorySettings
from appliance.memory.working import WorkingMemory
from tests.support.clock import CountingIds, ManualClock


def desk(**settings: int) -> WorkingMemory:
    return WorkingMemory(ManualClock(), CountingIds(), MemorySettings(**settings))


@pytest.mark.req("M1")
def test_oldest_notes_go_when_the_bound_is_reached_and_it_is_said() -> None:
    working = desk(working_bytes=10_000)
    for n in range(10):
        working.note("s1", "line_3", f"{n}" * 1_500)
    kept = [n.text[0] for n in working.notes("line_3", "s1")]
    assert kept == ["9", "8", "7", "6", "5"]
    assert working.evicted("line_3", "s1") == 5
    assert working.size_bytes("s1") <= 10_000


@pytest.mark.req("M1")
def test_a_session_takes_its_notes_with_it() -> None:
    working = desk()
    working.note("s1", "line_3", "one")
    working.note("s2", "line_3", "two")
    working.close("s1")
    assert [n.text for n in working.notes("line_3")] == ["two"]
    assert working.size_bytes("s1") == 0


def test_the_count_is_no_less_than_what_python_holds() -> None:
    working = desk()
    note = working.note("s1", "line_3", "x" * 5_000, asset="motor_3", fault="over_temperature")
    held = sys.getsizeof(note) + sum(sys.getsizeof(v) for v in (note.text, note.id, note.at_utc))
    assert note.size_bytes >= held


@pytest.mark.field("FC-M04")
def test_notes_of_another_scope_are_not_there() -> None:
    working = desk()
    working.note("s1", "line_3", "ours")
    assert working.notes("line_4") == []
    assert working.notes("") == []
    with pytest.raises(Refused, match="another scope"):
        working.note("s1", "line_4", "theirs")


def test_a_note_larger_than_the_desk_is_refused_and_nothing_is_lost() -> None:
    working = desk(working_bytes=10_000)
    working.note("s1", "line_3", "small")
    with pytest.raises(Refused, match="do not fit"):
        working.note("s1", "line_3", "x" * 20_000)
    assert [n.text for n in working.notes("line_3")] == ["small"]


def test_the_session_used_longest_ago_makes_room() -> None:
    working = desk(working_sessions=2)
    for session in ("s1", "s2", "s1", "s3"):
        working.note(session, "line_3", session)
    assert {n.session for n in working.notes("line_3")} == {"s1", "s3"}


def test_a_key_makes_a_repeat_the_same_note() -> None:
    working = desk()
    first = working.note("s1", "line_3", "one", key="k")
    assert working.note("s1", "line_3", "one", key="k") is first
    assert len(working.notes("line_3")) == 1


def test_a_note_without_session_or_scope_is_refused() -> None:
    for session, scope in (("", "line_3"), ("s1", "")):
        with pytest.raises(Refused):
            desk().note(session, scope, "text")
