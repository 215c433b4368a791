"""Schema steps: numbered, each whole or not at all; a newer file is left alone."""

from __future__ import annotations

import re
import sqlite3
from pathlib import Path

import pytest

from appliance import contracts
from appliance.contracts.errors import Refused
from appliance.store import migrate
from appliance.store.database import Database
from tests.support.clock import ManualClock


def names(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


def test_steps_are_numbered_from_one_without_a_gap() -> None:
    assert list(migrate.steps()) == list(range(1, len(migrate.steps()) + 1))


async def test_every_step_ends_with_its_own_number(tmp_path: Path) -> None:
    for number in migrate.steps():
        path = tmp_path / f"stepwise_{number}.db"
        connection = sqlite3.connect(path)
        for step, sql in migrate.steps().items():
            if migrate.version_of(connection) < step <= number:
                connection.executescript(f"BEGIN;{sql};PRAGMA user_version = {step};COMMIT;")
        assert migrate.version_of(connection) == number
        connection.close()
        database = await Database.open(path, ManualClock())  # an older file is brought up to date
        assert (await database.fetch("PRAGMA user_version"))[0][0] == max(migrate.steps())
        await database.close()


@pytest.mark.req("F6", "F7")
async def test_alarms_of_the_previous_version_come_with_their_journal(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    connection = sqlite3.connect(path)
    for step in (1, 2):
        connection.executescript(f"BEGIN;{migrate.steps()[step]};PRAGMA user_version = {step};COMMIT;")
    payload = (
        '{"source":"line_3_plc","alarm_id":"hot","activation":"7-1","activation_id":"line_3_plc:hot:7-1","change":"raised",'
        '"value":94.2,"unit":"degC","source_utc":"2026-03-02T07:00:00+00:00","source_mono_ns":5}'
    )
    connection.execute("INSERT INTO owner VALUES (1, 'core', 7, '1', 'boot-0', '2026-03-02T07:00:00.000000+00:00', NULL)")
    connection.execute(
        "INSERT INTO admission VALUES (3, 'ad_1', 'mqtt', 'alarm', 'asset:motor_3', 'alarm:line_3_plc:hot:7-1:raised', 'd', ?, 9,"
        " 'terminal', 'done', 1, NULL, 'tr_1', '2026-03-02T07:00:00.000000+00:00', 10, 'boot-0', 1, NULL)",
        (payload,),
    )
    connection.execute("INSERT INTO session VALUES ('se_1', 'asset:motor_3', 'motor_3', 'open', 'then', NULL)")
    connection.execute(
        "INSERT INTO alarm VALUES (4, 'line_3_plc:hot:7-1', 'hot', 'motor_3', 'high', 'acknowledged', 94.2, 'degC', 'se_1', NULL,"
        " 5, '2026-03-02T07:00:00.000000+00:00', 10, NULL, '2026-03-02T07:01:00.000000+00:00', 'anna')"
    )
    connection.commit()
    connection.close()
    database = await Database.open(path, ManualClock())
    try:
        (alarm,) = [dict(row) for row in await database.fetch("SELECT * FROM alarm")]
        assert (alarm["seq"], alarm["source"], alarm["state"], alarm["session_id"]) == (4, "line_3_plc", "acknowledged", "se_1")
        assert (alarm["acknowledged_by"], alarm["revision"], alarm["raised_after"]) == ("anna", 1, 3)
        (event,) = [dict(row) for row in await database.fetch("SELECT * FROM alarm_event")]
        assert (event["key"], event["digest"], event["admission_id"]) == ("alarm:line_3_plc:hot:7-1:raised", "d", "ad_1")
        assert (event["disposition"], event["told_id"], event["value"]) == ("announce", "line_3_plc:hot:7-1", 94.2)
        (source,) = [dict(row) for row in await database.fetch("SELECT * FROM alarm_source")]
        assert (source["source"], source["seen"]) == ("line_3_plc", 1)
        assert await database.fetch("PRAGMA foreign_key_check") == []
    finally:
        await database.close()


def test_a_step_that_fails_leaves_the_one_before_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = {1: "CREATE TABLE one (x INTEGER) STRICT;", 2: "CREATE TABLE two (x INTEGER) STRICT; CREATE TABLE one (y INTEGER);"}
    monkeypatch.setattr(migrate, "steps", lambda: broken)
    connection = sqlite3.connect(tmp_path / "ledger.db", isolation_level=None)
    with pytest.raises(sqlite3.OperationalError):
        migrate.migrate(connection)
    assert migrate.version_of(connection) == 1
    assert [row[0] for row in connection.execute("SELECT name FROM sqlite_schema")] == ["one"]
    assert not connection.in_transaction
    connection.close()


async def test_a_newer_file_is_refused_and_not_touched(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    newer = sqlite3.connect(path)
    newer.executescript("CREATE TABLE future (x INTEGER); PRAGMA user_version = 9999;")
    newer.close()
    before = path.read_bytes()
    with pytest.raises(Refused, match="9999"):
        await Database.open(path, ManualClock())
    assert path.read_bytes() == before
    assert "ledger.db-wal" not in names(tmp_path)


async def test_opening_again_changes_nothing(tmp_path: Path) -> None:
    for _ in range(2):
        database = await Database.open(tmp_path / "ledger.db", ManualClock())
        schema = [tuple(row) for row in await database.fetch("SELECT type, name, sql FROM sqlite_schema ORDER BY name")]
        await database.close()
    assert len(schema) > 20


def test_check_lists_mirror_the_enums() -> None:
    """What a column allows is what the vocabulary has, value by value."""
    from appliance.contracts import admission, alarm, delivery, effect, operation, plan, turn

    sql = "\n".join(migrate.steps().values())
    lists = [frozenset(re.findall(r"'([\w]+)'", found)) for found in re.findall(r"IN \(((?:'[\w]+'(?:, )?)+)\)", sql)]
    for enum in (
        admission.AdmissionStatus,
        admission.Outcome,
        turn.TurnState,
        plan.ActionState,
        effect.ConfirmationStatus,
        effect.EffectStatus,
        alarm.AlarmState,
        alarm.AlarmChange,
        alarm.Disposition,
        alarm.Inhibition,
        delivery.Channel,
        delivery.DeliveryStatus,
        operation.OperationLane,
    ):
        assert frozenset(str(member) for member in enum) in lists, enum
    assert contracts
