"""What is posted to the group robots of WeCom and DingTalk, what their answers mean, and that no key is ever told."""

from __future__ import annotations

import asyncio
import json
import logging
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from appliance.contracts.alarm import Alarm, AlarmState
from appliance.delivery.message_text import cut, message_text
from appliance.delivery.settings import WebhookEvent, WebhookSettings
from appliance.delivery_rooms import alarm_told
from appliance.foundation.log import JsonLines
from tests.support.command_line import SHIPPED, command_line
from tests.support.group_robots import DingTalkRobot, Robot, WeComRobot
from tests.support.ledger import open_bench
from tests.support.planning import shipped_plant
from tests.support.plans import phrasing
from tests.support.waiting import until
from tests.support.web_server import WebServer, web_server
from tests.support.webhook_desk import Desk

TICKET = {"event": "ticket", "appliance": "line-3", "title": "Ticket tk_1", "text": "write_tag: no answer\n状态未知", "link": ""}
SECRET = "SEC1234567890abcdef"


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    async with open_bench(tmp_path) as bench:
        yield Desk(bench)


def wecom(server: WebServer, robot: WeComRobot, **more: Any) -> WebhookSettings:
    server.answer = robot.answer
    return WebhookSettings(
        url=f"http://127.0.0.1:{server.port}/cgi-bin/webhook/send?key={robot.key}", **{"format": "wecom", **more}
    )


def dingtalk(server: WebServer, robot: DingTalkRobot, **more: Any) -> WebhookSettings:
    server.answer = robot.answer
    url = f"http://127.0.0.1:{server.port}/robot/send?access_token={robot.token}"
    return WebhookSettings(url=url, **{"format": "dingtalk", **more})


@asynccontextmanager
async def sending(desk: Desk, settings: WebhookSettings, *, minute_s: float = 60.0) -> AsyncIterator[None]:
    task = asyncio.create_task(desk.sender(site=settings, minute_s=minute_s).run())
    try:
        yield
        assert not task.done(), "it ended"
    finally:
        task.cancel()
        await asyncio.wait({task})


@pytest.mark.req("T5", "R5")
@pytest.mark.parametrize("kind", ["wecom", "dingtalk", "dingtalk signed"])
async def test_a_robot_takes_what_is_posted_and_a_repeat_says_so(desk: Desk, kind: str) -> None:
    secret = SECRET if kind.endswith("signed") else ""
    robot: Any = WeComRobot() if kind == "wecom" else DingTalkRobot(secret=secret, keyword="line-3")
    robot.now_ms = int(desk.bench.clock.utc().timestamp() * 1000) + 1_800_000
    with web_server() as server:
        settings = wecom(server, robot) if kind == "wecom" else dingtalk(server, robot, secret=secret)
        strict, answers = robot.answer, iter([(500, {}, b"")])
        server.answer = lambda posted: next(answers, None) or strict(posted)
        await desk.queue(1, **TICKET)
        await desk.queue(2, event="alarm", appliance="line-3", text="Motor 3 is too hot, 94.2 degrees Celsius.")
        async with sending(desk, settings):
            await desk.until_statuses("delivered", "delivered")
    assert robot.texts == [
        "[line-3] Again: Ticket tk_1\nwrite_tag: no answer\n状态未知",
        "[line-3]\nMotor 3 is too hot, 94.2 degrees Celsius.",
    ]
    assert not robot.refused


