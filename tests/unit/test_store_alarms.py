"""Alarm rows: one an activation, duplicates change nothing, every change is an operation of lane P0."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from appliance.contracts.admission import Door
from appliance.contracts.alarm import Alarm, AlarmChange, AlarmEvent, AlarmState
from appliance.contracts.alarm_definition import AlarmDefinition, Priority
from appliance.contracts.errors import Refused
from appliance.contracts.operation import OperationLane
from appliance.contracts.store import Transaction
from appliance.store import alarms, announcements, deliveries, floods, sessions
from tests.support.ledger import Bench, given_admission, given_turn, open_bench

HOT = AlarmDefinition(
    id="motor_3_hot",
    asset="motor_3",
    source_id="M3_OVERTEMP",
    priority=Priority.HIGH,
    fault="over_temperature",
    playbook="over_temperature",
    text={"en": "motor 3 is too hot"},
)
RAISED = AlarmEvent("gateway", HOT.id, "17", AlarmChange.RAISED, 94.2, "degC", None)
CLEARED = replace(RAISED, change=AlarmChange.CLEARED, value=70.0)
KEY = RAISED.activation_id


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    async with open_bench(tmp_path) as opened:
        yield opened


async def apply(bench: Bench, event: AlarmEvent, state: AlarmState) -> Alarm:
    return await bench.database.transaction(lambda tx: alarms.apply(tx, bench.clock, HOT, event, state))


async def acknowledge(bench: Bench, activation_id: str, by: str) -> Alarm:
    return await bench.database.transaction(
        lambda tx: alarms.acknowledge(tx, bench.clock, activation_id, by, AlarmState.ACKNOWLEDGED)
    )


@pytest.mark.req("F6", "F7")
async def test_an_activation_lives_from_raised_to_normal(bench: Bench) -> None:
    raised = await apply(bench, RAISED, AlarmState.UNACKNOWLEDGED)
    assert (raised.asset, raised.priority, raised.value, raised.unit) == ("motor_3", "high", 94.2, "degC")
    assert raised.raised_utc == bench.clock.utc()
    bench.clock.advance(60)
    acknowledged = await acknowledge(bench, KEY, "maria")
    assert (acknowledged.acknowledged_by, acknowledged.acknowledged_utc) == ("maria", bench.clock.utc())
    assert [a.activation_id for a in await bench.database.transaction(alarms.live)] == [KEY]
    bench.clock.advance(60)
    normal = await apply(bench, CLEARED, AlarmState.NORMAL)
    assert (normal.cleared_utc, normal.value, normal.raised_utc) == (bench.clock.utc(), 94.2, raised.raised_utc)
    assert await bench.database.transaction(alarms.live) == []
    assert await bench.kinds(OperationLane.P0) == ["alarm.raised", "alarm.acknowledged", "alarm.cleared"]


@pytest.mark.field("FC-F17")
async def test_a_repeat_changes_nothing(bench: Bench) -> None:
    first = await apply(bench, RAISED, AlarmState.UNACKNOWLEDGED)
    bench.clock.advance(5)
    assert await apply(bench, RAISED, AlarmState.UNACKNOWLEDGED) == first
    cleared = await apply(bench, CLEARED, AlarmState.RETURNED_UNACKNOWLEDGED)
    bench.clock.advance(5)
    assert await apply(bench, CLEARED, AlarmState.RETURNED_UNACKNOWLEDGED) == cleared
    assert len(await bench.kinds(OperationLane.P0)) == 2


async def test_a_clear_whose_raise_never_came_is_accounted_for(bench: Bench) -> None:
    seen = await apply(bench, CLEARED, AlarmState.RETURNED_UNACKNOWLEDGED)
    assert seen.cleared_utc == seen.raised_utc == bench.clock.utc()
    assert await bench.kinds(OperationLane.P0) == ["alarm.cleared"]


@pytest.mark.req("F7")
async def test_the_first_acknowledgement_stays(bench: Bench) -> None:
    await apply(bench, RAISED, AlarmState.UNACKNOWLEDGED)
    for who in ("maria", "jonas"):
        await acknowledge(bench, KEY, who)
    assert (await bench.one("SELECT acknowledged_by FROM alarm"))["acknowledged_by"] == "maria"
    assert len(await bench.kinds(OperationLane.P0)) == 2
    with pytest.raises(Refused):
        await acknowledge(bench, "nobody:knows:1", "maria")


@pytest.mark.req("F7")
async def test_an_activation_belongs_to_one_conversation(bench: Bench) -> None:
    await apply(bench, RAISED, AlarmState.UNACKNOWLEDGED)
    ours = await bench.database.transaction(lambda tx: sessions.open_for(tx, bench.clock, bench.ids, "asset:motor_3"))
    other = await bench.database.transaction(lambda tx: sessions.open_for(tx, bench.clock, bench.ids, "asset:pump_3"))
    for _ in range(2):
        await bench.database.transaction(lambda tx: alarms.bind_session(tx, KEY, ours))
    with pytest.raises(Refused, match=ours):
        await bench.database.transaction(lambda tx: alarms.bind_session(tx, KEY, other))
    found = await bench.database.transaction(lambda tx: alarms.by_activation(tx, KEY))
    assert found is not None and found.session_id == ours


@pytest.mark.req("F7")
async def test_every_change_counts_the_revision_up_and_nothing_else_does(bench: Bench) -> None:
    assert (await apply(bench, RAISED, AlarmState.UNACKNOWLEDGED)).revision == 1
    assert (await apply(bench, RAISED, AlarmState.UNACKNOWLEDGED)).revision == 1
    assert (await acknowledge(bench, KEY, "maria")).revision == 2
    assert (await acknowledge(bench, KEY, "jonas")).revision == 2
    assert (await apply(bench, CLEARED, AlarmState.LATCHED)).revision == 3
    await bench.database.transaction(lambda tx: alarms.bind_session(tx, KEY, sessions.open_for(tx, bench.clock, bench.ids, "x")))
    reset = await bench.database.transaction(lambda tx: alarms.reset(tx, bench.clock, KEY, "maria", AlarmState.NORMAL))
    assert (reset.revision, reset.state) == (4, AlarmState.NORMAL)


@pytest.mark.req("F7")
async def test_a_clear_may_be_counted_to_the_activation_another_source_raised(bench: Bench) -> None:
    await apply(bench, RAISED, AlarmState.UNACKNOWLEDGED)
    by_plc = replace(CLEARED, source="plc", activation="act_1")
    gone = await bench.database.transaction(
        lambda tx: alarms.apply(tx, bench.clock, HOT, by_plc, AlarmState.RETURNED_UNACKNOWLEDGED, activation_id=KEY)
    )
    assert (gone.activation_id, gone.source, gone.is_active) == (KEY, "gateway", False)
    assert await bench.database.transaction(lambda tx: alarms.active(tx, HOT.id)) == []


@pytest.mark.req("F7")
async def test_those_that_follow_share_the_conversation_whenever_it_begins(bench: Bench) -> None:
    for activation in ("17", "18", "19"):
        await apply(bench, replace(RAISED, activation=activation), AlarmState.UNACKNOWLEDGED)
    second, third = (f"gateway:{HOT.id}:{number}" for number in (18, 19))
    await bench.database.transaction(lambda tx: alarms.follow(tx, second, KEY))
    ours = await bench.database.transaction(lambda tx: sessions.open_for(tx, bench.clock, bench.ids, "asset:motor_3"))
    await bench.database.transaction(lambda tx: alarms.bind_session(tx, KEY, ours))
    await bench.database.transaction(lambda tx: alarms.follow(tx, third, KEY))
    assert {row["session_id"] for row in await bench.rows("SELECT session_id FROM alarm")} == {ours}


@pytest.mark.req("F7")
async def test_what_was_raised_before_an_input_is_known_by_sequence(bench: Bench) -> None:
    await apply(bench, RAISED, AlarmState.UNACKNOWLEDGED)
    spoken = await given_admission(bench, "typed", door=Door.CONSOLE)
    bench.clock.now -= timedelta(days=1)  # the wall clock has no say in it
    await apply(bench, replace(RAISED, activation="18"), AlarmState.UNACKNOWLEDGED)
    before = await bench.database.transaction(lambda tx: alarms.told_before(tx, spoken.id))
    assert [alarm.activation_id for alarm in before] == [KEY]
    assert len(await bench.database.transaction(alarms.live)) == 2


class Teller:
    """Raises alarms, and says words about them: with :meth:`say` they wait, with :meth:`sound` they have left the speaker."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.inputs = 0

    async def hot(self, activation: str) -> str:
        self.bench.clock.advance(1)
        return (await apply(self.bench, replace(RAISED, activation=activation), AlarmState.UNACKNOWLEDGED)).activation_id

    async def say(self, subject: str, *, is_flood: bool = False) -> str:
        bench = self.bench
        bench.clock.advance(1)
        turn = await given_turn(bench, f"tell:{subject}:{bench.clock.monotonic_ns()}", lane=f"lane:{bench.clock.monotonic_ns()}")

        def work(tx: Transaction) -> str:
            announcements.note(tx, bench.clock, subject, turn.id, is_flood=is_flood)
            said = deliveries.queue(tx, bench.clock, bench.ids, turn_id=turn.id, language="en", text="Hot.", priority=9)
            return said.id

        return await bench.database.transaction(work)

    async def sound(self, delivery_id: str, *, receipt_after_s: float = 1.0) -> None:
        bench = self.bench
        bench.clock.advance(1)
        await bench.database.transaction(lambda tx: deliveries.begin(tx, delivery_id))
        first = bench.clock.monotonic_ns()
        bench.clock.advance(receipt_after_s)
        await bench.database.transaction(lambda tx: deliveries.finish(tx, bench.clock, delivery_id, first_audio_mono_ns=first))

    async def known_to(self, door: Door) -> Callable[[], Awaitable[list[str]]]:
        """Let somebody speak or type; return how to ask what they may have meant."""
        self.bench.clock.advance(1)
        self.inputs += 1
        heard = await given_admission(self.bench, f"input:{self.inputs}", door=door)

        async def known() -> list[str]:
            found = await self.bench.database.transaction(lambda tx: alarms.told_before(tx, heard.id))
            return [alarm.activation_id for alarm in found]

        return known


