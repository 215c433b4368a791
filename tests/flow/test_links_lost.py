"""Broker, PLC and coordinator are lost for a while: it is said, what can be done is done, and nothing is missing after."""

from __future__ import annotations

import pytest

from appliance.contracts.admission import PRIORITY_UTTERANCE
from tests.support.story import BACK, LOST, PLC_SAID, Told


@pytest.mark.req("R8")
def test_lost_links_are_named_and_the_core_stays_ready(told: Told) -> None:
    status = told.lost_status
    assert status["ready"] and not status["online"] and not status["mqtt_connected"]
    assert "cannot see the PLC at 127.0.0.1" in status["degraded"]["plc:line_3"]


@pytest.mark.req("R8", "F7")
@pytest.mark.parametrize("said", [*LOST, *BACK])
def test_each_loss_and_each_return_is_said_once(told: Told, said: str) -> None:
    (row,) = told.books.rows("SELECT turn_id, priority FROM delivery WHERE text LIKE ?", f"{said}%")
    answers = PRIORITY_UTTERANCE
    assert row["priority"] < answers if "coordinator" in said else row["priority"] > answers
    by_alarm = said in PLC_SAID  # the plant model has an alarm of that link, which tells of it in its own conversation
    assert (row["turn_id"] is not None) == by_alarm


@pytest.mark.req("R8", "F7")
def test_a_plc_that_cannot_be_seen_is_one_alarm_and_nothing_besides(told: Told) -> None:
    (alarm,) = told.books.rows("SELECT * FROM alarm WHERE alarm_id = 'line_3_unreachable'")
    assert alarm["session_id"] and alarm["cleared_utc"]
    assert told.books.count("SELECT count(*) FROM delivery WHERE text LIKE '%see the PLC%'") == 0


@pytest.mark.field("FC-F05")
def test_a_value_from_before_the_silence_is_said_to_be_old(told: Told) -> None:
    (reply,) = told.answers["stale"]["replies"]
    assert reply.startswith("The temperature of motor 3 is last good value ") and reply.endswith(" ago.")
    tag = told.lost_tags["motor_3.temperature"]
    assert tag["quality"] == "stale" and tag["age_s"] > 0 and tag["value"] > 50 and tag["why"]


def test_a_value_never_read_is_no_number(told: Told) -> None:
    assert told.answers["never read"]["replies"] == ["The belt speed of conveyor 3 is not readable."]
    tag = told.lost_tags["conveyor_3.speed"]
    assert (tag["quality"], tag["value"], tag["age_s"]) == ("bad", None, None)


@pytest.mark.req("F7")
def test_everything_comes_back_unaided(told: Told) -> None:
    status = told.back_status
    assert status["online"] and status["mqtt_connected"]
    assert not {"coordinator", "mqtt", "plc:line_3"} & status["degraded"].keys()
    assert (told.back_tag["quality"], told.back_tag["value"]) == ("good", 100)


@pytest.mark.req("F7")
def test_an_alarm_raised_while_the_broker_was_away_is_not_lost(told: Told) -> None:
    assert told.held_back == 2  # only the first alarm had come in by then, and that of the PLC itself
    assert told.answers["no order"]["replies"] == ["No work order."]
    assert told.books.count("SELECT count(*) FROM alarm WHERE asset = 'pump_3'") == 1


@pytest.mark.req("C10")
def test_the_log_tells_when_the_coordinator_was_away(told: Told) -> None:
    links = told.books.rows("SELECT kind FROM operation WHERE kind LIKE 'link.%' ORDER BY seq")
    assert [row["kind"] for row in links] == ["link.lost", "link.back"]
