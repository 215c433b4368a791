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
        connection = sqlite3.connect(tmp_path / "stepwise.db")
        for step, sql in migrate.steps().items():
            if migrate.version_of(connection) < step <= number:
                connection.executescript(f"BEGIN;{sql};PRAGMA user_version = {step};COMMIT;")
        assert migrate.version_of(connection) == number
        connection.close()
        database = await Database.open(tmp_path / "stepwise.db", ManualClock())  # an older file is brought up to date
        assert (await database.fetch("PRAGMA user_version"))[0][0] == max(migrate.steps())
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

    sql = migrate.steps()[1]
    lists = [frozenset(re.findall(r"'([\w]+)'", found)) for found in re.findall(r"IN \(((?:'[\w]+'(?:, )?)+)\)", sql)]
    for enum in (
        admission.AdmissionStatus,
        admission.Outcome,
        turn.TurnState,
        plan.ActionState,
        effect.ConfirmationStatus,
        effect.EffectStatus,
        alarm.AlarmState,
        delivery.Channel,
        delivery.DeliveryStatus,
        operation.OperationLane,
    ):
        assert frozenset(str(member) for member in enum) in lists, enum
    assert contracts
