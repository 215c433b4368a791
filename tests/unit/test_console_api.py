"""The local API over its real socket, on a real ledger."""

from __future__ import annotations

import asyncio
import stat
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from appliance.console.api import LocalApi, listen
from appliance.contracts.errors import OwnedElsewhere, StorageFullError, Unavailable
from appliance.store.database import Database
from tests.support.clock import ManualClock
from tests.support.core import StandInCore, tell_story

pytestmark = pytest.mark.req("O2")


@pytest.fixture
async def ledger(tmp_path: Path) -> AsyncIterator[Database]:
    database = await Database.open(tmp_path / "ledger.sqlite", ManualClock())
    try:
        await database.transaction(tell_story)
        yield database
    finally:
        await database.close()


@pytest.fixture
def core() -> StandInCore:
    return StandInCore()


@pytest.fixture
async def http(tmp_path: Path, ledger: Database, core: StandInCore) -> AsyncIterator[httpx.AsyncClient]:
    path = tmp_path / "run" / "api.sock"
    api = LocalApi(core, ledger, lambda: {"load_1min": 0.1}, path=path, language="en", languages=("en", "zh"))
    running = asyncio.create_task(api.run())
    async with asyncio.timeout(10):
        await api.serving.wait()
    assert stat.S_IMODE(path.stat().st_mode) == 0o660
    async with httpx.AsyncClient(transport=httpx.AsyncHTTPTransport(uds=str(path)), base_url="http://floorhand") as client:
        yield client
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert not path.exists()


async def test_lists_come_newest_first_with_json_decoded(http: httpx.AsyncClient) -> None:
    alarms = (await http.get("/v1/alarms")).json()
    assert [a["activation_id"] for a in alarms] == ["plc:hot:2", "plc:hot:1"]
    assert [a["activation_id"] for a in (await http.get("/v1/alarms", params={"live": "true"})).json()] == ["plc:hot:2"]
    assert len((await http.get("/v1/alarms", params={"limit": 1})).json()) == 1
    admissions = (await http.get("/v1/admissions", params={"status": "unknown"})).json()
    assert [(a["id"], a["payload"], a["clock_synced"]) for a in admissions] == [("ad_2", {"text": "set it"}, True)]
    assert (await http.get("/v1/sessions")).json()[0]["turns"] == 1
    assert (await http.get("/v1/work-orders")).json()[0]["number"] is None
    assert (await http.get("/v1/deliveries", params={"status": "delivered"})).json()[0]["text"] == "Shall I?"
    assert (await http.get("/v1/deliveries", params={"status": "pending"})).json() == []
    assert (await http.get("/v1/deliveries", params={"channel": "speech"})).json()[0]["text"] == "Shall I?"
    assert (await http.get("/v1/deliveries", params={"channel": "mqtt"})).json() == []


async def test_a_turn_is_shown_whole(http: httpx.AsyncClient) -> None:
    listed = (await http.get("/v1/turns")).json()[0]
    assert (listed["actions"], listed["actions_done"], listed["offline"]) == (3, 1, True)
    none = await http.get("/v1/turns", params={"session": "se_9"})
    assert (none.status_code, none.json()["message"]) == (409, "there is no session se_9"), "it is not one without turns"
    turn = (await http.get("/v1/turns/tr_1")).json()
    assert [a["step_id"] for a in turn["actions"]] == ["read", "write", "confirm"]
    assert turn["effects"][0]["arguments"] == {"value": 80}
    assert turn["confirmations"][0]["status"] == "pending"
    assert turn["deliveries"][0]["id"] == "dl_1"
    missing = await http.get("/v1/turns/tr_0")
    assert (missing.status_code, missing.json()["code"]) == (409, "refused")


async def test_open_questions_unknowns_and_sync(http: httpx.AsyncClient) -> None:
    assert [(c["id"], c["asked"]) for c in (await http.get("/v1/confirmations")).json()] == [("cf_1", True)]
    unknowns = (await http.get("/v1/unknowns")).json()
    assert [(u["id"], u["kind"], u["what"]) for u in unknowns] == [
        ("ac_2", "effect", "write_tag"),
        ("ad_2", "admission", "voice utterance"),
    ]
    lanes = (await http.get("/v1/sync")).json()["lanes"]
    shown = [(lane["lane"], lane["local"], lane["acknowledged"], lane["pending"]) for lane in lanes]
    assert shown == [("P0", 7, 5, 2), ("P1", 2, 2, 0)]


