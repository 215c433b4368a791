"""``make crash``: kill points, random histories, power cuts.

Prints a table; the last line is JSON, and the exit code says the same.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from crash import power, random_histories
from crash.kill_points import campaign, story
from crash.sabotage import SABOTAGES

KEEP = Path("build/crash")
PARTS = ("points", "histories", "power")


def _tell(line: str) -> None:
    print(f"crash: {line}", file=sys.stderr, flush=True)


def _combined(points: dict[str, Any], others: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Return one object: the kill points' figures on top, what was lost by power cuts among them, and each part's own."""
    power_cuts = others.get("power", {})
    lost, broken = points.get("lost", 0) + power_cuts.get("lost", 0), points.get("broken", 0) + power_cuts.get("corrupt", 0)
    ok = points.get("ok", True) and all(part["ok"] for part in others.values())
    known = {"ok": ok, "points": 0, "doubled": 0, "unknown": 0} | points
    return known | {"ok": ok, "lost": lost, "broken": broken} | others


def main() -> int:
    """Run, print, and say it in one number."""
    parser = argparse.ArgumentParser(
        prog="python -m crash", description="Kill the core everywhere, cut its power, and look what is lost or done twice"
    )
    parser.add_argument("--quick", action="store_true", help="a sample of everything, in some minutes")
    parser.add_argument("--only", action="append", default=[], choices=PARTS, help="run this part; may be repeated")
    parser.add_argument("--point", type=int, help="kill at this point of the story only, and at every point of its recovery")
    parser.add_argument("--sabotage", choices=sorted(SABOTAGES), default="", help="put a fault into the product first")
    parser.add_argument("--list", action="store_true", help="number the points of the story, as --point takes them")
    options = parser.parse_args()
    if options.list:
        for number, point in enumerate(story(_tell)):
            print(f"{number:4} {point.name}")
        return 0
    parts = ["points"] if options.point is not None or options.sabotage else options.only or PARTS
    KEEP.mkdir(parents=True, exist_ok=True)
    points: dict[str, Any] = {}
    others: dict[str, dict[str, Any]] = {}
    if "points" in parts:
        tally = campaign(options.quick, _tell, point=options.point, sabotage=options.sabotage, keep_in=KEEP)
        tally.print()
        points = tally.to_json()
    if "histories" in parts:
        others["random_histories"] = random_histories.campaign(options.quick, _tell)
    if "power" in parts:
        others["power"] = power.campaign(options.quick, _tell)
    found = _combined(points, others)
    print(json.dumps(found))
    return 0 if found["ok"] else 1


if __name__ == "__main__":
    sys.exit(main())
