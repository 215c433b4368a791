"""Half a minute of ``make soak``: the whole site under load, killed and started again; then the books are compared."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from crash.soak import Soak, pace, run_once, verdict
from crash.soak_books import Findings
from crash.soak_watch import Life, Sample, slope, sparkline

PACE = replace(pace(0, quick=True), ready_within_s=60)  # a machine that runs other tests beside it


@pytest.fixture(scope="module")
def soaked(tmp_path_factory: pytest.TempPathFactory) -> tuple[Soak, Findings]:
    return asyncio.run(run_once(PACE, 4, tmp_path_factory.mktemp("soak") / "site", lambda _: None))


@pytest.mark.req("R1", "R2")
def test_whatever_is_killed_nothing_accepted_is_lost_and_nothing_is_done_twice(soaked: tuple[Soak, Findings]) -> None:
    soak, findings = soaked
    said, faults = verdict(soak, findings, PACE)
    assert faults == []
    assert said["ok"]
    assert said["kills"] >= 2
    assert said["admissions"] > 80
    assert said["lanes"] > 30
    assert findings.effects.get("applied", 0) > 2
    assert soak.gateway.repeated > 3


def test_too_much_memory_is_a_fault_however_short_the_run(soaked: tuple[Soak, Findings]) -> None:
    soak, findings = soaked
    said, _ = verdict(soak, findings, PACE)
    assert 20 < said["rss_max"] < 400 and said["rss_slope"] is None  # its lives are too short to tell a slope
    soak.watch.lives.append(Life(99, 1.0, samples=[Sample(9, 9, 401.0, 20, 9, 4.0, 0)]))
    said, faults = verdict(soak, findings, PACE)
    soak.watch.lives.pop()
    assert not said["ok"] and "the core took 401.0 MB of memory" in faults


def test_a_core_that_is_asked_to_end_ends_well(soaked: tuple[Soak, Findings]) -> None:
    assert soaked[0].wrong == []


def test_growth_is_told_from_noise() -> None:
    life = Life(1, 1.0)
    for second in range(60):
        life.samples.append(Sample(second, second, 100 + second % 3 + max(0, 20 - second), 20, 9, 4.0, 0))
    assert abs(life.slope(lambda sample: sample.rss_mb, 25, 30) or 0) < 1
    life.samples = [Sample(s, s, 100 + s / 2, 20 + s // 4, 9, 4.0, 0) for s in range(60)]
    assert life.slope(lambda sample: sample.rss_mb, 25, 30) == pytest.approx(30)
    assert (life.slope(lambda sample: sample.fds, 25, 30) or 0) > 10
    assert life.slope(lambda sample: sample.fds, 50, 30) is None
    assert slope([0, 1, 2], [5, 5, 5]) == 0
    assert sparkline([0, 1, 2, 3]) == "▁▃▆█"
