"""Alarms that came and could not be taken are in the loss account until somebody has looked into them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from appliance.contracts.errors import AlarmUnreadable, Refused
from appliance.contracts.operation import OperationLane
from appliance.store.alarm_unreadable import MOST_TOPICS, OTHER_TOPICS
from tests.support.alarms import event, rooms_of
from tests.support.ledger import Bench, open_bench

pytestmark = [pytest.mark.req("F7"), pytest.mark.field("FC-F18")]

TOPIC = "plant/line_3/alarms"


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    async with open_bench(tmp_path) as opened:
        yield opened


def fault(why: str = "no alarm NOBODY", **more: Any) -> AlarmUnreadable:
    return AlarmUnreadable(why, **more)


async def test_a_topic_is_a_fault_and_named_until_somebody_looked_into_it(bench: Bench) -> None:
    rooms = rooms_of(bench)
    await rooms.door.note_unreadable(TOPIC, [fault("not JSON")])
    await rooms.door.note_unreadable(TOPIC, [fault(), fault("no state")])
    account = await rooms.account.draw_up()
    assert (account["holds"], account["faults"]) == (False, [f"{TOPIC}: 3 not read, newest: no alarm NOBODY"])
    assert [(each["topic"], each["count"], each["unseen"]) for each in account["unreadable"]] == [(TOPIC, 3, 3)]
    again = rooms_of(bench)  # a restart
    await again.door.name_missing()
    assert again.degraded.reasons == {"alarms:unreadable": f"alarms that could not be read on {TOPIC}: no alarm NOBODY"}
    await again.desk.accept_missing(TOPIC, "anna")
    account = await again.account.draw_up()
    assert account["holds"] and account["unreadable"][0]["unseen"] == 0 and again.degraded.reasons == {}
    assert (await bench.kinds(OperationLane.P0))[-1] == "alarm.unreadable_accepted"
    await again.door.note_unreadable(TOPIC, [fault()])
    assert (await again.account.draw_up())["faults"] == [f"{TOPIC}: 1 not read, newest: no alarm NOBODY"]
    with pytest.raises(Refused):
        await again.desk.accept_missing("plant/other", "anna")


async def test_a_source_of_the_same_name_is_accepted_with_its_topic(bench: Bench) -> None:
    rooms = rooms_of(bench)
    for number in (1, 3):
        await rooms.door.admit(event(bench, activation=str(number), sequence=number))
    await rooms.door.note_unreadable("gateway", [fault()])
    assert len((await rooms.account.draw_up())["faults"]) == 2
    assert (await rooms.desk.accept_missing("gateway", "anna"))["name"] == "gateway"
    assert (await rooms.account.draw_up())["holds"]


async def test_what_the_broker_retains_is_counted_once(bench: Bench) -> None:
    rooms = rooms_of(bench)
    await rooms.door.note_unreadable(TOPIC, [fault(is_state=True), fault("no state", is_state=True)])
    await rooms.desk.accept_missing(TOPIC, "anna")
    await rooms.door.note_unreadable(TOPIC, [fault(is_state=True), fault("no state", is_state=True)])  # connected again
    assert (await rooms.account.draw_up())["holds"]
    await rooms.door.note_unreadable(TOPIC, [fault("other", is_state=True)])
    assert not (await rooms.account.draw_up())["holds"]


async def test_the_number_of_an_alarm_that_could_not_be_read_did_come(bench: Bench) -> None:
    rooms = rooms_of(bench)
    for number in (1, 2, 4, 6):
        if number != 4:
            await rooms.door.admit(event(bench, activation=str(number), sequence=number))
        await rooms.door.note_unreadable(TOPIC, [fault(source="gateway", sequence=number + 1)] if number != 6 else [fault()])
    row = await bench.one("SELECT missing, restarts, last_sequence, seen FROM alarm_source")
    assert row == {"missing": 1, "restarts": 0, "last_sequence": 6, "seen": 3}  # 4 never came
    await rooms.door.note_unreadable(TOPIC, [fault(source="gateway", sequence=4)])
    assert "alarms:gateway" not in rooms.degraded.reasons
    await rooms.door.note_unreadable(TOPIC, [fault(source="never_heard_of", sequence=4)])
    assert [each["source"] for each in (await rooms.account.draw_up())["sources"]] == ["gateway"]


async def test_topics_and_words_are_bounded(bench: Bench) -> None:
    rooms = rooms_of(bench)
    for number in range(MOST_TOPICS + 3):
        await rooms.door.note_unreadable(f"plant/{number}/alarms", [fault("x" * 10_000)])
    await rooms.door.note_unreadable("plant/0/alarms", [fault("x" * 10_000)])
    rows = {row["topic"]: row["count"] for row in await bench.rows("SELECT topic, count FROM alarm_unreadable")}
    assert len(rows) == MOST_TOPICS + 1 and (rows[OTHER_TOPICS], rows["plant/0/alarms"]) == (3, 2)
    assert len(rooms.degraded.reasons["alarms:unreadable"]) < 1500
    assert (await rooms.desk.accept_missing(OTHER_TOPICS, "anna"))["unseen"] == 0
