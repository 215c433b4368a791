"""How much may wait: each bound, what is said at it, and what gets past it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from appliance.admission.gate import INTERJECTION_LANE_LIMIT, INTERJECTION_LIMIT, Gate
from appliance.admission.queue import AdmissionQueue
from appliance.console.api import LocalApi
from appliance.contracts.admission import PRIORITY_ALARM, PRIORITY_INTERJECTION, Admitted, Arrival, Outcome, Request, RequestKind
from appliance.contracts.errors import Refused, StorageFullError, Unavailable
from appliance.contracts.operation import OperationLane
from appliance.contracts.turn import TurnEvent
from appliance.core import RunningCore
from appliance.intake.console_door import ConsoleDoor
from appliance.intake.voice_door import VoiceDoor
from appliance.session.settings import SessionSettings
from appliance.session.turns import Turns
from appliance.store import sessions
from tests.support.hall import Hall, open_hall
from tests.support.ledger import Bench, given_turn, open_bench, request
from tests.support.waiting import until, within
from tests.unit.test_core_api import ASK_TEMPERATURE, core_of
from tests.unit.test_intake_doors import SPOKEN


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    async with open_bench(tmp_path) as opened:
        yield opened


def gate_of(bench: Bench, **how: Any) -> Gate:
    return Gate(bench.database, bench.clock, bench.ids, **how)


def alarm(key: str, lane: str = "asset:a") -> Request:
    return request(key, lane=lane, priority=PRIORITY_ALARM, kind=RequestKind.ALARM)


def stop(key: str, lane: str = "control:a") -> Request:
    return request(key, lane=lane, priority=PRIORITY_INTERJECTION, kind=RequestKind.INTERJECTION)


@pytest.mark.req("R1")
async def test_one_user_cannot_fill_the_queue(bench: Bench) -> None:
    gate = gate_of(bench, limit=10, lane_limit=3)
    for number in range(3):
        await gate.admit(request(f"a{number}", lane="console:a"))
    with pytest.raises(Unavailable, match="lane console:a") as full:
        await gate.admit(request("a3", lane="console:a"))
    assert full.value.retry_after_s == 3 and full.value.facts["waiting"] == 3
    await gate.admit(request("b0", lane="console:b"))
    for number in range(5):
        await gate.admit(alarm(f"alarm-{number}", "asset:hot"))  # a lane of alarms has no bound of its own
    assert (await gate.admit(request("a0", lane="console:a"))).is_duplicate, "a repeat never finds it full"


@pytest.mark.req("R1")
async def test_who_is_turned_away_is_told_to_wait_longer_the_more_waits(bench: Bench) -> None:
    told: list[float] = []
    for limit in (1, 40, 80):
        gate = gate_of(bench, limit=limit, lane_limit=limit)
        with pytest.raises(Unavailable) as full:
            for number in range(limit + 1):
                await gate.admit(request(f"{limit}-{number}", lane=f"console:{number}"))
        told.append(full.value.retry_after_s)
    assert told == sorted(set(told)) and told[0] == 1.0


@pytest.mark.req("R1", "R7")
async def test_stop_gets_in_whatever_waits_and_has_a_bound_too(bench: Bench) -> None:
    gate = gate_of(bench, limit=1, refuses_talk=lambda: "the card is full")
    await gate.admit(alarm("1"))
    await gate.admit(alarm("2"))
    for number in range(INTERJECTION_LIMIT):
        await gate.admit(stop(f"stop-{number}", lane=f"control:{number // INTERJECTION_LANE_LIMIT}"))
    with pytest.raises(Unavailable, match=r"32 interjections wait already$"):
        await gate.admit(stop("one more"))
    assert (await bench.kinds(OperationLane.P1))[-1] == "audit.turned_away"


@pytest.mark.req("R1", "R7")
async def test_nobody_who_interjects_keeps_out_the_stop_of_who_has_work(bench: Bench) -> None:
    """Whoever has work under way finds room for its "stop that", and is led first, however many others interject."""
    gate, queue = gate_of(bench), AdmissionQueue(bench.database, bench.clock)
    await given_turn(bench, "w1", lane="console:bob")
    offered = [gate.admit(stop(f"{n}", lane=f"control:console:{n % 500}")) for n in range(1000)]
    offered.append(gate.admit(stop("bob", lane="control:console:bob")))
    with within(1.0):
        answers = await asyncio.gather(*offered, return_exceptions=True)
        first = await queue.next(set(), interjections=True)
    assert not isinstance(answers[-1], BaseException) and first.id == answers[-1].admission.id
    assert sum(isinstance(answer, Unavailable) for answer in answers) == 1000 - INTERJECTION_LIMIT
    for number in range(1, INTERJECTION_LANE_LIMIT):
        await gate.admit(stop(f"bob-{number}", lane="control:console:bob"))
    with pytest.raises(Unavailable, match="4 interjections wait already in lane control:console:bob"):
        await gate.admit(stop("bob-more", lane="control:console:bob"))


@pytest.mark.req("R1")
async def test_who_is_turned_away_is_in_the_audit_log_and_a_flood_does_not_fill_it(bench: Bench) -> None:
    gate = gate_of(bench, limit=1)
    await gate.admit(request("first", lane="console:a"))

    async def noted() -> list[dict[str, Any]]:
        rows = await bench.rows("SELECT payload FROM operation WHERE kind = 'audit.turned_away' ORDER BY seq")
        return [json.loads(row["payload"]) for row in rows]

    for number in range(1000):
        with pytest.raises(Unavailable):
            await gate.admit(request(f"{number}", lane="speaker:floor" if number < 500 else f"console:{number}"))
    entries = await noted()
    assert len(entries) == 32
    assert (entries[0]["lane"], entries[0]["why"]) == ("speaker:floor", "1 input waits already")
    assert entries[1]["others_since"] == 499
    bench.clock.advance(60)
    with pytest.raises(Unavailable):
        await gate.admit(request("again"))
    assert (await noted())[-1]["others_since"] == 1000 - 31 - 500


@pytest.mark.req("R1")
@pytest.mark.field("FC-D01")
async def test_while_talk_is_refused_alarms_are_taken(bench: Bench) -> None:
    why = ["the storage is full: only alarms are taken"]
    gate = gate_of(bench, refuses_talk=lambda: why[0])
    with pytest.raises(StorageFullError, match="only alarms") as full:
        await gate.admit(request("u1"))
    assert "Free space" in full.value.cure
    assert not (await gate.admit(alarm("a1"))).is_duplicate
    why[0] = ""
    assert not (await gate.admit(request("u1"))).is_duplicate, "the same once there is room again"


@pytest.mark.req("R1")
@pytest.mark.field("FC-D01")
async def test_a_key_that_comes_with_other_content_takes_no_room_from_alarms(bench: Bench) -> None:
    """Somebody may send it without end; each would be an entry of the audit log."""
    why = [""]
    gate = gate_of(bench, refuses_talk=lambda: why[0])
    await gate.admit(request("u1", arrival=Arrival.STEER))
    why[0] = "the storage is full: only alarms are taken"
    for _ in range(3):
        with pytest.raises(Refused, match="other arrival"):
            await gate.admit(request("u1", arrival=Arrival.REDIRECT))
    assert await bench.kinds(OperationLane.P1) == ["admission.queued"]


@pytest.mark.req("R1")
async def test_a_repeat_does_not_turn_into_a_redirect(bench: Bench) -> None:
    gate = gate_of(bench)
    first = await gate.admit(request("u1", arrival=Arrival.STEER))
    assert first.admission.arrival is Arrival.STEER
    assert (await gate.admit(request("u1", arrival=Arrival.STEER))).admission == first.admission
    with pytest.raises(Refused, match="other arrival"):
        await gate.admit(request("u1", arrival=Arrival.REDIRECT))
    assert await bench.kinds(OperationLane.P1) == ["admission.queued", "audit.admission_conflict"]


@pytest.mark.req("R10", "S9")
async def test_there_are_only_so_many_conversations(bench: Bench) -> None:
    gate = gate_of(bench, session_limit=2)
    await given_turn(bench, "a0", lane="console:a")
    await gate.admit(request("b1", lane="console:b"))  # it will open one
    for lane in ("asset:motor_3", "control:console:a"):
        await bench.database.transaction(lambda tx, lane=lane: sessions.open_for(tx, bench.clock, bench.ids, lane))
    with pytest.raises(Unavailable, match="2 conversations are open already") as full:
        await gate.admit(request("c1", lane="console:c"))
    assert full.value.retry_after_s == 1.0, "what runs may end any moment"
    await gate.admit(request("a1", lane="console:a"))
    await gate.admit(request("b2", lane="console:b"))
    await gate.admit(alarm("alarm"))
    await gate.admit(stop("stop"))


@pytest.mark.req("R10", "S9")
async def test_who_is_new_gets_the_room_of_the_conversation_that_rested_longest(bench: Bench) -> None:
    turns = Turns(bench.database, bench.clock, bench.ids, bench.epoch, SessionSettings())
    for lane in ("console:a", "console:b", "console:c", "console:a"):
        turn = await given_turn(bench, f"{lane}-{bench.clock.monotonic_ns()}", lane=lane)
        await turns.end(turn.id, TurnEvent.FINISHED, turn.admission_id, Outcome.DONE)
        bench.clock.advance(1)
    for number, lane in enumerate(["console:d", "console:e", "console:f"]):
        await gate_of(bench, session_limit=3).admit(request(f"new-{number}", lane=lane))
    closed = await bench.rows("SELECT lane FROM session WHERE state = 'closed' ORDER BY rowid")
    assert sorted(row["lane"] for row in closed) == ["console:a", "console:b", "console:c"]
    ended = await bench.rows(
        "SELECT s.lane FROM operation o JOIN session s ON s.id = o.entity WHERE o.kind = 'session.closed' ORDER BY o.seq"
    )
    assert [row["lane"] for row in ended] == ["console:b", "console:c", "console:a"]
    with pytest.raises(Unavailable):
        await gate_of(bench, session_limit=3).admit(request("new-3", lane="console:g"))


@pytest.mark.req("R10", "S9")
async def test_when_only_open_questions_are_left_it_is_told_when_the_first_is_given_up(hall: Hall) -> None:
    bench = hall.bench
    await hall.say("set the fan speed of motor three to eighty percent")
    assert len(await hall.questions()) == 1
    bench.clock.advance(600)
    with pytest.raises(Unavailable, match="1 conversation is open already") as full:
        await gate_of(bench, session_limit=1).admit(request("new", lane="console:new"))
    assert full.value.retry_after_s == pytest.approx(1200, abs=1)


# through the doors ----------------------------------------------------------------------------------------------------
@pytest.mark.req("R1", "S1")
@pytest.mark.field("FC-R04")
async def test_the_doors_tell_an_interjection_from_talk_and_know_a_clients_key(bench: Bench) -> None:
    gate = gate_of(bench)

    def is_interjection(text: str, language: str) -> bool:
        return (text, language) == ("stop that", "en")

    console, voice = ConsoleDoor(gate, bench.ids, is_interjection), VoiceDoor(gate, is_interjection)
    typed = (await console.admit("stop that", "en", "anna")).admission
    assert (typed.kind, typed.lane, typed.priority) == (RequestKind.INTERJECTION, "control:console:anna", PRIORITY_INTERJECTION)
    spoken = (await voice.admit(replace(SPOKEN, id="ut_9", text="stop that"))).admission
    assert (spoken.kind, spoken.lane) == (RequestKind.INTERJECTION, "control:speaker:floor")
    assert (await voice.admit(SPOKEN)).admission.kind is RequestKind.UTTERANCE
    steer = await console.admit("and pump three", "en", "anna", key="r1", arrival=Arrival.STEER)
    assert (steer.admission.lane, steer.admission.arrival) == ("console:anna", Arrival.STEER)
    again = await console.admit("and pump three", "en", "anna", key="r1", arrival=Arrival.STEER)
    assert again.is_duplicate and again.admission.id == steer.admission.id
    assert not (await console.admit("and pump three", "en", "ben", key="r1")).is_duplicate, "another person's key is another key"


async def serve(hall: Hall, core: RunningCore, folder: Path) -> tuple[asyncio.Task[None], httpx.AsyncClient]:
    path = folder / "run" / "api.sock"
    api = LocalApi(core, hall.bench.database, dict, path=path, language="en", languages=("en", "zh"))
    serving = asyncio.create_task(api.run())
    await api.serving.wait()
    return serving, httpx.AsyncClient(transport=httpx.AsyncHTTPTransport(uds=str(path)), base_url="http://floorhand")


@pytest.fixture
async def hall(tmp_path: Path) -> AsyncIterator[Hall]:
    async with open_hall(tmp_path) as hall:
        yield hall


@pytest.fixture
async def http(hall: Hall, tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    serving, client = await serve(hall, core_of(hall), tmp_path)
    async with client:
        yield client
    serving.cancel()
    await asyncio.gather(serving, return_exceptions=True)


@pytest.mark.req("R7", "R1")
async def test_a_stop_takes_effect_within_a_second_while_a_thousand_others_interject(hall: Hall) -> None:
    hall.bus.open_gate.clear()
    asked = (await hall.console_door.admit(ASK_TEMPERATURE, "en", "bob")).admission
    await until(lambda: hall.bus.reading == 1, "the turn reads the machine")
    with within(1.0):
        others = [asyncio.create_task(hall.console_door.admit("what are you doing", "en", f"user{n}")) for n in range(1000)]
        stopping = asyncio.create_task(hall.console_door.admit("stop that", "en", "bob"))
        assert (await hall.ended(asked)).outcome is Outcome.INTERRUPTED
    await hall.ended((await stopping).admission)
    for taken in await asyncio.gather(*others, return_exceptions=True):
        if isinstance(taken, Admitted):
            await hall.ended(taken.admission)


async def post(http: httpx.AsyncClient, **asked: Any) -> httpx.Response:
    return await http.post("/v1/ask", json={"text": ASK_TEMPERATURE} | asked)


@pytest.mark.req("S1", "R1")
@pytest.mark.field("FC-R04")
async def test_a_request_sent_again_on_a_weak_network_is_the_same_turn(hall: Hall, http: httpx.AsyncClient) -> None:
    """The client gave up waiting, twice, while the turn was slow; it asks again with its key and gets the one answer."""
    hall.bus.open_gate.clear()
    for _ in range(2):
        with pytest.raises(httpx.ReadTimeout):
            await http.post("/v1/ask", json={"text": ASK_TEMPERATURE, "key": "r1"}, timeout=httpx.Timeout(30.0, read=0.2))
    hall.bus.open_gate.set()
    first, again = await post(http, key="r1"), await post(http, key="r1")
    assert first.status_code == 200 and first.json() == again.json() and first.json()["outcome"] == "done"
    assert len(await hall.bench.rows("SELECT 1 FROM turn")) == 1
    other = await post(http, key="r1", text="what alarms are active")
    assert other.status_code == 409 and other.json()["message"] == "you have used the key r1 before for another sentence"
    assert "Choose another --key" in other.json()["cure"]
    other = await post(http, key="r1", arrival="steer")
    told = "you have used the key r1 before for the same sentence, but without --steer or --redirect"
    assert (other.status_code, other.json()["message"]) == (409, told)


@pytest.mark.req("R1")
async def test_back_pressure_reaches_who_asks_over_the_real_socket(hall: Hall, http: httpx.AsyncClient) -> None:
    """The queue behind the API is full: 429 with Retry-After, and nothing of it is stored."""
    hall.bus.open_gate.clear()
    waiting = [(await post(http, wait_s=0, key=f"k{number}")).json() for number in range(33)]
    assert {each["status"] for each in waiting} <= {"queued", "started"}
    while (answer := await post(http, wait_s=0)).status_code == 200:
        pass  # the lane holds one more once its first was started
    assert answer.status_code == 429 and int(answer.headers["Retry-After"]) == 32
    assert answer.json()["code"] == "unavailable" and "wait already in lane console:" in answer.json()["message"]
    before = len(await hall.bench.rows("SELECT 1 FROM admission"))
    assert (await post(http, wait_s=0)).status_code == 429
    assert len(await hall.bench.rows("SELECT 1 FROM admission")) == before
    assert (await post(http, wait_s=0, key="k0")).status_code == 200, "what was taken is known"
    hall.bus.open_gate.set()
    async with asyncio.timeout(60), hall.conductor.ended:
        while await hall.bench.rows("SELECT 1 FROM admission WHERE status <> 'terminal'"):
            await hall.conductor.ended.wait()
    assert (await post(http)).json()["outcome"] == "done", "and there is room again"
