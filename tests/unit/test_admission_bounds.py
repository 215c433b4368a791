"""How much may wait: each bound, what is said at it, and what gets past it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from appliance.admission.gate import INTERJECTION_LIMIT, Gate
from appliance.console.api import LocalApi
from appliance.contracts.admission import PRIORITY_ALARM, PRIORITY_INTERJECTION, Arrival, Request, RequestKind
from appliance.contracts.errors import Refused, StorageFullError, Unavailable
from appliance.contracts.operation import OperationLane
from appliance.core import RunningCore
from appliance.intake.console_door import ConsoleDoor
from appliance.intake.voice_door import VoiceDoor
from appliance.store import sessions
from tests.support.hall import Hall, open_hall
from tests.support.ledger import Bench, open_bench, request
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


def stop(key: str) -> Request:
    return request(key, lane="control:a", priority=PRIORITY_INTERJECTION, kind=RequestKind.INTERJECTION)


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
        await gate.admit(stop(f"stop-{number}"))
    with pytest.raises(Unavailable, match="interjections"):
        await gate.admit(stop("one more"))


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
async def test_a_repeat_does_not_turn_into_a_redirect(bench: Bench) -> None:
    gate = gate_of(bench)
    first = await gate.admit(request("u1", arrival=Arrival.STEER))
    assert first.admission.arrival is Arrival.STEER
    assert (await gate.admit(request("u1", arrival=Arrival.STEER))).admission == first.admission
    with pytest.raises(Refused, match="other content"):
        await gate.admit(request("u1", arrival=Arrival.REDIRECT))
    assert await bench.kinds(OperationLane.P1) == ["admission.queued", "audit.admission_conflict"]


@pytest.mark.req("R10", "S9")
async def test_there_are_only_so_many_conversations(bench: Bench) -> None:
    gate = gate_of(bench, session_limit=2)
    await bench.database.transaction(lambda tx: sessions.open_for(tx, bench.clock, bench.ids, "console:a"))
    await gate.admit(request("b1", lane="console:b"))  # it will open one
    with pytest.raises(Unavailable, match="2 conversations are open already"):
        await gate.admit(request("c1", lane="console:c"))
    await gate.admit(request("a1", lane="console:a"))
    await gate.admit(request("b2", lane="console:b"))
    await gate.admit(alarm("alarm"))
    await gate.admit(stop("stop"))


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


async def post(http: httpx.AsyncClient, **asked: Any) -> httpx.Response:
    return await http.post("/v1/ask", json={"text": ASK_TEMPERATURE} | asked)


@pytest.mark.req("S1", "R1")
@pytest.mark.field("FC-R04")
async def test_a_request_sent_again_on_a_weak_network_is_the_same_turn(hall: Hall, http: httpx.AsyncClient) -> None:
    """The client gave up waiting, twice, while the turn was slow; it asks again with its key and gets the one answer."""
    hall.bus.open_gate.clear()
    for _ in range(2):
        with pytest.raises(httpx.ReadTimeout):
            await http.post("/v1/ask", json={"text": ASK_TEMPERATURE, "key": "r1"}, timeout=0.2)
    hall.bus.open_gate.set()
    first, again = await post(http, key="r1"), await post(http, key="r1")
    assert first.status_code == 200 and first.json() == again.json() and first.json()["outcome"] == "done"
    assert len(await hall.bench.rows("SELECT 1 FROM turn")) == 1
    other = await post(http, key="r1", text="what alarms are active")
    assert other.status_code == 409 and "other content" in other.json()["message"]


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
    async with asyncio.timeout(15), hall.conductor.ended:
        while await hall.bench.rows("SELECT 1 FROM admission WHERE status <> 'terminal'"):
            await hall.conductor.ended.wait()
    assert (await post(http)).json()["outcome"] == "done", "and there is room again"
