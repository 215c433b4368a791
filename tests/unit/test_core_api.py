"""What the local API asks of the running core."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from appliance.contracts.admission import Admission, Arrival, Door, Request, RequestKind
from appliance.contracts.errors import Refused
from appliance.contracts.store import Transaction
from appliance.core import RunningCore, Standing
from appliance.health.audit_watch import AuditWatch
from appliance.operating import Operating
from appliance.store import admissions
from appliance.version import VERSION
from tests.support.hall import Hall, open_hall
from tests.support.operating import holding_of
from tests.support.planning import shipped_plant
from tests.support.waiting import until

ASK_TEMPERATURE = "what is the temperature of motor three"
SET_FAN = "set the fan speed of motor three to eighty percent"


@pytest.fixture
async def hall(tmp_path: Path) -> AsyncIterator[Hall]:
    async with open_hall(tmp_path) as hall:
        yield hall


@pytest.fixture
def core(hall: Hall) -> RunningCore:
    return core_of(hall)


def operating_of(hall: Hall) -> Operating:
    return Operating(
        hall.bench.database,
        hall.bench.clock,
        holding=holding_of(hall.bench),
        draining=hall.conductor.lanes,
        turns_running=lambda: hall.conductor.running_turns,
        stop_turn=hall.conductor.stop_turn,
        verify_unknown=hall.rooms.runner.verify_unknown,
        audit_watch=AuditWatch(hall.bench.database, hall.degraded),
    )


def core_of(hall: Hall) -> RunningCore:
    standing = Standing(origin="line-3", epoch=hall.bench.epoch, facts={"turns_running": lambda: hall.conductor.running_turns})
    return RunningCore(
        standing,
        ledger=hall.bench.database,
        clock=hall.bench.clock,
        ids=hall.bench.ids,
        plant=shipped_plant(),
        field_bus=hall.bus,
        door=hall.console_door,
        runner=hall.rooms.runner,
        turns=hall.rooms.turns,
        availability=hall.availability,
        alarms=hall.alarms.desk,
        operating=operating_of(hall),
        degraded=hall.degraded,
        ended=hall.conductor.ended,
        delivered=hall._note_delivered,
    )


@pytest.mark.req("R8")
async def test_the_status_names_what_is_degraded(hall: Hall, core: RunningCore) -> None:
    hall.degraded.mark("mqtt", "refused")
    assert core.status() == {
        "version": VERSION, "origin": "line-3", "epoch": 1, "ready": False, "stopping": False, "degraded": {"mqtt": "refused"},
        "online": True, "clock_synced": True, "turns_running": 0,
    }  # fmt: skip
    json.dumps(core.status())


async def test_a_typed_sentence_is_answered(core: RunningCore) -> None:
    answer = await core.ask(ASK_TEMPERATURE, "en", wait_s=10)
    assert answer["replies"] == ["The temperature of motor 3 is 94 degrees Celsius."]
    assert (answer["status"], answer["outcome"], answer["state"], answer["intent"]) == ("terminal", "done", "idle", "read_tag")
    assert answer["turn"].startswith("tr_") and answer["admission"].startswith("ad_")
    json.dumps(answer)


@pytest.mark.req("V4")
async def test_an_answer_shows_only_what_came_of_it(hall: Hall, core: RunningCore) -> None:
    asked = await core.ask(SET_FAN, "en", wait_s=10)
    assert (asked["state"], asked["replies"]) == ("confirming", ["Set the fan speed of motor 3 to 80 percent. Say yes, confirm."])
    hall.bench.clock.advance(1)
    answered = await core.ask("yes confirm", "en", wait_s=10)
    assert (answered["turn"], answered["replies"]) == (asked["turn"], ["The fan speed of motor 3 is now 80 percent."])


@pytest.mark.req("R1", "R7")
@pytest.mark.parametrize(("steered", "outcome", "state"), [
    ("what is the load of motor three", "done", "idle"),
    ("what is the load of motor three", "interrupted", "abandoned"),
    ("set the fan speed of motor three to 300", "refused", "idle"),
])  # fmt: skip
async def test_who_steers_is_told_what_became_of_it(
    hall: Hall, core: RunningCore, steered: str, outcome: str, state: str
) -> None:
    hall.bus.open_gate.clear()
    first = asyncio.create_task(core.ask(ASK_TEMPERATURE, "en", wait_s=10))
    await until(lambda: hall.bus.reading == 1, "the turn reads the machine")
    second = asyncio.create_task(core.ask(steered, "en", wait_s=10, arrival=Arrival.STEER))
    await until(lambda: any(signal.steered for _, signal in hall.conductor.bells._led.values()), "the turn knows")
    hall.bus.open_gate.set()
    if outcome == "interrupted":
        hall.bus.open_gate.clear()  # what waited goes on; the steered step waits in its turn
        (row,) = await hall.bench.rows("SELECT id FROM admission WHERE arrival = 'steer'")
        async with asyncio.timeout(10):
            while (steer := await admission_of(hall, row["id"])).status != "terminal":  # noqa: ASYNC110 - of the ledger
                await asyncio.sleep(0)
        await hall.conductor.stop_turn(str(steer.turn_id), "technician", "not now")
    answer = await second
    assert (answer["outcome"], answer["state"], answer["turn"]) == (outcome, state, (await first)["turn"])
    if outcome == "done":
        assert "The load of motor 3 is 80 percent." in answer["replies"], "it was waited for, not only taken up"


@pytest.mark.req("R1")
@pytest.mark.parametrize("wait_s", [0, 0.05])
async def test_who_does_not_wait_is_told_how_far_it_is(hall: Hall, core: RunningCore, wait_s: float) -> None:
    hall.bus.open_gate.clear()
    answer = await core.ask(ASK_TEMPERATURE, "en", wait_s=wait_s)
    assert answer["outcome"] is None and answer["replies"] == [] and answer["status"] in ("queued", "started")
    hall.bus.open_gate.set()
    ended = await hall.ended(await admission_of(hall, answer["admission"]))  # it goes on without its asker
    assert ended.outcome == "done"


async def test_many_may_wait_at_once(core: RunningCore) -> None:
    answers = await asyncio.gather(*(core.ask(ASK_TEMPERATURE, "en", wait_s=10) for _ in range(5)))
    assert {answer["outcome"] for answer in answers} == {"done"} and len({answer["turn"] for answer in answers}) == 5


async def test_speaking_is_a_delivery_like_any_other(hall: Hall, core: RunningCore) -> None:
    spoken = await core.speak("Lunch.", "en")
    row = await hall.bench.one("SELECT * FROM delivery")
    assert spoken == {"delivery": row["id"], "status": "pending"}
    assert (row["text"], row["language"], row["turn_id"], row["priority"]) == ("Lunch.", "en", None, 5)
    assert hall.delivered == 1


async def test_tags_are_shown_with_their_wire_address(hall: Hall, core: RunningCore) -> None:
    (fan,) = await core.read_tags(["motor_3.fan_speed"])
    assert fan == {
        "key": "motor_3.fan_speed", "value": 60, "unit": "%", "quality": "good", "age_s": 0.0, "why": "", "raw": [1],
        "wire": "holding_register 0 of device 1 on line_3", "writable": True,
    }  # fmt: skip
    everything = await core.read_tags([])
    assert [tag["key"] for tag in everything] == list(shipped_plant().tag_by_key)
    hall.bus.is_away = True
    (lost,) = await core.read_tags(["motor_3.fan_speed"])
    assert (lost["value"], lost["quality"], lost["age_s"], lost["why"]) == (None, "bad", None, "the PLC is away")
    json.dumps([fan, lost, *everything])


async def test_a_tag_can_be_probed(core: RunningCore) -> None:
    probed = await core.probe_tag("motor_3.vibration")
    assert (probed["key"], probed["wire"]) == ("motor_3.vibration", "input_register 2-3 of device 1 on line_3")
    with pytest.raises(Refused, match=r"motor_9\.speed"):
        await core.probe_tag("motor_9.speed")


async def test_a_tag_that_is_not_there_is_refused(core: RunningCore) -> None:
    with pytest.raises(Refused, match=r"motor_9\.speed"):
        await core.read_tags(["motor_3.load", "motor_9.speed"])


async def test_a_failed_answer_says_why(core: RunningCore) -> None:
    answer = await core.ask("hello", "fr", wait_s=10)
    assert (answer["status"], answer["outcome"], answer["failure"]) == ("terminal", "failed", "")
    assert (await core.ask(ASK_TEMPERATURE, "en", wait_s=10))["failure"] == ""


# unknowns -------------------------------------------------------------------------------------------------------------
async def unknown_write(hall: Hall) -> str:
    """Leave a write of which nobody knows how it ended; return its id."""
    await hall.say(SET_FAN)
    hall.bus.answers_writes = False
    hall.bus.write_gate.clear()
    await hall.console_door.admit("yes confirm", "en", "console")
    await until(lambda: hall.bus.writes, "the machine was written to")
    hall.bus.is_away = True  # so that it cannot be checked either
    hall.bus.write_gate.set()
    await until(lambda: hall.conductor.running_turns == 0, "the turn ended")
    effect = await hall.bench.one("SELECT * FROM effect")
    assert effect["status"] == "unknown"
    return str(effect["action_id"])


@pytest.mark.req("R2", "T7")
@pytest.mark.parametrize(("verdict", "status"), [("done", "applied"), ("not-done", "none")])
async def test_a_person_settles_an_unknown_effect_once(hall: Hall, core: RunningCore, verdict: str, status: str) -> None:
    action_id = await unknown_write(hall)
    with pytest.raises(Refused):
        await core.settle(action_id, "interrupted", "", "ana")
    settled = await core.settle(action_id, verdict, "I looked", "ana")
    assert settled == {"id": action_id, "kind": "effect", "status": status, "settled_by": "ana"}
    row = await hall.bench.one("SELECT * FROM effect")
    assert (row["status"], row["settled_by"], row["note"], row["was_unknown"]) == (status, "ana", "I looked", 1)
    with pytest.raises(Refused):
        await core.settle(action_id, verdict, "", "bo")
    assert len(hall.bus.writes) == 1


@pytest.mark.req("R2")
async def test_a_person_settles_an_unknown_admission(hall: Hall, core: RunningCore) -> None:
    ended = await hall.say("help")
    bench = hall.bench
    await hall.close()

    def leave_unknown(tx: Transaction) -> str:
        request = Request(Door.CONSOLE, RequestKind.UTTERANCE, "console:x", "k", {"text": "x", "language": "en", "by": "x"}, 5)
        admission = admissions.insert(tx, bench.clock, bench.ids, request, "d")
        admissions.start(tx, bench.clock, admission.id, bench.epoch, str(ended.turn_id))
        return admissions.doubt(tx, bench.clock, admission.id).id

    identity = await bench.database.transaction(leave_unknown)
    for verdict in ("done", "not-done"):
        with pytest.raises(Refused, match="settled as interrupted"):
            await core.settle(identity, verdict, "", "ana")
    settled = await core.settle(identity, "interrupted", "nobody waits for it", "ana")
    assert settled == {"id": identity, "kind": "admission", "status": "terminal", "settled_by": "ana"}
    assert (await bench.one("SELECT outcome FROM admission WHERE id = ?", identity))["outcome"] == "interrupted"
    noted = await bench.one("SELECT entity, payload FROM operation WHERE kind = 'audit.unknown_settled'")
    assert (noted["entity"], json.loads(noted["payload"])) == (
        identity, {"by": "ana", "verdict": "interrupted", "note": "nobody waits for it"}
    )  # fmt: skip
    with pytest.raises(Refused, match="terminal, not unknown"):
        await core.settle(identity, "interrupted", "", "ana")


@pytest.mark.parametrize("verdict", ["done", "interrupted"])
async def test_what_does_not_exist_cannot_be_settled(core: RunningCore, verdict: str) -> None:
    with pytest.raises(Refused):
        await core.settle("ac_none", verdict, "", "ana")


async def admission_of(hall: Hall, identity: str) -> Admission:
    return await hall.bench.database.transaction(lambda tx: admissions.by_id(tx, identity))


@pytest.mark.req("R10")
async def test_what_is_on_hold_is_refused_and_says_so_and_goes_on_when_released(hall: Hall, core: RunningCore) -> None:
    """Alarms are admitted and told meanwhile; nothing reaches the machine."""
    await core.operating.hold("belt off the pulley", "anna")
    written = len(hall.bus.writes)
    await core.ask(SET_FAN, "en", wait_s=10)
    await core.ask("yes, confirm", "en", wait_s=10)
    assert len(hall.bus.writes) == written
    assert any("on hold" in text.lower() for text in await hall.said())
    await hall.alarm()
    assert any("over temperature" in text for text in await hall.said())
    await core.operating.release("anna")
    await core.ask(SET_FAN, "en", wait_s=10)
    await core.ask("yes, confirm", "en", wait_s=10)
    assert len(hall.bus.writes) == written + 1


@pytest.mark.req("R10")
async def test_draining_takes_no_talk_and_goes_on_with_it_afterwards(hall: Hall, core: RunningCore) -> None:
    assert await core.operating.drain("anna", 5.0) == {"draining": True, "drained": True, "turns_running": 0}
    asked = await core.ask(ASK_TEMPERATURE, "en", wait_s=0.05)
    assert asked["status"] == "queued"
    await hall.alarm()  # is led as ever
    assert any("over temperature" in text for text in await hall.said())
    assert (await core.operating.undrain("anna"))["draining"] is False
    await until(lambda: hall.conductor.running_turns == 0, "what waited is led")
    async with asyncio.timeout(10), hall.conductor.ended:
        await hall.conductor.ended.wait_for(lambda: hall.conductor.running_turns == 0)
    rows = await hall.bench.rows("SELECT status FROM admission WHERE id = ?", asked["admission"])
    while rows[0]["status"] != "terminal":
        await asyncio.sleep(0.01)
        rows = await hall.bench.rows("SELECT status FROM admission WHERE id = ?", asked["admission"])
