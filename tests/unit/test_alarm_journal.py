"""The alarm journal behind the door: every event once, each activation one row, and what became of both."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from appliance.alarms.settings import AlarmSettings
from appliance.contracts.alarm import Alarm, AlarmState, Disposition
from appliance.contracts.errors import Refused, Unavailable
from appliance.contracts.operation import OperationLane
from appliance.store import alarm_events, alarms, sessions
from tests.support.alarms import AlarmBench, acknowledge_all, event, rooms_of
from tests.support.ledger import Bench, open_bench


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    async with open_bench(tmp_path) as opened:
        yield opened


async def dispositions(bench: Bench) -> list[str]:
    return [row["disposition"] for row in await bench.rows("SELECT disposition FROM alarm_event ORDER BY seq")]


async def chatter(rooms: AlarmBench, bench: Bench, times: int, *, first: int = 1, every_s: float = 2.0) -> None:
    for number in range(first, first + times):
        await rooms.door.admit(event(bench, activation=str(number)))
        bench.clock.advance(every_s / 2)
        await rooms.door.admit(event(bench, activation=str(number), cleared=True))
        bench.clock.advance(every_s / 2)


# one activation ---------------------------------------------------------------------------------------------------------
@pytest.mark.req("F7", "R1")
async def test_an_event_is_journalled_with_its_admission(bench: Bench) -> None:
    rooms = rooms_of(bench)
    told = await rooms.door.admit(event(bench, sequence=7, was_missed=True))
    assert (told.disposition, told.is_duplicate) == (Disposition.ANNOUNCE, False)
    assert told.alarm is not None and (told.alarm.activation_id, told.alarm.revision) == ("gateway:hot:1", 1)
    row = await bench.one("SELECT * FROM alarm_event")
    assert told.admission is not None and row["admission_id"] == told.admission.id
    assert (row["seq"], row["sequence"], row["was_missed"], row["epoch"]) == (told.seq, 7, 1, bench.epoch)
    assert rooms.woken == 1
    assert await bench.database.transaction(lambda tx: alarm_events.by_key(tx, row["key"])) == alarm_events.Entry(
        1, event(bench, sequence=7, was_missed=True), row["digest"], "gateway:hot:1", Disposition.ANNOUNCE, told.admission.id, 0,
        bench.clock.mono_ns, bench.clock.boot_id,
    )  # fmt: skip


@pytest.mark.req("F7")
@pytest.mark.field("FC-F17")
async def test_a_resend_is_counted_and_nothing_else(bench: Bench) -> None:
    door = rooms_of(bench).door
    await door.admit(event(bench))
    await acknowledge_all(bench, rooms_of(bench).plant)
    again = await asyncio.gather(*(door.admit(event(bench)) for _ in range(4)))
    assert all(each.is_duplicate and each.seq == 1 for each in again)
    assert (await bench.one("SELECT duplicates FROM alarm_event"))["duplicates"] == 4
    assert (await bench.one("SELECT seen FROM alarm_source"))["seen"] == 5
    assert (await bench.one("SELECT state FROM alarm"))["state"] == "acknowledged"
    assert len(await bench.rows("SELECT 1 FROM admission")) == 1


@pytest.mark.req("F7")
async def test_other_content_under_a_known_key_is_refused_counted_and_audited(bench: Bench) -> None:
    rooms = rooms_of(bench)
    await rooms.door.admit(event(bench))
    with pytest.raises(Refused, match="other content"):
        await rooms.door.admit(event(bench, value=99.0))
    assert (await bench.one("SELECT seen, conflicts FROM alarm_source")) == {"seen": 2, "conflicts": 1}
    assert "audit.alarm_conflict" in await bench.kinds(OperationLane.P1)
    assert (await rooms.account.draw_up())["holds"]


@pytest.mark.req("F7")
async def test_what_was_read_late_is_the_same_event_as_what_was_sent(bench: Bench) -> None:
    door = rooms_of(bench).door
    await door.admit(event(bench))
    await door.admit(event(bench, cleared=True, value=70.0, was_missed=True))
    sent = await door.admit(event(bench, cleared=True, value=71.5, source_utc=None))
    assert sent.is_duplicate
    retained = await door.admit(event(bench, value=96.0, is_state=True))
    assert retained.is_duplicate and (await bench.one("SELECT value FROM alarm"))["value"] == 94.2


@pytest.mark.req("F7")
async def test_two_sources_of_one_alarm_make_one_activation(bench: Bench) -> None:
    door = rooms_of(bench).door
    plc = {"source": "plc", "activation": "act_1", "was_missed": True}
    await door.admit(event(bench))
    merged = await door.admit(event(bench, **plc))
    assert merged.disposition is Disposition.MERGED and merged.admission is None
    assert merged.alarm is not None and merged.alarm.activation_id == "gateway:hot:1"
    gone = await door.admit(event(bench, cleared=True, **plc))
    assert gone.disposition is Disposition.ANNOUNCE and gone.admission is not None
    assert gone.admission.payload["activation_id"] == "gateway:hot:1"  # its end is told in the same conversation
    late = await door.admit(event(bench, cleared=True))
    assert late.disposition is Disposition.REPEAT
    (alarm,) = await bench.rows("SELECT * FROM alarm")
    assert (alarm["source"], alarm["state"]) == ("gateway", "returned_unacknowledged")
    following = await door.admit(event(bench, activation="2"))
    assert following.disposition is Disposition.ANNOUNCE and len(await bench.rows("SELECT 1 FROM alarm")) == 2


@pytest.mark.req("F7")
async def test_a_clear_from_another_source_ends_what_is_there(bench: Bench) -> None:
    door = rooms_of(bench).door
    await door.admit(event(bench))
    gone = await door.admit(event(bench, "hot", "act_9", cleared=True, source="plc"))
    assert gone.disposition is Disposition.ANNOUNCE and gone.alarm is not None and gone.alarm.cleared_utc is not None
    assert len(await bench.rows("SELECT 1 FROM alarm")) == 1
    again = await door.admit(event(bench, "hot", "act_9", source="plc"))
    assert again.disposition is Disposition.MERGED  # its raise comes after its end


@pytest.mark.req("F7")
@pytest.mark.field("FC-F15")
async def test_retained_truth_is_news_only_where_nothing_was_known(bench: Bench) -> None:
    door = rooms_of(bench).door
    unknown = await door.admit(event(bench, is_state=True))
    assert unknown.disposition is Disposition.ANNOUNCE and unknown.admission is not None
    assert unknown.admission.payload["is_state"] is True
    scanned = await door.admit(event(bench, activation="act_1", source="plc", is_state=True))
    assert scanned.disposition is Disposition.STATE
    nothing = await door.admit(event(bench, "trip", "3", cleared=True, is_state=True))
    assert (nothing.disposition, nothing.alarm) == (Disposition.STATE, None)
    assert len(await bench.rows("SELECT 1 FROM alarm")) == 1 and len(await bench.rows("SELECT 1 FROM admission")) == 1


@pytest.mark.req("F6")
async def test_a_latching_alarm_stays_until_it_is_reset(bench: Bench) -> None:
    rooms = rooms_of(bench)
    await rooms.door.admit(event(bench, "jam"))
    await acknowledge_all(bench, rooms.plant)
    gone = await rooms.door.admit(event(bench, "jam", cleared=True))
    assert gone.alarm is not None and gone.alarm.state is AlarmState.LATCHED
    done: Alarm = await bench.database.transaction(
        lambda tx: alarms.reset(tx, bench.clock, "gateway:jam:1", "anna", AlarmState.NORMAL)
    )
    assert (done.state, done.revision) == (AlarmState.NORMAL, 4)
    assert await bench.kinds(OperationLane.P0) == ["alarm.raised", "alarm.acknowledged", "alarm.cleared", "alarm.reset"]


# the door ------------------------------------------------------------------------------------------------------------------
@pytest.mark.req("R1")
async def test_a_full_queue_keeps_nothing_of_the_event_and_lets_held_ones_in(bench: Bench) -> None:
    rooms = rooms_of(bench, limit=0)
    with pytest.raises(Unavailable):
        await rooms.door.admit(event(bench))
    assert await bench.rows("SELECT 1 FROM alarm_source") == [] and await dispositions(bench) == []
    await rooms.door.suppress("hot", True, "motor is off")
    held = await rooms.door.admit(event(bench))
    assert held.disposition is Disposition.SUPPRESSED and await dispositions(bench) == ["suppressed"]


@pytest.mark.req("F7", "R2")
async def test_nothing_is_lost_between_journal_and_conversation(tmp_path: Path) -> None:
    async with open_bench(tmp_path) as bench:
        told = await rooms_of(bench).door.admit(event(bench))
        clock, ids = bench.clock, bench.ids
    async with open_bench(tmp_path, clock=clock, ids=ids) as bench:  # died before anybody looked at the queue
        rooms = rooms_of(bench)
        assert told.admission is not None
        waiting = await bench.one("SELECT id, status FROM admission")
        assert waiting == {"id": told.admission.id, "status": "queued"}
        again = await rooms.door.admit(event(bench))  # the broker, never answered, sends it again
        assert again.is_duplicate and again.admission is not None and again.admission.id == told.admission.id
        account = await rooms.account.draw_up()
        assert account["holds"] and account["sources"][0]["waiting"] == 1


# sequence numbers ----------------------------------------------------------------------------------------------------------
@pytest.mark.req("F7")
@pytest.mark.field("FC-F18")
async def test_a_gap_in_a_sources_numbers_is_a_loss_until_it_is_filled_or_looked_into(bench: Bench) -> None:
    rooms = rooms_of(bench)
    for number in (1, 2, 6):
        await rooms.door.admit(event(bench, activation=str(number), sequence=number))
    assert rooms.degraded.reasons == {"alarms:gateway": "alarm events of gateway that never came: 3"}
    assert "alarm.missing" in await bench.kinds(OperationLane.P0)
    account = await rooms.account.draw_up()
    assert not account["holds"] and account["sources"][0]["missing"] == 3
    await rooms.door.admit(event(bench, activation="4", sequence=4))  # late, and not lost
    assert rooms.degraded.reasons == {"alarms:gateway": "alarm events of gateway that never came: 2"}
    await rooms.account.accept_missing("gateway", "anna")
    await rooms.door.name_missing()
    assert rooms.degraded.reasons == {}
    account = await rooms.account.draw_up()
    assert account["holds"] and (account["sources"][0]["missing"], account["sources"][0]["unseen"]) == (2, 0)
    await rooms.door.admit(event(bench, activation="7", sequence=7))
    assert rooms.degraded.reasons == {}


@pytest.mark.req("F7")
async def test_numbers_that_begin_anew_are_a_restart_and_no_loss(bench: Bench) -> None:
    rooms = rooms_of(bench)
    for activation, number in (("a", 254), ("b", 255), ("c", 0), ("d", 1), ("e", 1)):
        await rooms.door.admit(event(bench, activation=activation, sequence=number))
    row = await bench.one("SELECT missing, restarts, last_sequence FROM alarm_source")
    assert row == {"missing": 0, "restarts": 1, "last_sequence": 1}
    assert rooms.degraded.reasons == {}


@pytest.mark.req("F7")
@pytest.mark.field("FC-F15", "FC-F18")
@pytest.mark.parametrize(
    ("numbers", "retained", "missing", "restarts"),
    [
        ([*range(1, 21), *range(26, 31)], range(1, 21), 0, 0),  # what the broker retained, then news
        ([26, 30, 27, 28, 29, 30, 31], [], 0, 0),
        ([26, 27, 29], [27], 1, 0),  # 27 was found, 28 never came
        ([10, 9, 11, 12], [], 0, 0),  # overtaken on the way
        ([26, 25, 10, 27], [], 0, 0),
        ([1, 2, 3, 1, 2, 3, 4], [], 0, 1),  # it begins anew: 1 was seen
        ([1, 2, 3, 1, 3], [], 1, 1),
    ],
)
async def test_only_what_was_sent_to_us_and_never_came_is_missing(
    bench: Bench, numbers: list[int], retained: Sequence[int], missing: int, restarts: int
) -> None:
    rooms = rooms_of(bench)
    for place, number in enumerate(numbers):
        await rooms.door.admit(event(bench, activation=str(place), sequence=number, is_state=number in retained))
    row = await bench.one("SELECT missing, restarts FROM alarm_source")
    assert row == {"missing": missing, "restarts": restarts}


@pytest.mark.req("F7")
@pytest.mark.field("FC-F15", "FC-F18")
async def test_a_number_that_was_found_first_and_is_sent_only_then_is_the_newest(bench: Bench) -> None:
    rooms = rooms_of(bench)
    for number, is_state in (
        (26, False),
        (30, True),
        (27, False),
        (28, False),
        (29, False),
        (30, False),
        (30, False),
        (31, False),
    ):
        await rooms.door.admit(event(bench, activation=str(number), sequence=number, is_state=is_state))
    row = await bench.one("SELECT missing, restarts, last_sequence FROM alarm_source")
    assert row == {"missing": 0, "restarts": 0, "last_sequence": 31}
    assert (await rooms.account.draw_up())["holds"]


@pytest.mark.req("F7")
async def test_what_is_missing_is_named_again_after_a_restart(bench: Bench) -> None:
    rooms = rooms_of(bench)
    for number in (1, 3):
        await rooms.door.admit(event(bench, activation=str(number), sequence=number))
    again = rooms_of(bench)
    await again.door.name_missing()
    assert again.degraded.reasons == {"alarms:gateway": "alarm events of gateway that never came: 1"}


# chatter -------------------------------------------------------------------------------------------------------------------
@pytest.mark.req("F6", "F7")
@pytest.mark.field("FC-F16")
async def test_a_chattering_alarm_is_one_conversation_with_a_count_and_one_notice(bench: Bench) -> None:
    rooms = rooms_of(bench, settings=AlarmSettings(chatter_count=3))
    first = await rooms.door.admit(event(bench, activation="0"))
    assert first.admission is not None
    session = await bench.database.transaction(lambda tx: sessions.open_for(tx, bench.clock, bench.ids, first.admission.lane))
    await rooms.door.admit(event(bench, activation="0", cleared=True))
    await chatter(rooms, bench, 2)
    await chatter(rooms, bench, 100, first=3, every_s=1.0)
    await bench.database.transaction(lambda tx: alarms.bind_session(tx, "gateway:hot:0", session))
    notices = await bench.rows("SELECT payload FROM admission WHERE dedupe_key LIKE 'chatter:%'")
    assert len(notices) == 1 and '"notice":"chatter"' in notices[0]["payload"] and '"count":4' in notices[0]["payload"]
    assert len(await bench.rows("SELECT 1 FROM admission")) == 6 + 1
    bound = await bench.one("SELECT count(*) AS n FROM alarm WHERE session_id = ?", session)
    assert bound["n"] == 1 + 100
    assert (await bench.one("SELECT raises, leader FROM alarm_chatter")) == {"raises": 103, "leader": "gateway:hot:0"}
    assert (await bench.one("SELECT count(*) AS n FROM alarm WHERE state = 'returned_unacknowledged'"))["n"] == 103


@pytest.mark.req("F6")
async def test_chatter_ends_when_it_is_calm_and_what_stays_is_told(bench: Bench) -> None:
    rooms = rooms_of(bench, settings=AlarmSettings(chatter_count=2, chatter_window_s=60, chatter_calm_s=120))
    await chatter(rooms, bench, 4)
    staying = await rooms.door.admit(event(bench, activation="9"))
    assert staying.disposition is Disposition.CHATTER
    assert await rooms.inhibitions.end_what_is_over() == pytest.approx(120)
    bench.clock.advance(121)
    assert await rooms.inhibitions.end_what_is_over() is None
    told = await bench.one("SELECT payload FROM admission ORDER BY seq DESC LIMIT 1")
    assert '"activation_id":"gateway:hot:9"' in told["payload"] and '"is_state":true' in told["payload"]
    assert (await bench.kinds(OperationLane.P0))[-1] == "alarm.chattered"
    assert await bench.rows("SELECT 1 FROM alarm_chatter") == []
    gone = await rooms.door.admit(event(bench, activation="9", cleared=True))
    assert gone.disposition is Disposition.ANNOUNCE
    assert (await rooms.door.admit(event(bench, activation="10"))).disposition is Disposition.ANNOUNCE


@pytest.mark.req("F6")
async def test_a_raise_after_the_calm_is_told_even_before_anybody_ended_the_chatter(bench: Bench) -> None:
    rooms = rooms_of(bench, settings=AlarmSettings(chatter_count=2, chatter_window_s=60, chatter_calm_s=120))
    await chatter(rooms, bench, 4)
    bench.clock.advance(200)
    assert (await rooms.door.admit(event(bench, activation="9"))).disposition is Disposition.ANNOUNCE


# followers -----------------------------------------------------------------------------------------------------------------
@pytest.mark.req("F6", "F7")
async def test_every_stored_change_is_told_once_in_order_even_after_a_crash(tmp_path: Path) -> None:
    async with open_bench(tmp_path) as bench:
        await rooms_of(bench).door.admit(event(bench))
        clock, ids = bench.clock, bench.ids
    async with open_bench(tmp_path, clock=clock, ids=ids) as bench:
        rooms = rooms_of(bench)
        told: list[tuple[str, int]] = []
        published: list[str] = []
        rooms.changes.listeners.append(lambda alarm: told.append((alarm.state, alarm.revision)))
        rooms.changes._publish = lambda tx, alarm, what: published.append(what)
        assert await rooms.changes.follow()  # stored by the one that died
        await acknowledge_all(bench, rooms.plant)
        await rooms.inhibitions.shelve("trip", 60, by="anna", reason="cleaning")  # changes no alarm
        assert await rooms.changes.follow() and not await rooms.changes.follow()
        await rooms.door.admit(event(bench, cleared=True))
        assert await rooms.changes.follow()
        assert published == ["raised", "acknowledged", "cleared"]
        assert told == [("unacknowledged", 1), ("acknowledged", 2), ("normal", 3)]


@pytest.mark.req("F7")
async def test_a_flood_takes_over_what_waits(bench: Bench) -> None:
    rooms = rooms_of(bench)
    told = await rooms.door.admit(event(bench))
    assert told.admission is not None
    identity = told.admission.id
    await bench.database.transaction(lambda tx: alarm_events.redispose(tx, identity, Disposition.FLOOD))
    assert await dispositions(bench) == ["flood"]
    gone = await rooms.door.admit(event(bench, cleared=True))
    assert gone.disposition is Disposition.FLOOD and gone.admission is None
    with pytest.raises(Refused):
        await bench.database.transaction(lambda tx: alarm_events.redispose(tx, "ad_none", Disposition.FLOOD))


async def test_a_late_raise_keeps_its_value_and_wakes_nothing(bench: Bench) -> None:
    rooms = rooms_of(bench)
    await rooms.door.admit(event(bench, cleared=True, value=70.0))
    late = await rooms.door.admit(replace(event(bench), value=94.2))
    assert (late.disposition, late.admission) == (Disposition.REPEAT, None)
    assert late.alarm is not None and (late.alarm.value, late.alarm.is_active) == (94.2, False)
    assert rooms.woken == 1
