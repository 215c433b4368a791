"""The reference story on a real site, typed instead of spoken, and what the books say when everything has come to rest."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from demo.site import Site
from tests.support.site import COUNTED, Books, ask, log_of, plant_counts, running_site, until_said

HEAT, SET = "what is the temperature of motor three", "set the fan speed of motor three to maximum"


@dataclass
class Told:
    """What was seen while the story ran; the books are read after it."""

    books: Books
    procedures: Path
    answers: dict[str, dict[str, Any]] = field(default_factory=dict)
    question: dict[str, Any] = field(default_factory=dict)
    orders: list[dict[str, Any]] = field(default_factory=list)
    order: dict[str, Any] = field(default_factory=dict)
    offline_status: dict[str, Any] = field(default_factory=dict)
    second_core: tuple[int, str, int] = (0, "", 0)
    counts: dict[str, Any] = field(default_factory=dict)
    at_coordinator: dict[str, int] = field(default_factory=dict)
    speech_bytes: int = 0
    stop_code: int = -1
    stop_s: float = 0.0
    lanes_then: dict[str, int] = field(default_factory=dict)
    taken_over: list[dict[str, Any]] = field(default_factory=list)
    next_stop_code: int = -1
    next_status: dict[str, Any] = field(default_factory=dict)


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Told:
    """Tell the story once, to the end."""
    return asyncio.run(tell(tmp_path_factory.mktemp("story")))


async def tell(folder: Path) -> Told:
    async with running_site(folder, until_hearing=False) as site:
        told = Told(Books(site.database), site.data / "procedures")
        await online(site, told)
        await second_core(site, told)
        await offline(site, told)
        await back(site, told)
        begun_s = time.monotonic()
        told.stop_code = await site.core.stop()
        told.stop_s = time.monotonic() - begun_s
        told.counts = await plant_counts(site)
        told.orders = (await site.at_coordinator("GET", "/v1/work-orders"))["work_orders"]
        told.at_coordinator = (await site.at_coordinator("GET", f"/v1/operations/count?device={site.device}"))["lanes"]
        told.speech_bytes = site.speech.stat().st_size
        told.lanes_then = told.books.verified_lanes()
        await site.start_core(until_hearing=False)
        told.next_status = await site.client.get("/v1/status")
        told.next_stop_code = await site.core.stop()
        told.taken_over = [event for event in log_of(site) if event["event"] == "ledger.taken_over"]
        return told


async def online(site: Site, told: Told) -> None:
    await site.plant.order(do="overheat", asset="motor_3")
    (told.question,) = await site.client.until("/v1/confirmations", lambda rows: rows, what="the question", within_s=30)
    told.answers["order"] = await ask(site, "yes")
    (told.order,) = await site.client.until(
        "/v1/work-orders", lambda rows: [r for r in rows if r["number"]], what="the work order numbered", within_s=30
    )


async def second_core(site: Site, told: Told) -> None:
    other = site.make_core("second")
    await other.start()
    with pytest.raises(RuntimeError):  # it ends by itself
        await other.report(lambda _: False, within_s=30)
    told.second_core = (await other.stop(), (site.logs / "second.log").read_text("utf-8"), site.core.pid)


async def offline(site: Site, told: Told) -> None:
    await site.coordinator.stop()
    told.offline_status = await site.client.until(
        "/v1/status", lambda status: not status["online"] and status, what="the loss noticed", within_s=30
    )
    for name, text in (("heat", HEAT), ("too much", "set the fan speed of motor three to one hundred and fifty percent"), ("set", SET),
                       ("bare", "yes"), ("confirm", "yes confirm")):  # fmt: skip
        told.answers[name] = await ask(site, text)
    await site.plant.order(do="pressure_drop", asset="pump_3")
    await site.client.until("/v1/confirmations", lambda rows: rows, what="the second question", within_s=30)
    told.answers["no order"] = await ask(site, "no")
    await until_said(site, "The coordinator cannot be reached.")


async def back(site: Site, told: Told) -> None:
    await site.start_coordinator()
    await until_said(site, "The coordinator is back.", within_s=60)
    await site.plant.order(do="recover", asset="motor_3")
    await until_said(site, "Back to normal: Motor three over temperature.")
    await site.client.until(
        "/v1/sync", lambda sync: all(lane["pending"] == 0 for lane in sync["lanes"]), what="the log carried over", within_s=60
    )


# what must hold -------------------------------------------------------------------------------------------------------
@pytest.mark.req("P2", "F7", "F5")
def test_every_published_alarm_is_stored_once_and_has_its_conversation(told: Told) -> None:
    stored = told.books.rows("SELECT dedupe_key, outcome FROM admission WHERE kind = 'alarm'")
    assert len(stored) == told.counts["acked"] == told.counts["published"] == 3
    assert {row["outcome"] for row in stored} == {"done"}
    alarms = told.books.rows("SELECT * FROM alarm ORDER BY seq")
    assert [(alarm["asset"], alarm["state"]) for alarm in alarms] == [
        ("motor_3", "returned_unacknowledged"), ("pump_3", "unacknowledged"),
    ]  # fmt: skip
    assert len({alarm["session_id"] for alarm in alarms} - {None}) == 2


@pytest.mark.req("P4", "S7")
def test_the_yes_made_one_work_order_which_the_coordinator_numbered(told: Told) -> None:
    assert told.question["question"] == "Shall I create a work order?"
    assert (told.answers["order"]["state"], told.answers["order"]["replies"]) == ("idle", ["The work order is created."])
    assert [(order["id"], order["number"]) for order in told.orders] == [(told.order["id"], told.order["number"])]
    assert told.books.count("SELECT count(*) FROM work_order") == 1


@pytest.mark.req("P4", "M4")
def test_the_report_is_a_commit_in_procedural_memory(told: Told) -> None:
    effects = told.books.rows("SELECT * FROM effect WHERE tool = 'write_report' ORDER BY seq")
    assert [effect["status"] for effect in effects] == ["applied", "applied"]  # of either alarm
    result = json.loads(effects[0]["result"])
    commits = git(told.procedures, "log", "--format=%H", "--", result["path"]).split()
    assert commits == [result["commit"]]
    report = git(told.procedures, "show", f"{result['commit']}:{result['path']}")
    assert "Motor three over temperature" in report and "work order wanted: yes" in report and "motor fan failing" in report
    assert git(told.procedures, "status", "--porcelain") == ""


def git(folder: Path, *arguments: str) -> str:
    environ = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"}
    command = ["git", "-c", "safe.directory=*", *arguments]
    return subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True, check=True).stdout


@pytest.mark.req("M2", "P4")
def test_the_alarm_is_remembered_and_similar_cases_were_found(told: Told) -> None:
    said = told.books.rows("SELECT text FROM delivery WHERE text LIKE 'The closest of % similar cases:%'")
    assert len(said) == 2
    assert told.books.count("SELECT count(*) FROM memory WHERE tier = 'episodic' AND fault = 'over_temperature'") >= 1


@pytest.mark.req("P1", "C9", "A1", "V4", "F4")
def test_offline_everything_goes_on(told: Told) -> None:
    answers = told.answers
    assert "coordinator" in told.offline_status["degraded"] and told.offline_status["ready"]
    assert answers["heat"]["replies"][0].startswith("The temperature of motor 3 is ")
    assert answers["too much"]["outcome"] == "refused"
    assert answers["too much"]["replies"] == ["I cannot do that. Fan speed can be set from 0 to 100 percent."]
    assert answers["set"]["state"] == "confirming" and answers["bare"]["intent"] == "needs_keyword"
    assert answers["confirm"]["replies"] == ["The fan speed of motor 3 is now 100 percent."]
    assert answers["no order"]["replies"] == ["No work order."]
    offline = told.books.rows("SELECT intent FROM turn WHERE offline = 1 ORDER BY seq")
    assert [row["intent"] for row in offline][:5] == ["read_tag", "set_tag", "set_tag_to_limit", "needs_keyword", "alarm_raised"]


@pytest.mark.req("F4", "T6")
def test_the_machine_was_written_to_once(told: Told) -> None:
    assert told.counts["writes"] == {"1:holding_register:0": 1}
    writes = told.books.rows("SELECT * FROM effect WHERE tool = 'write_tag'")
    assert [(effect["status"], effect["settled_by"], effect["was_unknown"]) for effect in writes] == [("applied", "reply", 0)]


@pytest.mark.req("Y1", "C10")
def test_the_coordinator_has_the_whole_log_and_every_chain_holds(told: Told) -> None:
    lanes = told.lanes_then
    assert {lane: told.at_coordinator.get(lane, 0) for lane in COUNTED} == {lane: lanes[lane] for lane in COUNTED}
    assert min(lanes[lane] for lane in COUNTED) > 0
    links = told.books.rows("SELECT kind FROM operation WHERE kind LIKE 'link.%' ORDER BY seq")
    assert [row["kind"] for row in links] == ["link.lost", "link.back"]


@pytest.mark.req("R1", "S3")
def test_nothing_is_left_under_way(told: Told) -> None:
    assert told.books.rows("SELECT id FROM admission WHERE status <> 'terminal'") == []
    assert told.books.rows("SELECT id FROM turn WHERE state NOT IN ('idle', 'failed', 'abandoned', 'confirming')") == []
    assert told.books.rows("SELECT action_id FROM effect WHERE status IN ('intended', 'unknown')") == []


@pytest.mark.req("R2")
def test_a_second_core_on_the_same_ledger_ends_and_names_the_first(told: Told) -> None:
    code, text, first_pid = told.second_core
    assert code == 1
    assert f"belongs to process {first_pid}" in text and "Traceback" not in text


@pytest.mark.req("R4", "R8")
@pytest.mark.field("FC-R09")
def test_it_stops_within_its_bound_and_the_next_start_knows(told: Told) -> None:
    assert told.stop_code == 0 and told.stop_s < 15
    assert [event["previous_clean"] for event in told.taken_over] == [True, True]
    assert told.taken_over[1]["resumed"] == 0
    assert told.next_status["epoch"] == 2 and told.next_stop_code == 0
    assert told.books.rows("SELECT epoch FROM owner WHERE ended_utc IS NULL") == []


@pytest.mark.req("V5", "R5")
def test_what_was_said_went_through_the_loudspeaker(told: Told) -> None:
    first = told.books.rows("SELECT * FROM delivery ORDER BY seq LIMIT 1")[0]
    assert first["status"] == "delivered" and first["first_audio_mono_ns"] > first["queued_mono_ns"]
    assert told.speech_bytes > 44_100  # a second of speech at least
