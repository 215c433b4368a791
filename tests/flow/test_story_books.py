"""What the books say when the reference story has been told and everything has come to rest."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.support.site import COUNTED
from tests.support.story import Told


@pytest.mark.req("P2", "F7")
def test_every_published_alarm_is_stored_once_and_has_its_conversation(told: Told) -> None:
    stored = told.books.rows("SELECT disposition FROM alarm_event WHERE source = 'line_3_plc'")
    assert len(stored) == told.counts["acked"] == told.counts["published"] == 3
    # What came late because the broker was away may have been read from the PLC before.
    assert {row["disposition"] for row in stored} <= {"announce", "merged"}
    assert told.books.rows("SELECT outcome FROM admission WHERE kind = 'alarm' GROUP BY outcome") == [{"outcome": "done"}]
    alarms = told.books.rows("SELECT * FROM alarm WHERE asset <> 'plc_3' ORDER BY seq")
    states = {alarm["asset"]: alarm["state"] for alarm in alarms}
    assert states == {"motor_3": "returned_unacknowledged", "pump_3": "unacknowledged"}
    assert len({alarm["session_id"] for alarm in alarms} - {None}) == 2


@pytest.mark.req("P4", "S7")
def test_the_yes_made_one_work_order_which_the_coordinator_numbered(told: Told) -> None:
    assert told.question["question"] == "Shall I create a work order for motor 3?"
    assert (told.answers["order"]["state"], told.answers["order"]["replies"]) == ("idle", ["The work order is created."])
    assert [(order["id"], order["number"]) for order in told.orders] == [(told.order["id"], told.order["number"])]
    assert told.books.count("SELECT count(*) FROM work_order") == 1


@pytest.mark.req("P4")
def test_the_report_is_a_commit_in_procedural_memory(told: Told) -> None:
    effects = told.books.rows("SELECT * FROM effect WHERE tool = 'write_report' ORDER BY seq")
    assert [effect["status"] for effect in effects] == ["applied"] * 3  # of either alarm, and of the PLC that was lost
    result = json.loads(effects[0]["result"])
    assert git(told.procedures, "log", "--format=%H", "--", result["path"]).split() == [result["commit"]]
    report = git(told.procedures, "show", f"{result['commit']}:{result['path']}")
    for line in ("Motor three over temperature", "work order wanted: yes", "motor fan failing"):
        assert line in report
    assert git(told.procedures, "status", "--porcelain") == ""


def git(folder: Path, *arguments: str) -> str:
    environ = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"}
    return subprocess.run(["git", *arguments], cwd=folder, env=environ, capture_output=True, text=True, check=True).stdout


@pytest.mark.req("P4")
def test_the_alarm_is_remembered_and_similar_cases_were_found(told: Told) -> None:
    assert told.books.count("SELECT count(*) FROM delivery WHERE text LIKE 'The closest of % similar cases:%'") == 2
    assert told.books.count("SELECT count(*) FROM memory WHERE tier = 'episodic' AND fault = 'over_temperature'") >= 1


@pytest.mark.req("A1", "V4")
def test_without_the_coordinator_everything_goes_on(told: Told) -> None:
    answers = told.answers
    assert answers["heat"]["replies"][0].startswith("The temperature of motor 3 is ")
    assert answers["too much"]["outcome"] == "refused"
    assert answers["too much"]["replies"] == ["I cannot do that. Fan speed can be set from 0 to 100 percent."]
    assert answers["set"]["state"] == "confirming" and answers["bare"]["intent"] == "needs_keyword"
    assert answers["confirm"]["replies"] == ["The fan speed of motor 3 is now 100 percent."]
    offline = [row["intent"] for row in told.books.rows("SELECT intent FROM turn WHERE offline = 1 ORDER BY seq")]
    assert offline[:6] == ["read_tag", "set_tag", "set_tag_to_limit", "needs_keyword", "read_tag", "read_tag"]


def test_the_machine_was_written_to_once(told: Told) -> None:
    assert told.counts["writes"] == {"1:holding_register:0": 1}
    writes = told.books.rows("SELECT * FROM effect WHERE tool = 'write_tag'")
    assert [(effect["status"], effect["settled_by"], effect["was_unknown"]) for effect in writes] == [("applied", "reply", 0)]


@pytest.mark.req("Y1", "C10")
def test_the_coordinator_has_the_whole_log_and_every_chain_holds(told: Told) -> None:
    assert {lane: told.at_coordinator.get(lane, 0) for lane in COUNTED} == {lane: told.lanes[lane] for lane in COUNTED}
    assert min(told.lanes[lane] for lane in COUNTED) > 0


@pytest.mark.req("R1", "S3")
def test_nothing_is_left_under_way(told: Told) -> None:
    assert told.books.rows("SELECT id FROM admission WHERE status <> 'terminal'") == []
    assert told.books.rows("SELECT id FROM turn WHERE state NOT IN ('idle', 'failed', 'abandoned')") == []
    assert told.books.rows("SELECT action_id FROM effect WHERE status IN ('intended', 'unknown')") == []


@pytest.mark.req("R2")
def test_a_second_core_on_the_same_ledger_ends_and_names_the_first(told: Told) -> None:
    assert told.second_code == 1
    assert f"belongs to process {told.first_pid}" in told.second_text and "Traceback" not in told.second_text


@pytest.mark.req("R4")
def test_it_stops_within_its_bound_and_the_next_start_knows(told: Told) -> None:
    assert told.stop_code == 0 and told.stop_s < 15
    assert [event["previous_clean"] for event in told.taken_over] == [True, True]
    assert told.taken_over[1]["resumed"] == 0
    assert told.next_status["epoch"] == 2 and told.next_stop_code == 0
    assert told.books.rows("SELECT epoch FROM owner WHERE ended_utc IS NULL") == []


@pytest.mark.req("R5")
def test_what_was_said_went_through_the_loudspeaker(told: Told) -> None:
    first = told.books.rows("SELECT * FROM delivery WHERE channel = 'speech' ORDER BY seq LIMIT 1")[0]
    assert first["status"] == "delivered" and first["first_audio_mono_ns"] > first["queued_mono_ns"]
    assert told.speech_bytes > 44_100  # a second of speech at least
