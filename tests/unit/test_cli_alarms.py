"""``floorhand alarms``: from the command line through the local API to the ledger, and back."""

from __future__ import annotations

import asyncio
import contextlib
import getpass
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from appliance.__main__ import main
from appliance.cli import exit_codes
from appliance.console.api import LocalApi
from appliance.contracts.admission import Outcome, RequestKind
from appliance.contracts.errors import AlarmUnreadable
from appliance.contracts.store import Transaction
from appliance.contracts.turn import TurnEvent
from appliance.session.settings import SessionSettings
from appliance.session.turns import Turns
from appliance.store import admissions, deliveries
from tests.support.alarms import AlarmBench, acknowledge_all, event, rooms_of
from tests.support.core import StandInCore
from tests.support.ledger import Bench, open_bench

pytestmark = pytest.mark.req("O2")

SHIPPED = Path(__file__).parents[2] / "config"
Run = Callable[..., Awaitable[tuple[int, str, str]]]
ME = getpass.getuser()


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run ``floorhand alarms …`` on a thread of its own; return exit code, output, errors."""
    monkeypatch.setenv("FLOORHAND_CONFIG", str(SHIPPED))
    monkeypatch.setenv("FLOORHAND_DATA", str(tmp_path))

    async def command(*arguments: str) -> tuple[int, str, str]:
        capsys.readouterr()
        code = await asyncio.to_thread(main, ["alarms", *arguments])
        told = capsys.readouterr()
        return code, told.out, told.err

    return command


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    async with open_bench(tmp_path) as opened:
        yield opened


@pytest.fixture
async def rooms(bench: Bench, tmp_path: Path, run: Run) -> AsyncIterator[AlarmBench]:
    """A service with nothing but alarms, one of them live."""
    rooms = rooms_of(bench)
    api = LocalApi(StandInCore(rooms.desk), bench.database, dict, path=tmp_path / "run/api.sock", language="en")
    running = asyncio.create_task(api.run())
    try:
        async with asyncio.timeout(10):
            await api.serving.wait()
        await rooms.door.admit(event(bench))
        yield rooms
    finally:
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running


async def hear_everything(bench: Bench) -> None:
    """Be the conductor and the loudspeaker: whatever is announced was heard."""
    turns = Turns(bench.database, bench.clock, bench.ids, bench.epoch, SessionSettings())
    for admission in await bench.database.transaction(lambda tx: admissions.waiting_of(tx, RequestKind.ALARM)):
        turn = await turns.open(admission, language="en", intent="alarm_raised", context={}, offline=False)

        def speak(tx: Transaction, turn_id: str = turn.id) -> None:
            said = deliveries.queue(tx, bench.clock, bench.ids, turn_id=turn_id, language="en", text="Hot.", priority=9)
            deliveries.begin(tx, said.id)
            deliveries.finish(tx, bench.clock, said.id, first_audio_mono_ns=1)

        await bench.database.transaction(speak)
        await turns.end(turn.id, TurnEvent.FINISHED, admission.id, Outcome.DONE)


@pytest.mark.req("F6", "F7")
async def test_an_acknowledgement_is_bound_to_what_was_shown(bench: Bench, rooms: AlarmBench, run: Run) -> None:
    code, out, _ = await run("list", "--json")
    shown = json.loads(out)[0]
    assert (code, shown["activation_id"], shown["revision"]) == (0, "gateway:hot:1", 1)
    await rooms.door.admit(event(bench, cleared=True))
    code, _, err = await run("ack", "gateway:hot:1", "--revision", "1")
    assert (code, err.splitlines()) == (
        exit_codes.PROBLEM,
        ["the alarm changed meanwhile: it is returned unacknowledged now", "Look at it again, then decide."],
    )
    code, out, _ = await run("ack", "gateway:hot:1", "--revision", "2")
    assert (code, out) == (0, "gateway:hot:1 acknowledged: it is normal\n")
    code, out, _ = await run("show", "gateway:hot:1", "--json")
    found = json.loads(out)
    assert (found["acknowledged_by"], [each["change"] for each in found["events"]]) == (ME, ["raised", "cleared"])
    code, out, _ = await run("show", "gateway:hot:1")
    assert code == 0 and "acknowledged_by: " + ME in out and "announce" in out
    code, _, err = await run("show", "gateway:hot:9")
    assert (code, err.splitlines()[0]) == (exit_codes.PROBLEM, "there is no alarm gateway:hot:9")


@pytest.mark.req("F6")
async def test_a_latched_alarm_is_reset(bench: Bench, rooms: AlarmBench, run: Run) -> None:
    await rooms.door.admit(event(bench, "jam"))
    assert (await run("reset", "gateway:jam:1"))[0] == exit_codes.PROBLEM
    await acknowledge_all(bench, rooms.plant)
    await rooms.door.admit(event(bench, "jam", cleared=True))
    code, out, _ = await run("reset", "gateway:jam:1")
    assert (code, out) == (0, "gateway:jam:1 reset: it is normal\n")
    assert json.loads((await run("reset", "gateway:jam:1", "--json"))[1])["error"]["code"] == "refused"


@pytest.mark.req("F6", "F7")
async def test_one_whose_end_was_lost_is_closed_with_a_reason(bench: Bench, rooms: AlarmBench, run: Run) -> None:
    published: list[str] = []
    rooms.changes._publish = lambda tx, alarm, what: published.append(what)
    assert (await run("close", "gateway:hot:1"))[0] == exit_codes.USAGE
    code, _, err = await run("close", "gateway:hot:1", "--reason", "gone", "--revision", "7")
    assert (code, err.splitlines()[0]) == (exit_codes.PROBLEM, "the alarm changed meanwhile: it is unacknowledged now")
    assert (await run("close", "gateway:hot:1", "--reason", " "))[0] != exit_codes.OK
    code, out, _ = await run("close", "gateway:hot:1", "--reason", "the gateway was replaced", "--revision", "1")
    assert (code, out) == (0, "gateway:hot:1 closed: it is normal\n")
    code, _, err = await run("close", "gateway:hot:1", "--reason", "once more")
    assert (code, err.splitlines()[0]) == (exit_codes.PROBLEM, "there is nothing to close: the alarm is normal")
    assert (await run("close", "gateway:hot:9", "--reason", "gone"))[0] == exit_codes.PROBLEM
    row = await bench.one("SELECT payload FROM operation WHERE kind = 'audit.alarm_closed'")
    assert json.loads(row["payload"]) == {"by": ME, "reason": "the gateway was replaced", "was": "unacknowledged"}
    assert await rooms.changes.follow() and published == ["raised", "closed"]
    late = await rooms.door.admit(event(bench, cleared=True))  # its end comes after all
    assert late.admission is None and (await bench.one("SELECT state, revision FROM alarm")) == {"state": "normal", "revision": 2}
    again = await rooms.door.admit(event(bench, activation="2"))
    assert again.admission is not None and again.alarm is not None and again.alarm.activation_id == "gateway:hot:2"


@pytest.mark.req("F6")
async def test_a_list_that_is_as_long_as_it_may_be_says_so(bench: Bench, rooms: AlarmBench, run: Run) -> None:
    await rooms.door.admit(event(bench, "trip"))
    for command in ("list", "journal"):
        _, out, err = await run(command, "--limit", "1")
        assert len(out.splitlines()) == 2 and err == "only the newest 1 are shown; --limit shows more\n"
        assert (await run(command, "--limit", "3"))[2] == ""
        assert (await run(command, "--limit", "1", "--json"))[2] == ""


@pytest.mark.req("F6", "F7")
async def test_shelving_has_a_reason_a_person_and_an_end(bench: Bench, rooms: AlarmBench, run: Run) -> None:
    assert (await run("shelve", "trip", "--minutes", "30"))[0] == exit_codes.USAGE
    code, out, _ = await run("shelve", "trip", "--minutes", "30", "--reason", "the guard is open")
    assert (code, out) == (0, "trip is shelved for 30 minutes\n")
    assert "trip" in [known["alarm_id"] for known in json.loads((await run("defined", "--json"))[1])]
    assert "trip" in (await run("defined"))[1]
    code, out, _ = await run("held", "--json")
    (held,) = json.loads(out)
    assert (held["alarm_id"], held["kind"], held["reason"], held["by"]) == ("trip", "shelved", "the guard is open", ME)
    assert held["left_s"] == 1800
    assert "the guard is open" in (await run("held"))[1]
    await rooms.door.admit(event(bench, "trip"))
    code, out, _ = await run("journal", "--became", "shelved", "--json")
    assert [each["alarm_id"] for each in json.loads(out)] == ["trip"]
    assert (await run("unshelve", "trip", "--json"))[1] == '{\n  "alarm_id": "trip",\n  "announced": 1\n}\n'
    assert (await run("unshelve", "trip"))[0] == exit_codes.PROBLEM
    assert (await run("shelve", "trip", "--minutes", "481", "--reason", "x"))[0] == exit_codes.PROBLEM
    assert (await run("shelve", "nothing", "--minutes", "1", "--reason", "x"))[0] == exit_codes.PROBLEM


@pytest.mark.req("F6")
async def test_out_of_service_lasts_until_it_is_put_back(bench: Bench, rooms: AlarmBench, run: Run) -> None:
    code, out, _ = await run("out-of-service", "trip", "--reason", "sensor is broken")
    assert (code, out) == (0, "trip is out of service\n")
    bench.clock.advance(1e6)
    await rooms.inhibitions.end_what_is_over()
    assert json.loads((await run("held", "--json"))[1])[0]["left_s"] is None
    assert (await run("in-service", "trip"))[1] == "trip is in service\n"
    assert (await run("held"))[1] == "every alarm is announced\n"


@pytest.mark.req("F7")
@pytest.mark.field("FC-F18")
async def test_the_account_holds_or_says_what_is_lost(bench: Bench, rooms: AlarmBench, run: Run) -> None:
    await rooms.door.admit(event(bench))
    await rooms.inhibitions.shelve("trip", 60, by="anna", reason="cleaning")
    await rooms.door.admit(event(bench, "trip", sequence=1))
    code, out, _ = await run("account", "--json")
    account = json.loads(out)
    (counted,) = account["sources"]
    assert (code, account["holds"], counted["waiting"]) == (0, True, 1)
    await hear_everything(bench)
    code, out, _ = await run("account", "--json")
    (counted,) = json.loads(out)["sources"]
    told = {name: counted[name] for name in ("seen", "journalled", "duplicates", "announced", "waiting", "suppressed")}
    assert told == {"seen": 3, "journalled": 2, "duplicates": 1, "announced": 1, "waiting": 0, "suppressed": {"shelved": 1}}
    code, out, _ = await run("account")
    assert code == 0 and "Nothing is lost." in out and "gateway" in out

    await rooms.door.admit(event(bench, "trip", "5", sequence=4))
    code, out, _ = await run("account")
    assert code == exit_codes.PROBLEM and "gateway: 2 never came, by its own numbers" in out
    code, out, _ = await run("account", "--accept-missing", "gateway")
    assert code == 0 and "Nothing is lost." in out and rooms.degraded.reasons == {}
    assert (await run("account", "--accept-missing", "nobody"))[0] == exit_codes.PROBLEM
    topic = "plant/line_3/alarms"
    await rooms.door.note_unreadable(topic, [AlarmUnreadable("not JSON")])
    code, out, _ = await run("account")
    assert code == exit_codes.PROBLEM and f"{topic}: 1 not read, newest: not JSON" in out and "not looked into" in out
    assert json.loads((await run("account", "--json"))[1])["unreadable"][0]["unseen"] == 1
    code, out, _ = await run("account", "--accept-missing", topic)
    assert (code, rooms.degraded.reasons) == (exit_codes.OK, {})
    assert "Nothing is lost." in out

    await bench.database.transaction(lambda tx: tx.execute("DELETE FROM alarm_event WHERE alarm_id = 'hot'"))
    code, out, _ = await run("account")
    assert code == exit_codes.PROBLEM and "gateway: 4 handed in, 2 accounted for" in out


@pytest.mark.req("F7")
async def test_what_was_to_be_announced_and_nobody_heard_is_a_loss(bench: Bench, rooms: AlarmBench, run: Run) -> None:
    await hear_everything(bench)
    await bench.database.transaction(lambda tx: tx.execute("UPDATE delivery SET status = 'abandoned'"))
    code, out, _ = await run("account")
    assert code == exit_codes.PROBLEM and "gateway: 1 to be announced, heard by nobody" in out
