"""What is shipped beside the code: lock files, unit file, make targets, top-level layout."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
_PIN = re.compile(r"^([a-z0-9][a-z0-9._-]*)==([^ ;\\]+)", re.MULTILINE)


def project() -> dict[str, list[str]]:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    return {"run": [*declared["project"]["dependencies"], *declared["dependency-groups"]["build"]]} | {
        name: declared["dependency-groups"][name] for name in ("test", "bench", "model")
    }


@pytest.mark.parametrize("group", ["run", "test", "bench", "model"])
def test_every_declared_package_is_pinned_with_hashes_and_no_address(group: str) -> None:
    text = (ROOT / "requirements" / f"{group}.txt").read_text("utf-8")
    pinned = {name for name, _ in _PIN.findall(text)}
    declared = {re.split(r"[^A-Za-z0-9._-]", wanted)[0].lower().replace("_", "-") for wanted in project()[group]}
    assert declared
    assert declared <= pinned
    blocks = re.split(r"\n(?=[a-z0-9])", text.strip())
    assert all("--hash=sha256:" in block for block in blocks)
    assert "://" not in text
    assert not re.search(r"^(--|-e|file:)", text, re.MULTILINE)


def test_groups_agree_on_shared_packages() -> None:
    pins = [set(_PIN.findall((ROOT / "requirements" / f"{group}.txt").read_text("utf-8"))) for group in ("run", "test", "bench")]
    names = {name for name, _ in pins[0]}
    for others in pins[1:]:
        assert {pin for pin in others if pin[0] in names} <= pins[0]


def test_every_file_beside_the_code_is_installed_with_it() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["setuptools"]["package-data"]
    shipped = {
        path for package, globs in declared.items() for glob in globs for path in (ROOT / package.replace(".", "/")).glob(glob)
    }
    packages = [ROOT / name for name in ("appliance", "drivers", "voice", "demo")]
    beside = {
        path for package in packages for path in package.rglob("*.*") if path.is_file() and path.suffix not in (".py", ".pyc")
    }
    assert beside == shipped


@pytest.fixture
def unit(tmp_path: Path) -> Path:
    """The unit file with a program that exists on every machine, everything else as shipped."""
    text = (ROOT / "systemd/floorhand.service").read_text("utf-8")
    path = tmp_path / "floorhand.service"
    path.write_text(re.sub(r"^ExecStart=\S+", "ExecStart=/bin/true", text, flags=re.MULTILINE), encoding="utf-8")
    return path


@pytest.mark.req("O6")
def test_systemd_understands_every_line_of_the_unit(unit: Path) -> None:
    checked = subprocess.run(
        ["systemd-analyze", "verify", "--recursive-errors=no", str(unit)], capture_output=True, text=True, timeout=60, check=False
    )
    assert (checked.returncode, checked.stdout + checked.stderr) == (0, "")  # unknown keys only warn: silence is the pass


@pytest.mark.req("O6", "X3")
def test_the_unit_is_hardened(unit: Path) -> None:
    # Of the 2.1 allowed, 0.6 are for asking the clock: what may ask counts here as what may set, whatever the capabilities.
    judged = subprocess.run(
        ["systemd-analyze", "security", "--offline=yes", "--threshold=21", str(unit)],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert judged.returncode == 0, judged.stdout[-300:]


def allowed_calls(unit_text: str) -> set[str]:
    """What is left of the system calls, as systemd.exec(5) reads a unit: lists are added in order, those with ``~`` taken off."""
    shown = subprocess.run(["systemd-analyze", "syscall-filter"], capture_output=True, text=True, timeout=60, check=True).stdout
    sets = {
        match[1]: {line.strip() for line in match[2].splitlines()[1:] if line.strip() and "#" not in line}
        for match in re.finditer(r"^(@[\w-]+)\n((?:    .*\n)*)", shown, re.MULTILINE)
    }

    def flat(name: str) -> set[str]:
        return set().union(*(flat(member) for member in sets[name])) if name.startswith("@") else {name}

    left: set[str] = set()
    for line in re.findall(r"^SystemCallFilter=(.*)$", unit_text, re.MULTILINE):
        named = set().union(*(flat(name) for name in line.removeprefix("~").split()))
        left = left - named if line.startswith("~") else left | named
    return left


@pytest.mark.req("O6", "R4", "R5")
@pytest.mark.field("FC-B01")
def test_the_unit_lets_the_clock_be_asked_and_not_set(unit: Path) -> None:
    """A clock that cannot be asked counts as unsynced for ever, and ages of what a reboot interrupted as unknown."""
    text = unit.read_text("utf-8")
    calls = allowed_calls(text)
    assert {"read", "adjtimex", "clock_adjtime", "clock_adjtime64", "timerfd_create", "clock_gettime"} <= calls
    assert not {"clock_settime", "settimeofday", "setuid", "reboot"} & calls
    settings = dict(line.split("=", 1) for line in text.splitlines() if re.match(r"\w+=", line))
    assert settings["ProtectClock"] == "no"  # it has a filter of its own, which SystemCallFilter cannot open
    assert (settings["CapabilityBoundingSet"], settings["AmbientCapabilities"]) == ("", "")  # setting it takes CAP_SYS_TIME


@pytest.mark.req("O6")
@pytest.mark.field("FC-B01", "FC-B02", "FC-R10")
def test_the_unit_waits_for_neither_network_nor_time_and_gives_up_only_on_configuration() -> None:
    lines = [line for line in (ROOT / "systemd/floorhand.service").read_text("utf-8").splitlines() if not line.startswith("#")]
    settings = dict(line.split("=", 1) for line in lines if "=" in line)
    ordering = [line for line in lines if line.startswith(("After=", "Wants=", "Requires=", "BindsTo="))]
    assert not [line for line in ordering if "network" in line or "time" in line]
    assert not [line for line in ordering if line.startswith(("Requires=", "BindsTo="))]
    assert settings["Type"] == "notify"
    assert float(settings["WatchdogSec"]) > 45  # the ceiling of one tool call
    assert (settings["Restart"], settings["RestartPreventExitStatus"], settings["StartLimitIntervalSec"]) == ("always", "78", "0")


@pytest.mark.req("P3")
def test_the_top_level_is_as_promised() -> None:
    for name in ("appliance", "drivers", "voice", "config", "systemd", "image", "tests", "Makefile", "README.md"):
        assert (ROOT / name).exists(), name


def test_make_lists_its_targets_by_default() -> None:
    listed = subprocess.run(["make", "-s"], cwd=ROOT, capture_output=True, text=True, timeout=20, check=True).stdout
    for target in ("help", "setup", "demo", "test", "run", "check", "lock", "requirements", "clean"):
        assert re.search(rf"^  make {target} +\S", listed, re.MULTILINE), target


def test_scripts_are_sound_shell() -> None:
    for script in ("tools/setup.sh", "tools/lock.sh", ".ci/run"):
        path = ROOT / script
        assert path.stat().st_mode & 0o111, script
        shell = "bash" if script == ".ci/run" else "sh"
        subprocess.run([shell, "-n", str(path)], check=True, timeout=20)