@pytest.mark.req("T5", "R5")
@pytest.mark.parametrize(
    ("robot", "busy", "pause_s"),
    [
        (WeComRobot, 45009, 60),
        (DingTalkRobot, 130101, 600),
        (DingTalkRobot, 410100, 600),
        (WeComRobot, -1, 0),
        (DingTalkRobot, -1, 0),
    ],
)
async def test_a_robot_that_has_too_much_gets_it_later_and_no_try_is_counted(
    desk: Desk, robot: type[Robot], busy: int, pause_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pauses are those their documentation asks for; here they are taken down and not waited out."""
    paused: list[float] = []

    async def note(_: object, pause: float) -> None:
        paused.append(pause)

    monkeypatch.setattr("appliance.delivery.outbox.Outbox._pause", note)
    taking: Any = robot(busy=[{"errcode": busy, "errmsg": "too fast"}] * 4)
    with web_server() as server:
        settings = wecom(server, taking) if robot is WeComRobot else dingtalk(server, taking)
        await desk.queue(1, **TICKET)
        async with sending(desk, settings):
            (row,) = await desk.until_statuses("delivered")
    assert (row["attempts"], row["may_be_repeat"], len(taking.texts)) == (1, 0, 1)
    assert [max(each, 0.01) for each in paused] == [max(pause_s, 0.01)] * 4
    assert desk.changes == [("webhook:site", f"answered errcode {busy}: too fast"), ("webhook:site", "")]


@pytest.mark.req("T5", "R5", "X4")
async def test_a_wrong_key_has_failed_is_named_and_is_told_nobody(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    """Even where the robot says the key back to us, it stands in no row, no log line and no status."""
    caplog.set_level(logging.DEBUG)
    logging.getLogger("httpx").setLevel(logging.WARNING)  # as `start_logging` has it: it would log whole addresses
    logging.getLogger("httpcore").setLevel(logging.WARNING)
    wrong = "deadbeef-0000-4444-8888-123456789abc"
    with web_server() as server:
        robot = WeComRobot()
        settings = wecom(server, robot)
        settings = settings.model_copy(update={"url": settings.url.replace(robot.key, wrong)})
        await desk.queue(1, **TICKET)
        await desk.queue(2, **TICKET)
        async with sending(desk, settings):
            rows = await desk.until_statuses("failed", "failed")
    assert rows[0]["failure"] == "answered errcode 93000: invalid webhook url, hint: [key=**********]"
    assert desk.degraded.reasons["webhook:site"] == rows[0]["failure"]
    lines = [JsonLines().format(record) for record in caplog.records]
    assert any("delivery.failed" in line for line in lines)
    operations = await desk.bench.rows("SELECT payload FROM operation")
    told = json.dumps(
        [lines, rows, operations, desk.degraded.reasons, repr(settings), settings.model_dump(mode="json")], default=str
    )
    assert wrong not in told
    assert f"http://127.0.0.1:{server.port}/**********" in told, "people still see where it leads"


@pytest.mark.req("X4", "O2")
async def test_config_show_and_check_tell_no_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Keys come from the environment, also where they are part of an address; a fault in that line does not tell them either."""
    shutil.copytree(SHIPPED, tmp_path / "config")
    file = tmp_path / "config" / "appliance.yaml"
    shipped = file.read_text("utf-8")
    webhook = "webhooks:\n  shift: {format: dingtalk, url: '${HOOK}', secret: '${HOOK_SECRET}'}\n"
    file.write_text(f"{shipped}\n{webhook}", "utf-8")
    monkeypatch.setenv("HOOK", "https://oapi.dingtalk.com/robot/send?access_token=57c702cdb1896282")
    monkeypatch.setenv("HOOK_SECRET", SECRET)
    run = command_line(monkeypatch, tmp_path, capsys)
    monkeypatch.setenv("FLOORHAND_CONFIG", str(tmp_path / "config"))
    code, out, err = await run("config", "show", "--json")
    assert (code, json.loads(out)["webhooks"]["shift"]["url"]) == (0, "https://oapi.dingtalk.com/**********")
    file.write_text(f"{shipped}\n{webhook.replace('dingtalk', 'wecom')}", "utf-8")
    faulty, told, why = await run("config", "check")
    assert faulty != 0 and "secret belongs to format dingtalk" in told + why
    everything = out + err + told + why
    assert SECRET not in everything and "57c702cdb" not in everything


@pytest.mark.req("R5", "V5")
def test_an_alarm_is_told_in_the_sites_words_and_never_fails_for_want_of_one() -> None:
    plant, wording = shipped_plant(), phrasing(shipped_plant())
    raised = datetime(2026, 3, 2, 8, tzinfo=UTC)
    alarm = Alarm(
        activation_id="plc:1", alarm_id="motor_3_over_temperature", source="plc", asset="motor_3", priority="high",
        state=AlarmState.UNACKNOWLEDGED, value=94.2, unit="degC", session_id=None, raised_utc=raised, cleared_utc=None,
        acknowledged_utc=None, acknowledged_by=None, revision=1,
    )  # fmt: skip
    assert alarm_told(plant, wording, "en", alarm).endswith("not acknowledged")
    assert alarm_told(plant, wording, "zh", replace(alarm, state=AlarmState.NORMAL)).startswith("已恢复正常：")
    assert alarm_told(plant, wording, "en", replace(alarm, alarm_id="old_one")) == "old one, not acknowledged"
    tag = plant.tag_by_key["motor_3.temperature"].model_copy(update={"unit": "furlong"})
    strange = plant.model_copy(update={"tags": [tag if each.key == tag.key else each for each in plant.tags]})
    strange.__dict__.pop("tag_by_key", None)
    assert alarm_told(strange, wording, "en", replace(alarm, unit="furlong")) == "motor 3 over temperature, not acknowledged"


@pytest.mark.req("X4")
def test_secrets_of_webhooks_are_shown_nowhere() -> None:
    url = "https://oapi.dingtalk.com/robot/send?access_token=57c702cdb1896282"
    settings = WebhookSettings(url=url, format="dingtalk", secret=SECRET)  # type: ignore[arg-type]
    shown = json.dumps(settings.model_dump(mode="json")) + repr(settings) + str(settings)
    assert SECRET not in shown and "57c702cdb" not in shown
    assert settings.model_dump(mode="json")["url"] == "https://oapi.dingtalk.com/**********"
    assert WebhookSettings(url="https://site.example").model_dump(mode="json")["url"] == "https://site.example/"


@pytest.mark.req("T5", "R5")
@pytest.mark.parametrize(
    ("secret", "keyword", "why"), [("SECwrong", "", "sign not match"), ("", "报警", "keywords not in content")]
)
async def test_what_a_robot_does_not_let_in_has_failed_and_is_named(desk: Desk, secret: str, keyword: str, why: str) -> None:
    robot = DingTalkRobot(secret=SECRET if secret else "", keyword=keyword)
    robot.now_ms = int(desk.bench.clock.utc().timestamp() * 1000)
    with web_server() as server:
        await desk.queue(1, **TICKET)
        async with sending(desk, dingtalk(server, robot, secret=secret)):
            (row,) = await desk.until_statuses("failed")
    assert row["failure"] == f"answered errcode 310000: {why}"
    assert desk.degraded.reasons == {"webhook:site": row["failure"]}


@pytest.mark.req("T5", "R5")
async def test_a_signature_of_a_wrong_clock_is_tried_again_once_it_is_set(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    async def at_once(_: object, pause: float) -> None:
        await asyncio.sleep(0)

    monkeypatch.setattr("appliance.delivery.outbox.Outbox._pause", at_once)
    clock = desk.bench.clock
    clock.is_synced = False
    robot = DingTalkRobot(secret=SECRET, now_ms=int(clock.utc().timestamp() * 1000) + 86_400_000)
    with web_server() as server:
        await desk.queue(1, **TICKET)
        async with sending(desk, dingtalk(server, robot, secret=SECRET)):
            await until(lambda: "nothing sets this machine's clock" in desk.degraded.reasons.get("webhook:site", ""), "named")
            clock.now = clock.now.replace(day=clock.now.day + 1)
            (row,) = await desk.until_statuses("delivered")
    assert (row["attempts"], len(robot.texts)) == (1, 1)
    assert robot.refused["invalid timestamp"] >= 1


@pytest.mark.req("R5")
async def test_an_answer_that_is_no_robots_may_have_been_one(desk: Desk) -> None:
    with web_server() as server:
        settings = wecom(server, WeComRobot())
        server.answer = lambda _: (200, {}, b"<html>portal</html>")
        await desk.queue(1, **TICKET)
        async with sending(desk, settings):
            (row,) = await desk.until_statuses("abandoned")
    assert (row["attempts"], row["failure"]) == (3, "answered without an errcode: is that the address of such a robot?")


@pytest.mark.req("R5")
async def test_a_robot_gets_no_more_in_a_minute_than_it_takes(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """The twenty-first waits until a minute after the first; a generic webhook has no such limit."""
    robot = WeComRobot()
    slept: list[float] = []
    asleep = asyncio.sleep

    async def note(delay: float) -> None:
        if delay > 1:
            slept.append(delay)
        await asleep(0)

    monkeypatch.setattr("appliance.delivery.webhooks.asyncio.sleep", note)
    with web_server() as server:
        settings = wecom(server, robot)
        for n in range(21):
            await desk.queue(n, **TICKET)
        async with sending(desk, settings, minute_s=50.0):
            await desk.until_statuses(*["delivered"] * 21)
    assert len(robot.texts) == 21
    assert slept[:1] == [50.0]


@pytest.mark.req("T5")
@given(text=st.text(max_size=4_000), title=st.text(max_size=300), link=st.sampled_from(["", "https://hand.example/turns/tr_1"]))
def test_a_text_is_bounded_in_bytes_whole_in_its_characters_and_calls_nobody(text: str, title: str, link: str) -> None:
    said = message_text({"appliance": "line-3", "title": title, "text": text, "link": link}, lead="", most_bytes=2_048)
    assert len(said.encode()) <= 2_048
    assert said.startswith("[line-3]") and said.endswith(link) and "<@" not in said


@pytest.mark.parametrize("most", [10, 11, 12, 13])
def test_a_cut_breaks_no_character(most: int) -> None:
    assert cut("温度过高报警", most) in ("温度…", "温度过…")
    assert len(cut("温度过高报警", most).encode()) <= most
    assert cut("温度", 6) == "温度"


@pytest.mark.parametrize(
    ("more", "fault"),
    [
        ({"secret": "SEC1"}, "secret belongs to format dingtalk"),
        ({"format": "wecom", "token": "t"}, "wecom takes no token"),
        ({"format": "slack"}, "Input should be 'generic', 'wecom' or 'dingtalk'"),
        ({"events": []}, "at least 1 item"),
        ({"events": ["report"]}, "'alarm', 'ticket' or 'notice'"),
    ],
)
def test_settings_that_cannot_be_meant_are_refused(more: dict[str, Any], fault: str) -> None:
    with pytest.raises(ValidationError, match=fault):
        WebhookSettings(url="https://site.example/hook", **more)
    assert WebhookSettings(url="https://site.example/hook").events == tuple(WebhookEvent)
