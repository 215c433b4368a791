"""Rules of the house that linters do not know."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PRODUCT = ("appliance", "drivers", "voice")
SKIPPED = {".git", ".venv", "var", "build", "__pycache__", ".mypy_cache", ".ruff_cache", ".pytest_cache", ".hypothesis"}
LONGEST_FILE_LINES = 400

# Call -> files that own it. Everything else gets a Clock or an IdSource handed in, and waits for conditions.
CLOCKS = {"time.time", "time.time_ns", "time.monotonic", "time.monotonic_ns", "time.perf_counter", "time.clock_gettime_ns"}
CLOCKS |= {"datetime.now", "datetime.utcnow", "datetime.today", "date.today", "datetime.datetime.now"}
OWNERS = {
    **dict.fromkeys(CLOCKS, "appliance/foundation/system_clock.py"),
    **dict.fromkeys(("uuid.uuid1", "uuid.uuid4", "uuid1", "uuid4"), "appliance/foundation/id_source.py"),
    "time.sleep": "",
}


def files(*suffixes: str) -> Iterator[Path]:
    for path in sorted(ROOT.rglob("*")):
        inside = path.relative_to(ROOT)
        skipped = SKIPPED.intersection(inside.parts) or inside.name.endswith(".egg-info") or ".egg-info" in str(inside)
        if path.is_file() and not skipped and (not suffixes or path.suffix in suffixes):
            yield path


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def dotted(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def calls(path: Path) -> Iterator[tuple[str, ast.Call]]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call):
            yield dotted(node.func), node


def test_files_stay_readable() -> None:
    long = {
        name_of(path): lines for path in files(".py") if (lines := len(path.read_text("utf-8").splitlines())) > LONGEST_FILE_LINES
    }
    assert long == {}


def test_clocks_and_ids_are_handed_in() -> None:
    found = [
        f"{name_of(path)}:{call.lineno}: {name}"
        for path in files(".py")
        if name_of(path).startswith(PRODUCT)
        for name, call in calls(path)
        if name in OWNERS and name_of(path) != OWNERS[name]
    ]
    assert found == []


def test_tests_wait_for_conditions_not_for_time() -> None:
    found = []
    for path in files(".py"):
        if name_of(path).startswith("tests/"):
            asked_again = {call.lineno for loop in loops(path) for call in ast.walk(loop) if isinstance(call, ast.Call)}
            found += [
                f"{name_of(path)}:{call.lineno}: {name}"
                for name, call in calls(path)
                if name == "time.sleep" or (name == "asyncio.sleep" and call.lineno not in asked_again and not _is_zero(call))
            ]
    assert found == []


def loops(path: Path) -> Iterator[ast.AST]:
    """Sleeping between two looks at another process' condition is waiting for it; sleeping outside a loop is hoping."""
    return (node for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, ast.While | ast.For | ast.AsyncFor))


def _is_zero(call: ast.Call) -> bool:
    return bool(call.args) and isinstance(call.args[0], ast.Constant) and call.args[0].value == 0


def test_nothing_but_tests_imports_from_the_tests() -> None:
    found = [
        f"{name_of(path)}:{node.lineno}"
        for path in files(".py")
        if not name_of(path).startswith("tests/")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in ([node.module or ""] if isinstance(node, ast.ImportFrom) else [each.name for each in node.names])
        if name.partition(".")[0] == "tests"
    ]
    assert found == []


def test_nothing_swallows_everything_but_the_supervisor() -> None:
    found = [
        f"{name_of(path)}:{node.lineno}"
        for path in files(".py")
        if name_of(path).startswith((*PRODUCT, "demo"))
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.ExceptHandler) and (node.type is None or dotted(node.type) == "Exception")
        if not isinstance(node.body[-1], ast.Raise)  # some libraries raise bare Exception; their adapter gives it a name
    ]
    assert [place for place in found if not place.startswith("appliance/foundation/supervisor.py")] == []


@pytest.mark.parametrize(
    ("what", "pattern"),
    [
        # Names what must stand nowhere else; this file is the one place left out of the search below.
        ("index address", r"(?<!no-emit-)(?:index-url|find-links)|pypi\.org|pythonhosted|registry\.npm"),
        ("path of a developer's machine", r"(?:^|[^A-Za-z0-9_.$~-])/(?:work|root|tmp)/"),
        ("left for later", r"\b(?:TODO|FIXME|XXX)\b"),
        ("how the work is organised", r"\.\./shared|\bissue #?\d|\bissues show\b|\bagent session"),
    ],
)
def test_no_file_holds(what: str, pattern: str) -> None:
    own, sought = name_of(Path(__file__)), re.compile(pattern, re.MULTILINE)
    found = []
    for path in files():
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        found += [f"{name_of(path)}: {hit[0].strip()}" for hit in sought.finditer(text) if name_of(path) != own]
    assert found == [], what


def test_imports_go_one_way() -> None:
    program = Path(sys.executable).with_name("lint-imports")
    ended = subprocess.run([program, "--no-cache"], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 0, ended.stdout


def test_tests_name_promises_that_exist() -> None:
    report = subprocess.run(
        [sys.executable, "tools/requirements_report.py"], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert report.returncode == 0, report.stdout[-500:]
    assert "Field cases:" in report.stdout
