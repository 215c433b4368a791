"""The site's past incidents."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from appliance.contracts.errors import ConfigError
from appliance.foundation.system_clock import SystemClock
from appliance.memory.seed import load_incidents
from tests.support.memory import NOW, SCOPE, WordEncoder, count, open_memory

SHIPPED = Path(__file__).parents[2] / "config" / "incidents.yaml"


async def test_the_shipped_incidents_are_loaded_once(tmp_path: Path) -> None:
    encoder = WordEncoder()
    async with open_memory(tmp_path, encoder) as (memory, ledger):
        seeded = await memory.seed(SHIPPED, SCOPE)
        assert (seeded.incidents, seeded.rejected) == (12, ())
        embedded = len(encoder.embedded)
        assert await memory.seed(SHIPPED, SCOPE) == seeded
        assert len(encoder.embedded) == embedded == 12
        for table in ("memory", "memory_vector", "memory_text", "operation"):
            assert await count(ledger, table) == 12
        assert await count(ledger, "memory_rejected") == 0
        assert memory.working.sessions == 0
        verified = await ledger.fetch("SELECT key FROM memory WHERE verified = 0")
        assert [r["key"] for r in verified] == [f"seed:{i.id}" for i in load_incidents(SHIPPED) if not i.verified]


@pytest.mark.req("P4")
async def test_the_storys_alarm_finds_the_motors_incidents_first(tmp_path: Path) -> None:
    async with open_memory(tmp_path, None, clock=SystemClock()) as (memory, _):
        await memory.seed(SHIPPED, SCOPE)
        answer = await memory.recall(
            "Motor three over temperature 94 degC, fan speed low",
            scope=SCOPE, asset="motor_3", fault="over_temperature", now=NOW, budget_ms=5_000,
        )  # fmt: skip
    assert answer.found and {f.asset.split("_")[0] for f in answer.found} == {"motor"}
    assert all(f.facts["remedy"] and f.fault == "over_temperature" for f in answer.found)


def test_a_list_without_a_heading_and_plain_days_are_read(tmp_path: Path) -> None:
    path = tmp_path / "incidents.yaml"
    path.write_text("- {id: a, asset: motor_1, fault: hot, occurred_utc: 2025-02-03, text: It was hot.}\n")
    (incident,) = load_incidents(path)
    assert incident.occurred_utc == datetime(2025, 2, 3, tzinfo=UTC)
    assert not incident.verified


@pytest.mark.req("O5")
@pytest.mark.parametrize(
    ("content", "key"),
    [
        ("incidents: 3", "incidents"),
        ("- {id: a}", "incidents[0].asset"),
        ("- {id: a, asset: m, fault: f, occurred_utc: 2025-02-03, text: t, colour: red}", "incidents[0].colour"),
        ("- {id: a, asset: m, fault: f, occurred_utc: never, text: t}", "incidents[0].occurred_utc"),
        ("- {id: a, asset: m, fault: f, occurred_utc: 2026-02-30, text: t}", "incidents[0].occurred_utc"),
        ("- {id: a, id: b}", "line 1"),
        ("{", "line 2"),
        ("\x00", "(file)"),
        ("- 2025-13-32", "incidents[0]"),
        ("[" * 5000, "line 1"),
    ],
)
def test_a_wrong_file_is_named_with_its_key(tmp_path: Path, content: str, key: str) -> None:
    path = tmp_path / "incidents.yaml"
    path.write_text(content)
    with pytest.raises(ConfigError) as raised:
        load_incidents(path)
    assert (raised.value.file, raised.value.key) == ("incidents.yaml", key)


def test_a_missing_file_is_a_configuration_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        load_incidents(tmp_path / "none.yaml")
