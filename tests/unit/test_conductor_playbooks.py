"""Procedures that are asked for, from the sentence to the last word."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.hall import Hall, open_hall


@pytest.fixture
async def hall(tmp_path: Path) -> AsyncIterator[Hall]:
    async with open_hall(tmp_path) as hall:
        yield hall


@pytest.mark.req("A1", "T1")
async def test_a_motor_is_checked_and_what_stands_out_leads_to_a_work_order_on_a_yes(hall: Hall) -> None:
    admission = await hall.say("check motor three")
    turn = await hall.turn(admission.turn_id)
    assert (turn["intent"], turn["state"]) == ("run_playbook", "confirming")
    said = await hall.said(turn["id"])
    assert said[0] == "Motor 3: temperature 94 degrees Celsius, load 80 percent, vibration 2.5 millimetres per second."
    assert said[1] == "It is too hot at a normal load. Check the fan and its filter."
    assert said[-1] == "Shall I create a work order for motor 3?"
    assert not any("shakes" in text or "Nothing stands out" in text or "Take load off" in text for text in said)
    await hall.speak_all()
    await hall.say("yes")
    order = await hall.bench.one("SELECT asset, title, detail FROM work_order")
    assert (order["asset"], order["title"]) == ("motor_3", "Check motor 3")
    assert order["detail"].startswith("Temperature 94 degrees Celsius, load 80 percent")
    assert (await hall.said(turn["id"]))[-1] == "The work order is created."


async def test_a_motor_without_anything_to_note_asks_nothing(hall: Hall) -> None:
    hall.bus.values |= {"motor_3.temperature": 60.0}
    turn = await hall.turn((await hall.say("请检查一下三号电机", language="zh")).turn_id)
    assert turn["state"] == "idle"
    said = await hall.said(turn["id"])
    assert said[0].startswith("3号电机：温度60摄氏度")
    assert said[-1] == "没有发现异常。"


async def test_procedures_are_listed_and_read_aloud(hall: Hall) -> None:
    listed = await hall.said((await hall.say("what procedures do you have")).turn_id)
    assert listed == ["I know 5 procedures: motor check, controller unreachable, low pressure, over temperature and overcurrent."]
    (read,) = await hall.said((await hall.say("read me the procedure overcurrent")).turn_id)
    assert read.startswith("Procedure overcurrent. The alarm says that a drive draws more current")
    (steps,) = await hall.said((await hall.say("读一下流程过流", language="zh")).turn_id)
    assert steps.startswith("流程“过流”。步骤：1. ")


@pytest.mark.parametrize(
    ("said", "answer"),
    [
        ("check pump three", "I cannot do that. The procedure motor check is not for pump 3."),
        ("run the procedure motor check", "Say for example: check motor 3."),
        ("run the procedure low pressure", "I can read it to you."),
    ],
)
async def test_what_cannot_be_run_says_what_to_do(hall: Hall, said: str, answer: str) -> None:
    (text,) = await hall.said((await hall.say(said)).turn_id)
    assert answer in text
