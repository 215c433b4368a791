"""The bench of plans and of what the runtime adds, in short."""

from __future__ import annotations

from pathlib import Path

import pytest

from appliance.contracts.plant import Plant
from appliance.planning.phrases import Phrasebook
from appliance.planning.playbooks.playbooks import Playbooks
from bench.agent import BENCH
from bench.agent_overhead import measure_overhead, note
from bench.agent_planning import ASSETS, TAGS_EACH, measure_planning
from bench.figures import Findings
from bench.fsync import Disk
from bench.plants import floor_plant
from bench.utterances import utterances
from tests.support.planning import CONFIG


@pytest.fixture(scope="module")
def floor() -> tuple[Phrasebook, Plant]:
    plant = Plant.model_validate(floor_plant(8, 5))
    book = Phrasebook.load(CONFIG / "phrases", plant).knowing(Playbooks.load(CONFIG / "playbooks", "bench"))
    return book, plant


def test_sentences_are_of_the_phrase_set_in_both_languages_and_the_same_each_time(floor: tuple[Phrasebook, Plant]) -> None:
    book, plant = floor
    said = list(utterances(book, plant, 300, seed=5))
    assert said == list(utterances(book, plant, 300, seed=5)) != list(utterances(book, plant, 300, seed=6))
    assert {language for _, language in said} == {"en", "zh"}
    meant = [intent.name for text, language in said if (intent := book.understand(text, language)) is not None]
    assert len(meant) > 200 and {"read_tag", "set_tag", "trend_of_tag", "create_work_order", "confirm"} <= set(meant)
    assert plant.tag_by_key.keys() >= {"machine_0.signal_0", "machine_7.signal_4"}


async def test_plans_are_made_of_sentences_and_timed(tmp_path: Path) -> None:
    findings = Findings()
    await measure_planning(findings, tmp_path, count=40)
    figures = findings.figures
    assert (figures["tags"], figures["utterances"]) == (ASSETS * TAGS_EACH, 40) == (500, 40)
    assert sum(figures["utterances_came_to"].values()) == 40 and figures["utterances_came_to"]["planned"] > 20
    assert 0 < figures["utterance_to_plan_ms"]["p50"] <= figures["utterance_to_plan_ms"]["p99"]
    assert figures["utterance_to_plan_cpu_ms"]["p99"] < 50 and figures["plans_s"] > 10
    assert findings.reaches["utterance_to_plan_p99_ms"].bound == 5.0


async def test_what_the_runtime_adds_is_measured_beside_commits_on_the_same_ledger(tmp_path: Path) -> None:
    findings = Findings()
    await measure_overhead(findings, tmp_path, Disk(tmp_path), turns=2)
    assert findings.figures["tool_overhead_ms"]["p50"] > 0 and findings.figures["commit_ms"]["p50"] > 0


def test_the_reach_is_two_commits_and_a_millisecond() -> None:
    findings = Findings()
    note(findings, [5.0] * 99 + [6.9], [2.0] * 99 + [3.0])
    assert findings.reaches["tool_overhead_p50_ms"].is_met and findings.reaches["tool_overhead_p50_ms"].bound == 5.0
    note(findings, [5.1] * 100, [2.0] * 100)
    assert not findings.reaches["tool_overhead_p50_ms"].is_met
    assert list(BENCH.parts(True)) == ["planning", "overhead"]
