"""Prints every promise of docs/requirements.md with the tests that prove it. Nothing is run and nothing imported.

Usage: python3 tools/requirements_report.py [--all]. Without ``--all`` only counts and the rows with tests are listed in full.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

_ROOT = Path(__file__).resolve().parent.parent
_ROW = re.compile(r"\| ([A-Z]+\d+|FC-[A-Z]\d+) \| (.+?) \|")
_LAST_FAILED = _ROOT / ".pytest_cache/v/cache/lastfailed"


def promises() -> dict[str, str]:
    """Return id -> promise, in the order of the page."""
    return dict(_ROW.findall((_ROOT / "docs/requirements.md").read_text(encoding="utf-8")))


def marked_tests(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield (id, test) for every mark on a test function, its class or its module."""
    for path in sorted(folder.rglob("test_*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"), str(path))
        place = path.relative_to(_ROOT).as_posix()
        marks = [node.value for node in tree.body if isinstance(node, ast.Assign) and _names(node) == ["pytestmark"]]
        yield from _of_body(tree.body, place, [row for mark in marks for row in _ids(mark)])


def _of_body(body: list[ast.stmt], place: str, inherited: list[str]) -> Iterator[tuple[str, str]]:
    for node in body:
        if not isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        ids = inherited + [i for decorator in node.decorator_list for i in _ids(decorator)]
        if isinstance(node, ast.ClassDef):
            yield from _of_body(node.body, f"{place}::{node.name}", ids)
        elif node.name.startswith("test_"):
            yield from ((i, f"{place}::{node.name}") for i in dict.fromkeys(ids))


def _ids(expression: ast.expr) -> Iterator[str]:
    """Yield the ids in ``pytest.mark.req(...)`` and ``pytest.mark.field(...)`` anywhere in an expression."""
    for node in ast.walk(expression):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("req", "field"):
            yield from (a.value for a in node.args if isinstance(a, ast.Constant) and isinstance(a.value, str))


def _names(node: ast.Assign) -> list[str]:
    return [target.id for target in node.targets if isinstance(target, ast.Name)]


def _failed_last() -> set[str]:
    if not _LAST_FAILED.exists():
        return set()
    return {name.partition("[")[0] for name in json.loads(_LAST_FAILED.read_text(encoding="utf-8"))}


def main() -> int:
    """Print the report; exit code 1 when a test names a row that does not exist."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--all", action="store_true", help="name every test")
    show_tests = parser.parse_args().all
    known, proofs, failed = promises(), defaultdict(list), _failed_last()
    for row, test in marked_tests(_ROOT / "tests"):
        proofs[row].append(test)
    for title, ids in (("Rows", [i for i in known if "-" not in i]), ("Field cases", [i for i in known if "-" in i])):
        proven = [i for i in ids if proofs.get(i)]
        sys.stdout.write(f"\n{title}: {len(proven)} with tests, {len(ids) - len(proven)} not built yet\n")
        for row in ids:
            tests = proofs.get(row, [])
            broken = [test for test in tests if test in failed]
            state = "FAILED LAST" if broken else f"proven ({len(tests)})" if tests else "not built yet"
            sys.stdout.write(f"  {row:7} {state:14} {known[row]}\n")
            sys.stdout.writelines(f"{'':10}{test}\n" for test in (tests if show_tests else broken))
    unknown = sorted(set(proofs) - set(known))
    sys.stdout.writelines(f"\nno such row: {row}, named by {proofs[row][0]}\n" for row in unknown)
    return 1 if unknown else 0


if __name__ == "__main__":
    sys.exit(main())
