"""The operation log: contiguous, chained, in the transaction of what it tells, and any tampering is found."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appliance.contracts.errors import Corrupt, Refused
from appliance.contracts.operation import Operation, OperationLane
from appliance.contracts.store import Transaction
from appliance.foundation.hash_chain import chain_hash, is_intact
from appliance.store import operations
from tests.support.ledger import Bench, open_bench

P0, P1 = OperationLane.P0, OperationLane.P1


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    async with open_bench(tmp_path) as opened:
        yield opened


async def append(bench: Bench, lane: OperationLane, count: int) -> None:
    def one(tx: Transaction) -> None:
        operations.append(tx, bench.clock, lane, "thing.happened", "th_1", {"n": 1, "text": "Grüße 温度"})

    for _ in range(count):
        await bench.database.transaction(one)


@pytest.mark.req("Y1")
async def test_each_lane_counts_and_chains_for_itself(bench: Bench) -> None:
    await append(bench, P0, 3)
    await append(bench, P1, 2)
    rows = await bench.database.fetch(f"{operations.SELECT} ORDER BY lane, operation.seq")
    found = [operations.to_operation(row) for row in rows]
    assert [(o.lane, o.seq) for o in found] == [(P0, 1), (P0, 2), (P0, 3), (P1, 1), (P1, 2)]
    assert [o.prev_hash for o in found] == ["", found[0].hash, found[1].hash, "", found[3].hash]
    assert {o.origin for o in found} == {"line-3"}
    assert await bench.database.transaction(lambda tx: operations.verify_chain(tx, P0)) == 3
    assert operations.verify_chain([r for r in rows if r["lane"] == "P1"], P1) == 2


@pytest.mark.req("Y1", "X7")
async def test_the_hash_is_the_documented_one(bench: Bench) -> None:
    await append(bench, P0, 1)
    row = await bench.one("SELECT * FROM operation")
    payload_digest = hashlib.sha256(row["payload"].encode()).hexdigest()
    header = ["line-3", "P0", 1, "thing.happened", "th_1", row["at_utc"], True, payload_digest]
    text = "" + json.dumps(header, separators=(",", ":"), sort_keys=True, ensure_ascii=False)
    assert row["hash"] == hashlib.sha256(text.encode()).hexdigest()


@pytest.mark.req("Y1")
async def test_an_operation_goes_with_its_transaction(bench: Bench) -> None:
    def fails(tx: Transaction) -> None:
        operations.append(tx, bench.clock, P0, "thing.happened", "th_1", {})
        raise Refused("no")

    await append(bench, P0, 1)
    with pytest.raises(Refused):
        await bench.database.transaction(fails)
    await append(bench, P0, 1)
    assert await bench.database.transaction(lambda tx: operations.verify_chain(tx, P0)) == 2


@pytest.mark.req("X7")
async def test_the_log_is_append_only(bench: Bench) -> None:
    await append(bench, P0, 1)
    with pytest.raises(sqlite3.IntegrityError, match="append-only"):
        await bench.database.transaction(lambda tx: tx.execute("UPDATE operation SET kind = 'x'"))
    with pytest.raises(sqlite3.IntegrityError, match="append-only"):
        await bench.database.transaction(lambda tx: tx.execute("DELETE FROM operation"))


@pytest.mark.req("X7")
@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE operation SET kind = 'thing.else' WHERE seq = 2",
        "UPDATE operation SET entity = 'th_2' WHERE seq = 2",
        "UPDATE operation SET payload = '{}' WHERE seq = 2",
        "UPDATE operation SET at_utc = '2020' WHERE seq = 2",
        "UPDATE operation SET clock_synced = 0 WHERE seq = 2",
        "UPDATE operation SET hash = 'x' WHERE seq = 2",
        "UPDATE operation SET prev_hash = 'x' WHERE seq = 2",
        "UPDATE operation SET seq = 9 WHERE seq = 3",
        "DELETE FROM operation WHERE seq = 2",
        "DELETE FROM operation WHERE seq = 3",
        "DELETE FROM operation",
        "UPDATE appliance SET origin = 'line-4'",
        "UPDATE operation_head SET hash = 'x'",
        "DELETE FROM operation_head",
    ],
)
async def test_tampering_is_found(bench: Bench, statement: str) -> None:
    await append(bench, P0, 3)

    def tamper(tx: Transaction) -> None:
        tx.execute("DROP TRIGGER operation_append_only_u")
        tx.execute("DROP TRIGGER operation_append_only_d")
        tx.execute("DROP TRIGGER operation_head_never_back")
        tx.execute("DROP TRIGGER operation_head_stays")
        tx.execute(statement)

    await bench.database.transaction(tamper)
    with pytest.raises(Corrupt, match="lane P0"):
        await bench.database.transaction(lambda tx: operations.verify_chain(tx, P0))


async def test_the_origin_is_set_once(bench: Bench) -> None:
    await bench.database.transaction(lambda tx: operations.set_origin(tx, bench.clock, "line-3"))
    with pytest.raises(Refused, match="line-3"):
        await bench.database.transaction(lambda tx: operations.set_origin(tx, bench.clock, "line-4"))
    assert await bench.database.transaction(operations.origin) == "line-3"


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(payload=st.dictionaries(st.text(), _json, max_size=4))
def test_any_payload_survives_being_stored(payload: dict[str, Any]) -> None:
    """The hash of what is read back is the hash of what was written."""
    fields: dict[str, Any] = {"origin": "line-3", "lane": P0, "seq": 1, "kind": "a.b", "entity": "e", "prev_hash": ""}
    fields |= {"at_utc": "2026-03-02T08:00:00.000000+00:00", "clock_synced": True}
    stored = json.loads(json.dumps(payload))
    written = Operation(payload=payload, hash=chain_hash(payload=payload, **fields), **fields)
    read = Operation(payload=stored, hash=written.hash, **fields)
    assert is_intact(written) and is_intact(read)
