"""A data folder that cannot be used ends the run with a named problem, and what is made inside is not everybody's."""

from __future__ import annotations

import asyncio
import errno
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from appliance.cli import exit_codes
from appliance.cli.exit_codes import exit_code_of
from appliance.contracts.errors import ConfigError, Corrupt, OwnedElsewhere, StorageFullError, Unavailable
from appliance.data_folder import first_fault, prepare_data_folder, storage_fault
from appliance.foundation.system_clock import SystemClock
from appliance.settings_last_good import keep_sound, settings_for_service
from appliance.store.database import Database
from demo.interactive import elsewhere
from demo.site import Site

ROOT = Path(__file__).parents[2]
SHIPPED = ROOT / "config"


def run_with(data: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "appliance", "run", "--config", str(SHIPPED)]
    environ = os.environ | {"FLOORHAND_DATA": str(data)}
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=environ, cwd=ROOT)


@pytest.mark.req("O5")
@pytest.mark.parametrize("kind", ["a file in the way", "a file above", "a kernel's folder", "read-only"])
def test_an_unusable_folder_ends_the_run_with_78_and_a_cure(tmp_path: Path, kind: str) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "locked").mkdir(mode=0o500)
    if kind == "read-only" and os.geteuid() == 0:
        pytest.skip("root may write everywhere")
    places = {
        "a file in the way": tmp_path / "file",
        "a file above": tmp_path / "file" / "data",
        "a kernel's folder": Path("/proc/floorhand/data"),
        "read-only": tmp_path / "locked",
    }
    ended = run_with(places[kind])
    assert ended.returncode == exit_codes.CONFIGURATION
    assert f"data_dir: the folder {places[kind]} cannot be used" in ended.stderr
    assert "Set FLOORHAND_DATA" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_copy_that_cannot_be_kept_is_only_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").touch()
    settings = settings_for_service(SHIPPED, {"FLOORHAND_DATA": str(tmp_path / "file")})
    assert settings.config_fault == ""
    keep_sound(settings)
    assert [record.message for record in caplog.records] == ["config.not_kept"]


async def test_an_owned_ledger_ends_the_run_with_1_and_a_cure(tmp_path: Path) -> None:
    ledger = await Database.open(tmp_path / "ledger.sqlite", SystemClock())
    owned = await asyncio.to_thread(run_with, tmp_path)
    await ledger.close()
    assert (owned.returncode, "doctor" in owned.stderr, "Traceback" in owned.stderr) == (exit_codes.PROBLEM, True, False)
    assert not (tmp_path / "config-last-good").exists(), "the copy belongs to the core that runs"


def test_the_folder_is_not_for_others(tmp_path: Path) -> None:
    prepare_data_folder(tmp_path / "data")
    assert stat.S_IMODE((tmp_path / "data").stat().st_mode) & 0o027 == 0
    prepare_data_folder(tmp_path / "data")


def test_errors_of_the_file_system_are_named_when_they_are_the_folders(tmp_path: Path) -> None:
    full = storage_fault(OSError(errno.ENOSPC, "full"), tmp_path)
    assert isinstance(full, StorageFullError)
    assert (exit_code_of(full), full.cure.startswith("Free space")) == (exit_codes.TRY_LATER, True)
    assert isinstance(storage_fault(OSError(errno.EACCES, "no", str(tmp_path / "x")), tmp_path), ConfigError)
    for ailing in (errno.EROFS, errno.EIO):  # what a failing disk does, and a repaired one does not
        away = storage_fault(OSError(ailing, "ro", str(tmp_path / "x")), tmp_path)
        assert isinstance(away, Unavailable)
        assert (exit_code_of(away), "disk" in away.cure) == (exit_codes.TRY_LATER, True)
    assert storage_fault(FileNotFoundError(errno.ENOENT, "no", "git"), tmp_path) is None
    assert storage_fault(ConnectionRefusedError(errno.ECONNREFUSED, "no"), tmp_path) is None


def test_several_faults_at_once_are_told_as_one(tmp_path: Path) -> None:
    full, owned = StorageFullError("full"), OwnedElsewhere("owned")
    assert first_fault(ExceptionGroup("", [ExceptionGroup("", [full]), owned]), tmp_path) is full
    assert isinstance(first_fault(ExceptionGroup("", [OSError(errno.ENOSPC, "full")]), tmp_path), StorageFullError)
    assert first_fault(ExceptionGroup("", [full, KeyError("a fault of the program")]), tmp_path) is None
    assert exit_code_of(Corrupt("damaged")) == exit_codes.PROBLEM and "doctor" in Corrupt("damaged").cure


def test_the_site_says_how_another_shell_reaches_it(tmp_path: Path) -> None:
    folder = tmp_path / "my site"
    assert elsewhere(folder / "environment").endswith(f"\n  . '{tmp_path.resolve()}/my site/environment'")
    folder.mkdir()
    site = Site(folder)
    site._keep_environment({"FLOORHAND_DATA": str(folder / "it's here"), "FLOORHAND_PLC_PORT": "5021"})
    assert stat.S_IMODE(site.environment.stat().st_mode) == 0o600
    line = elsewhere(site.environment).splitlines()[-1]
    told = subprocess.run(["sh", "-c", f'{line}; echo "$FLOORHAND_DATA $FLOORHAND_PLC_PORT"'], capture_output=True, text=True)
    assert told.stdout == f"{folder}/it's here 5021\n"
