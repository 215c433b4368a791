"""What the coordinator refuses to start with, and its schema."""

from __future__ import annotations

import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from pydantic import ValidationError
from sqlalchemy import insert, select, text, update

from appliance.contracts.errors import ConfigError, Corrupt, Refused
from appliance.coordinator.settings import CoordinatorSettings
from appliance.coordinator.store import devices
from appliance.coordinator.store.database import CoordinatorStore
from appliance.coordinator.store.tables import counter, metadata
from appliance.coordinator.tokens import admin_digest, token_digest


@pytest.mark.req("X6")
def test_it_never_listens_in_the_clear_beyond_this_machine() -> None:
    for host in ("0.0.0.0", "::", "10.1.2.3", "coordinator.site"):
        with pytest.raises(ValidationError, match="tls_cert"):
            CoordinatorSettings(host=host)
        CoordinatorSettings(host=host, tls_cert=Path("c.pem"), tls_key=Path("k.pem"))
    for host in ("127.0.0.1", "::1", "localhost", "127.8.8.8"):
        CoordinatorSettings(host=host)
    with pytest.raises(ValidationError, match="go together"):
        CoordinatorSettings(tls_cert=Path("c.pem"))


def test_a_database_is_a_path_or_a_url() -> None:
    assert CoordinatorSettings(database="var/c.db").database_url == "sqlite:///var/c.db"
    assert CoordinatorSettings(database="postgresql://u@h/d").database_url == "postgresql+psycopg://u@h/d"


@pytest.mark.req("X4")
def test_replicas_that_start_together_agree_on_one_private_token(tmp_path: Path) -> None:
    path = tmp_path / "new" / "token"
    with ThreadPoolExecutor(8) as pool:
        digests = set(pool.map(admin_digest, [path] * 16))
    assert digests == {token_digest(path.read_text().strip())}
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [entry.name for entry in path.parent.iterdir()] == ["token"]
    path.chmod(0o640)
    with pytest.raises(ConfigError, match="chmod 600"):
        admin_digest(path)


def test_migrations_make_exactly_the_tables_and_run_once(tmp_path: Path) -> None:
    store = CoordinatorStore(f"sqlite:///{tmp_path}/c.db")
    other = CoordinatorStore(f"sqlite:///{tmp_path}/c.db")
    store.migrate()
    with store.write() as tx:
        assert devices.enrol(tx, "line-3", "digest", "now")
    other.migrate()
    with other.read() as tx:
        assert compare_metadata(MigrationContext.configure(tx), metadata) == []
        assert devices.by_digest(tx, "digest") is not None
        assert tx.execute(text("PRAGMA journal_mode")).scalar() == "wal"
        assert tx.execute(text("PRAGMA synchronous")).scalar() == 2, "acknowledged means on disk"
    store.close()
    other.close()


def test_a_writer_is_alone_from_its_first_read_on(tmp_path: Path) -> None:
    store = CoordinatorStore(f"sqlite:///{tmp_path}/c.db")
    store.migrate()
    with store.write() as tx:
        tx.execute(insert(counter).values(name="test", value=0))

    def add_one(_: int) -> None:
        with store.write() as tx:
            value = tx.execute(select(counter.c.value)).scalar_one()
            tx.execute(update(counter).values(value=value + 1))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(add_one, range(40)))
    with store.read() as tx:
        assert tx.execute(select(counter.c.value)).scalar_one() == 40
    store.close()


def test_a_newer_database_is_refused_and_left_alone(tmp_path: Path) -> None:
    store = CoordinatorStore(f"sqlite:///{tmp_path}/c.db")
    store.migrate()
    with store.write() as tx:
        tx.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(Refused, match="newer version"):
        store.migrate()
    with store.read() as tx:
        assert tx.execute(text("SELECT version_num FROM alembic_version")).scalar() == "9999"
    store.close()


def test_a_file_that_is_no_database_is_called_damaged(tmp_path: Path) -> None:
    (tmp_path / "c.db").write_bytes(b"this is no database at all" * 100)
    store = CoordinatorStore(f"sqlite:///{tmp_path}/c.db")
    with pytest.raises(Corrupt):
        store.migrate()
    store.close()