@pytest.mark.req("F7")
async def test_who_speaks_knows_what_was_heard_and_who_types_what_was_raised(bench: Bench) -> None:
    teller = Teller(bench)
    first, second = await teller.hot("17"), await teller.hot("18")
    await teller.sound(await teller.say(first))
    waiting = await teller.say(second)
    spoken, typed = await teller.known_to(Door.VOICE), await teller.known_to(Door.CONSOLE)
    assert (await spoken(), await typed()) == ([first], [first, second])
    await teller.sound(waiting)
    assert await spoken() == [first]  # it was heard after they had spoken
    assert await (await teller.known_to(Door.VOICE))() == [first, second]
    await teller.sound(await teller.say(first))  # told again
    assert await (await teller.known_to(Door.VOICE))() == [second, first]
    assert await (await teller.known_to(Door.CONSOLE))() == [first, second]


@pytest.mark.req("F7")
async def test_what_could_not_be_said_was_not_heard_and_what_somebody_acknowledged_is_known(bench: Bench) -> None:
    teller = Teller(bench)
    hot = await teller.hot("17")
    failed = await teller.say(hot)
    await bench.database.transaction(lambda tx: deliveries.begin(tx, failed))
    await bench.database.transaction(lambda tx: deliveries.fail(tx, bench.clock, failed, why="no voice"))
    assert await (await teller.known_to(Door.VOICE))() == []
    await acknowledge(bench, hot, "maria")
    assert await (await teller.known_to(Door.VOICE))() == [hot]


