"""Properties of taking in: whatever arrives, in whatever order, a stream is a contiguous, verified prefix of what was written."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import Connection

from appliance.contracts.errors import Refused
from appliance.contracts.operation import GENESIS_HASH, Operation, OperationLane
from appliance.coordinator.batch import parse_batch
from appliance.coordinator.errors import ChainConflict
from appliance.coordinator.intake import take_in
from appliance.coordinator.projection import PROJECTIONS
from appliance.coordinator.store import feed, streams
from appliance.coordinator.store.database import CoordinatorStore
from appliance.foundation.canonical import canonical_json
from appliance.foundation.hash_chain import chain_hash, is_intact

NOW = "2026-03-02T08:00:00.000+00:00"
LANE = OperationLane.P2
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
PAYLOADS = st.dictionaries(st.text(), JSON, max_size=4)


def chain(payloads: list[dict[str, Any]], kind: str = "test.noted") -> list[Operation]:
    written: list[Operation] = []
    prev_hash = GENESIS_HASH
    for seq, payload in enumerate(payloads, 1):
        entry: dict[str, Any] = {
            "origin": "line-3",
            "lane": LANE,
            "seq": seq,
            "kind": kind,
            "entity": f"e{seq}",
            "payload": payload,
        }
        content = entry | {"at_utc": NOW, "clock_synced": seq % 2 == 0, "prev_hash": prev_hash}
        written.append(Operation(**content, hash=chain_hash(**content)))
        prev_hash = written[-1].hash
    return written


def on_the_wire(entries: list[Operation]) -> bytes:
    first = entries[0]
    keys = ("kind", "entity", "payload", "at_utc", "clock_synced", "hash")
    operations = [{key: getattr(entry, key) for key in keys} for entry in entries]
    head = {"origin": first.origin, "lane": first.lane, "first_seq": first.seq, "prev_hash": first.prev_hash}
    return canonical_json(head | {"operations": operations}).encode()


@contextmanager
def empty_store() -> Iterator[CoordinatorStore]:
    with TemporaryDirectory() as folder:
        store = CoordinatorStore(f"sqlite:///{Path(folder)}/c.db")
        try:
            store.migrate()
            yield store
        finally:
            store.close()


@pytest.fixture(scope="module")
def store() -> Iterator[CoordinatorStore]:
    """Shared by all examples: each clears it first, which is much cheaper than making it anew."""
    with empty_store() as made:
        yield made


def cleared(store: CoordinatorStore) -> CoordinatorStore:
    with store.write() as tx:
        for table in ("operation", "stream_head", "quarantine", "work_order", "counter", "feed", "feed_head"):
            tx.exec_driver_sql(f"DELETE FROM {table}")
    return store


def stored(store: CoordinatorStore) -> list[tuple[int, str, str]]:
    with store.read() as tx:
        return [tuple(row) for row in tx.exec_driver_sql("SELECT seq, payload, hash FROM operation ORDER BY seq")]


@pytest.mark.req("Y1")
@given(st.lists(PAYLOADS, min_size=1, max_size=6))
@settings(max_examples=150, deadline=None)
def test_any_payload_survives_the_wire_with_its_hash(payloads: list[dict[str, Any]]) -> None:
    written = chain(payloads)
    received = parse_batch(on_the_wire(written))
    assert received == written
    assert all(is_intact(entry) for entry in received)


@pytest.mark.req("Y1", "Y2", "C10")
@pytest.mark.field("FC-Y02")
@given(st.integers(1, 12), st.lists(st.tuples(st.integers(1, 12), st.integers(1, 12)), max_size=12))
@settings(max_examples=60, deadline=None)
def test_slices_in_any_order_make_a_contiguous_prefix(store: CoordinatorStore, count: int, slices: list[tuple[int, int]]) -> None:
    cleared(store)
    written = chain([{"n": number} for number in range(count)])
    head = 0
    for first, length in slices:
        entries = written[first - 1 : first - 1 + length]
        if not entries:
            continue
        if first > head + 1:
            with pytest.raises(ChainConflict) as conflict:
                take_in(store, entries, NOW)
            assert (conflict.value.facts["reason"], conflict.value.facts["head_seq"]) == ("gap", head)
        else:
            head = max(head, entries[-1].seq)
            assert take_in(store, entries, NOW) == head
        assert stored(store) == [(op.seq, canonical_json(op.payload), op.hash) for op in written[:head]]


@pytest.mark.req("Y1", "X7")
@given(
    place=st.integers(0, 4),
    held=st.integers(0, 5),
    change=st.sampled_from(
        [
            {"kind": "other.kind"},
            {"entity": "other"},
            {"payload": {"n": "other"}},
            {"at_utc": "2027"},
            {"clock_synced": None},
            {"hash": "0" * 64},
            {"prev_hash": "0" * 64},
            {"seq": 77},
            {"origin": "other"},
            {"lane": OperationLane.P0},
        ]
    ),
)
@settings(max_examples=60, deadline=None)
def test_an_altered_entry_is_noticed_wherever_it_stands(
    store: CoordinatorStore, place: int, held: int, change: dict[str, Any]
) -> None:
    cleared(store)
    written = chain([{"n": number} for number in range(5)])
    if held:
        take_in(store, written[:held], NOW)
    before = stored(store)
    if change == {"clock_synced": None}:
        change = {"clock_synced": not written[place].clock_synced}
    altered = list(written)
    altered[place] = dataclasses.replace(written[place], **change)
    assert not is_intact(altered[place])
    with pytest.raises(ChainConflict):
        take_in(store, altered, NOW)
    assert stored(store) == before


@pytest.mark.req("Y2")
@pytest.mark.field("FC-Y03")
@given(st.lists(PAYLOADS | st.just({"asset": "motor_3", "title": "Fan"}), min_size=1, max_size=8))
@settings(max_examples=60, deadline=None)
def test_whatever_a_work_order_says_the_head_advances(store: CoordinatorStore, payloads: list[dict[str, Any]]) -> None:
    cleared(store)
    written = chain(payloads, "work_order.created")
    assert take_in(store, written, NOW) == len(payloads)
    with store.read() as tx:
        set_aside = {row["seq"] for row in streams.list_quarantine(tx, None)}
        made = {row[0] for row in tx.exec_driver_sql("SELECT id FROM work_order")}
        positions = [row[0] for row in tx.exec_driver_sql("SELECT position FROM feed ORDER BY position")]
    assert made == {op.entity for op in written if op.seq not in set_aside}
    assert positions == list(range(1, len(made) + 1))
    assert all(op.seq not in set_aside for op in written if op.payload == {"asset": "motor_3", "title": "Fan"})


@pytest.mark.field("FC-Y03")
def test_what_fails_half_way_leaves_nothing_but_its_note(store: CoordinatorStore, monkeypatch: pytest.MonkeyPatch) -> None:
    cleared(store)

    def half_way(tx: Connection, op: Operation, now: str) -> None:
        feed.publish(tx, op.origin, "half", {}, now)
        raise Refused("no further")

    monkeypatch.setitem(PROJECTIONS, "test.half", half_way)
    assert take_in(store, chain([{}, {}], "test.half"), NOW) == 2
    with store.read() as tx:
        assert [row["reason"] for row in streams.list_quarantine(tx, None)] == ["no further"] * 2
        assert feed.newest(tx, "line-3") == 0