async def test_what_was_heard_is_accounted_for_in_order(http: httpx.AsyncClient) -> None:
    heard = (await http.get("/v1/heard")).json()
    assert [(h["text"], h["intent"], h["end_of_speech_to_intent_ms"], h["turn_id"]) for h in heard] == [
        ("set it", "set_tag", 412.5, "tr_1"),
        ("set it", "confirm", 300.0, "tr_1"),
    ]


async def test_acts_reach_the_core(http: httpx.AsyncClient, core: StandInCore) -> None:
    answer = await http.post("/v1/ask", json={"text": "how hot", "wait_s": 3})
    assert answer.json()["turn"] == "tr_1"
    await http.post("/v1/speak", json={"text": "hello", "language": "zh"})
    assert core.asked == [("how hot", "en", 3.0)]
    assert core.spoken == [("hello", "zh")]
    settled = await http.post("/v1/unknowns/ac_2/settle", json={"verdict": "done", "note": "seen", "by": "ann"})
    assert settled.status_code == 200
    assert core.settled == [("ac_2", "done", "seen", "ann")]
    assert [t["key"] for t in (await http.get("/v1/tags", params={"keys": "a.b,c.d"})).json()] == ["a.b", "c.d"]
    assert (await http.get("/v1/tags/a.b/probe")).json()["key"] == "a.b"


async def test_errors_say_what_the_caller_may_do(http: httpx.AsyncClient, core: StandInCore) -> None:
    core.fails_with = Unavailable("the queue is full", retry_after_s=4.2, where=Path("x"))
    busy = await http.post("/v1/ask", json={"text": "x"})
    assert (busy.status_code, busy.headers["Retry-After"]) == (429, "5")
    assert busy.json() == {
        "code": "unavailable", "message": "the queue is full", "cure": "Try again in 5 s.",
        "facts": {"retry_after_s": 4.2, "where": "x"},
    }  # fmt: skip
    core.fails_with = StorageFullError("no room left", retry_after_s=30.0)
    full = await http.post("/v1/speak", json={"text": "x"})
    assert (full.status_code, full.json()["cure"].startswith("Free space")) == (507, True)
    refused = await http.post("/v1/unknowns/ac_9/settle", json={"verdict": "done", "by": "ann"})
    assert (refused.status_code, refused.json()["facts"]) == (409, {"id": "ac_9"})
    wrong = await http.post("/v1/unknowns/ac_2/settle", json={"verdict": "maybe", "by": "ann"})
    assert (wrong.status_code, wrong.json()["code"]) == (422, "malformed")
    assert "verdict" in wrong.json()["message"]
    assert (await http.get("/v1/alarms", params={"limit": 0})).status_code == 422
    assert (await http.get("/v1/nothing")).json()["code"] == "not_found"


@pytest.mark.parametrize("address", ["/v1/ask", "/v1/speak"])
async def test_what_cannot_be_said_is_refused_at_the_door(http: httpx.AsyncClient, core: StandInCore, address: str) -> None:
    foreign = await http.post(address, json={"text": "hello", "language": "fr"})
    assert (foreign.status_code, foreign.json()["cure"]) == (422, "Languages here: en, zh.")
    for nothing in ("", " \n"):
        empty = await http.post(address, json={"text": nothing})
        assert (empty.status_code, empty.json()["message"]) == (422, "the sentence is empty")
        assert "in quotes" in empty.json()["cure"]
    assert core.asked == [] and core.spoken == []


async def test_every_refusal_has_a_cure(http: httpx.AsyncClient) -> None:
    refusals = [
        await http.get("/v1/nothing"),
        await http.get("/v1/alarms", params={"limit": 0}),
        await http.get("/v1/turns/tr_0"),
        await http.post("/v1/ask", json={"text": "x", "frob": 1}),
    ]
    assert all(answer.is_client_error and answer.json()["cure"] for answer in refusals)


@pytest.mark.req("R8")
async def test_health_is_503_until_ready(http: httpx.AsyncClient, core: StandInCore) -> None:
    core.degraded["voice"] = "no microphone"
    well = await http.get("/v1/health")
    assert (well.status_code, well.json()["degraded"]) == (200, {"voice": "no microphone"})
    assert well.json()["vitals"] == {"load_1min": 0.1}
    core.ready = False
    assert (await http.get("/v1/health")).status_code == 503


async def test_a_dead_socket_is_replaced_a_living_one_is_not(tmp_path: Path) -> None:
    path = tmp_path / "api.sock"
    dead = listen(path)
    dead.close()
    assert path.exists()
    living = listen(path)
    with pytest.raises(OwnedElsewhere):
        listen(path)
    living.close()