@pytest.mark.req("F7")
async def test_a_floods_words_tell_of_those_that_were_in_it_then(bench: Bench) -> None:
    teller = Teller(bench)
    early = [await teller.hot(activation) for activation in ("17", "18")]

    def work(tx: Transaction) -> str:
        session = sessions.open_for(tx, bench.clock, bench.ids, "asset:motor_3")
        flood = floods.open_flood(tx, bench.clock, bench.ids, session_id=session, lane="asset:motor_3")
        floods.add(tx, bench.clock, flood.id, early)
        return flood.id

    flood = await bench.database.transaction(work)
    words = await teller.say(flood, is_flood=True)
    late = await teller.hot("19")
    await bench.database.transaction(lambda tx: floods.add(tx, bench.clock, flood, [late]))
    assert await (await teller.known_to(Door.VOICE))() == []
    await teller.sound(words)
    assert await (await teller.known_to(Door.VOICE))() == early
    await teller.sound(await teller.say(flood, is_flood=True))
    assert await (await teller.known_to(Door.VOICE))() == [*early, late]


@pytest.mark.req("F7")
async def test_one_whose_end_was_lost_is_closed_in_a_persons_name(bench: Bench) -> None:
    await apply(bench, RAISED, AlarmState.UNACKNOWLEDGED)
    closed = await bench.database.transaction(lambda tx: alarms.close(tx, bench.clock, KEY, "maria", "the gateway was replaced"))
    assert (closed.state, closed.cleared_utc, closed.revision) == (AlarmState.NORMAL, bench.clock.utc(), 2)
    assert closed.acknowledged_by is None
    payload = json.loads((await bench.one("SELECT payload FROM operation WHERE kind = 'alarm.closed'"))["payload"])
    assert (payload["by"], payload["reason"], payload["state"]) == ("maria", "the gateway was replaced", "normal")
    with pytest.raises(Refused):
        await bench.database.transaction(lambda tx: alarms.close(tx, bench.clock, "nobody:knows:1", "maria", "why"))
