"""A clock that is set, a day on which the hour changes, a time zone that is changed: nothing that lasts or waits is moved by it.

Every duration of the appliance is set up, then the clock does something, then 20 s pass: nothing has ended, is dropped, is told
again or has grown old. Then the time it really takes passes, and it ends as if nothing had been.
"""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from appliance.admission.recovery import take_over
from appliance.admission.session_keeper import SessionKeeper
from appliance.alarms.reannounce import Reannouncer
from appliance.alarms.settings import AlarmSettings
from appliance.contracts.admission import Door, Outcome
from appliance.contracts.alarm import Inhibition
from appliance.contracts.delivery import Channel
from appliance.contracts.effect import Confirmation
from appliance.contracts.plan import Intent, Step
from appliance.contracts.reading import Quality, Reading
from appliance.contracts.store import Transaction
from appliance.foundation.id_source import SystemIds
from appliance.session.questions import Questions
from appliance.session.settings import SessionSettings
from appliance.session.stopwatches import Stopwatches
from appliance.session.turns import Turns
from appliance.store import (
    admissions,
    alarm_chatter,
    announcements,
    confirmations,
    deliveries,
    inhibitions,
    leases,
    sessions,
)
from tests.support.clock import ManualClock
from tests.support.ledger import Bench, given_admission, given_turn, open_bench

pytestmark = [pytest.mark.field("FC-B01"), pytest.mark.req("R3", "R5", "S7")]


@dataclass(frozen=True)
class Lasting:
    """One thing that lasts ``for_s`` seconds; ``goes_on`` says whether it still does."""

    for_s: float
    goes_on: Callable[[], Awaitable[bool]]


async def shelving(bench: Bench) -> Lasting:
    def begin(tx: Transaction) -> None:
        inhibitions.begin(tx, bench.clock, "hot", Inhibition.SHELVED, by="anna", reason="maintenance", for_s=600)

    await bench.database.transaction(begin)

    async def goes_on() -> bool:
        held = await bench.database.transaction(lambda tx: inhibitions.all_held(tx, bench.clock))
        return bool(held and held[0].left_s)

    return Lasting(600, goes_on)


async def waiting_words(bench: Bench) -> Lasting:
    def queue(tx: Transaction) -> None:
        deliveries.queue(tx, bench.clock, bench.ids, turn_id=None, language="en", text="hello", priority=5)

    await bench.database.transaction(queue)

    async def goes_on() -> bool:
        begun = await bench.database.transaction(lambda tx: deliveries.begin_next(tx, bench.clock))
        if begun is not None:
            why = "the test puts it back"
            await bench.database.transaction(
                lambda tx: deliveries.give_back(tx, bench.clock, begun.id, may_have_been_heard=False, why=why)
            )
        return begun is not None

    return Lasting(deliveries.LONGEST_WAIT_S, goes_on)


async def waiting_message(bench: Bench) -> Lasting:
    def queue(tx: Transaction) -> None:
        deliveries.queue_message(tx, bench.clock, bench.ids, turn_id=None, topic="a/b", payload={}, priority=5)

    await bench.database.transaction(queue)

    async def goes_on() -> bool:
        begun = await bench.database.transaction(lambda tx: deliveries.begin_next(tx, bench.clock, Channel.MQTT))
        if begun is not None:
            await bench.database.transaction(
                lambda tx: deliveries.give_back(tx, bench.clock, begun.id, may_have_been_heard=False, why="")
            )
        return begun is not None

    return Lasting(deliveries.LONGEST_WAIT_S, goes_on)


async def fresh_question(bench: Bench) -> Lasting:
    """A yes belongs to what was just asked, and after two minutes to nothing when two questions are open."""
    for number in (1, 2):
        turn = await given_turn(bench, f"q{number}", (Step("ask", "ask", {"question": "Shall I?"}),), lane=f"asset:{number}")
        action = (await bench.one("SELECT id FROM action WHERE turn_id = ?", turn.id))["id"]

        def ask(tx: Transaction, turn_id: str = turn.id, action_id: str = action) -> None:
            words = deliveries.queue(tx, bench.clock, bench.ids, turn_id=turn_id, language="en", text="Shall I?", priority=5)
            confirmations.ask(
                tx, bench.clock, bench.ids, turn_id=turn_id, action_id=action_id, question="Shall I?", delivery_id=words.id
            )
            deliveries.begin(tx, words.id)
            deliveries.finish(tx, bench.clock, words.id, first_audio_mono_ns=bench.clock.monotonic_ns())

        await bench.database.transaction(ask)
    questions = Questions(bench.database, bench.clock)
    spoke = {"text": "yes", "language": "en", "by": "voice"}

    async def goes_on() -> bool:
        bench.ids.count += 1
        heard = spoke | {"speech_ended_mono_ns": bench.clock.monotonic_ns()}
        answer = await given_admission(bench, f"yes{bench.ids.count}", door=Door.VOICE, payload=heard)
        meant = await questions.meant_by(Intent("confirm", "en", "yes"), answer)
        return isinstance(meant, Confirmation)

    return Lasting(120, goes_on)


async def unanswered_question(bench: Bench) -> Lasting:
    turn = await given_turn(bench, "q", (Step("ask", "ask", {"question": "Shall I?"}),))
    action = (await bench.one("SELECT id FROM action"))["id"]

    def ask(tx: Transaction) -> None:
        confirmations.ask(tx, bench.clock, bench.ids, turn_id=turn.id, action_id=action, question="Shall I?", delivery_id=None)
        tx.execute("UPDATE turn SET state = 'confirming'")

    await bench.database.transaction(ask)
    turns = Turns(bench.database, bench.clock, bench.ids, bench.epoch, SessionSettings())
    await turns.abandon_unanswered()

    async def goes_on() -> bool:
        return await turns.abandon_unanswered() == []

    return Lasting(SessionSettings().confirm_limit_s, goes_on)


async def lease(bench: Bench) -> Lasting:
    turn = await given_turn(bench, "k", (Step("read", "read_tags", {"keys": ["a.b"]}),))
    await bench.database.transaction(lambda tx: leases.take(tx, bench.clock, turn.id, turn.lane, bench.epoch))

    async def goes_on() -> bool:
        rows = await bench.rows(
            "SELECT 1 FROM lease WHERE boot_id = ? AND expires_mono_ns > ?", bench.clock.boot_id, bench.clock.monotonic_ns()
        )
        return bool(rows)

    return Lasting(leases.LEASE_S, goes_on)


async def resting_session(bench: Bench) -> Lasting:
    turn = await given_turn(bench, "k")

    def end(tx: Transaction) -> None:
        tx.execute("UPDATE turn SET state = 'idle'")
        admissions.settle(tx, bench.clock, turn.admission_id, Outcome.DONE)
        leases.release(tx, turn.id)

    await bench.database.transaction(end)
    keeper = SessionKeeper(bench.database, bench.clock, idle_s=1800)
    await keeper.close_idle()
    assert await bench.database.fetch(sessions.RESTING)

    async def goes_on() -> bool:
        return await keeper.close_idle() == []

    return Lasting(1800, goes_on)


async def reannouncement(bench: Bench) -> Lasting:
    """What was told is not told again sooner, and for how long it has been so is what the monotonic clock says."""
    turn = await given_turn(bench, "k")
    await bench.database.transaction(lambda tx: announcements.note(tx, bench.clock, "plc:hot:1", turn.id))
    reannouncer = Reannouncer(bench.database, bench.clock, bench.ids, AlarmSettings(), wake=lambda: None)
    since_ns = bench.clock.monotonic_ns()

    async def goes_on() -> bool:
        row = await bench.one("SELECT last_mono_ns, last_boot_id FROM announcement")
        told = await bench.database.transaction(lambda tx: announcements.unfinished(tx)[0])
        assert reannouncer._active_for_s(told) == (bench.clock.monotonic_ns() - since_ns) / 1e9
        return reannouncer._since_s(row["last_mono_ns"], row["last_boot_id"]) < 300

    return Lasting(300, goes_on)


async def chatter(bench: Bench) -> Lasting:
    await bench.database.transaction(lambda tx: alarm_chatter.begin(tx, bench.clock, "hot", "plc:hot:1", 5))

    async def goes_on() -> bool:
        found = await bench.database.transaction(lambda tx: alarm_chatter.of_alarm(tx, bench.clock, "hot"))
        return found is not None and found.calm_s < 60

    return Lasting(60, goes_on)


async def stopwatch(bench: Bench) -> Lasting:
    watches = Stopwatches(bench.clock)
    watches.start("lifespan")

    async def goes_on() -> bool:
        return watches.read_s("lifespan") < 300

    return Lasting(300, goes_on)


async def reading(bench: Bench) -> Lasting:
    last = Reading(
        "a.b", 1, "degC", Quality.STALE, bench.clock.utc(), source_mono_ns=bench.clock.monotonic_ns()
    )  # fmt: skip

    async def goes_on() -> bool:
        age_s = last.age_s(bench.clock)
        return age_s is not None and age_s < 90

    return Lasting(90, goes_on)


async def young_order(bench: Bench) -> Lasting:
    """What was asked for less than an hour ago goes on after a restart of the process."""
    turn = await given_turn(bench, "k", (Step("read", "read_tags", {"keys": ["a.b"]}),))

    async def goes_on() -> bool:
        class Looked(Exception):
            pass

        found: list[bool] = []

        class Peek:
            async def transaction(self, work: Callable[[Transaction], object]) -> object:
                def look(tx: Transaction) -> None:
                    found.append(bool(work(tx).resumed))  # type: ignore[attr-defined]
                    raise Looked  # the restart is taken back

                await bench.database.transaction(look)
                raise AssertionError

        with pytest.raises(Looked):
            await take_over(Peek(), bench.clock, bench.ids, "core", os.getpid())  # type: ignore[arg-type]
        return found[0]

    assert turn.admission_id
    return Lasting(3600, goes_on)


EVERYTHING = [
    shelving, waiting_words, waiting_message, fresh_question, unanswered_question, lease, resting_session, reannouncement,
    chatter, stopwatch, reading, young_order,
]  # fmt: skip


def to_2076(clock: ManualClock) -> None:
    clock.now += timedelta(days=18262)


def to_1976(clock: ManualClock) -> None:
    clock.now -= timedelta(days=18262)


def there_and_back(clock: ManualClock) -> None:
    to_2076(clock)
    clock.advance(1)
    to_1976(clock)


def loses_discipline(clock: ManualClock) -> None:
    clock.is_synced = False
    to_2076(clock)


def other_zone(clock: ManualClock) -> None:
    time.tzset()  # the caller has changed TZ


# Two of the days are a minute before the hour changes in Berlin.
PLAIN, SPRING, AUTUMN = "2026-03-02T08:00", "2026-03-29T00:59", "2026-10-25T00:59"
JUMPS = [
    (PLAIN, to_2076), (PLAIN, to_1976), (PLAIN, there_and_back), (PLAIN, loses_discipline), (SPRING, other_zone),
    (AUTUMN, other_zone),
]  # fmt: skip


@pytest.fixture
async def bench(tmp_path: Path, day: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Bench]:
    """A ledger on that day, in Berlin."""
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    async with open_bench(tmp_path, clock=ManualClock(datetime.fromisoformat(day).replace(tzinfo=UTC))) as opened:
        yield opened
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(("day", "jump"), JUMPS, ids=lambda value: getattr(value, "__name__", value))
@pytest.mark.parametrize("thing", EVERYTHING, ids=lambda thing: thing.__name__)
async def test_nothing_is_moved_by_a_clock_that_is_set(
    bench: Bench,
    monkeypatch: pytest.MonkeyPatch,
    thing: Callable[[Bench], Awaitable[Lasting]],
    jump: Callable[[ManualClock], None],
) -> None:
    began_ns = bench.clock.monotonic_ns()
    lasting = await thing(bench)
    assert await lasting.goes_on()
    monkeypatch.setenv("TZ", "Pacific/Kiritimati")
    jump(bench.clock)
    bench.clock.advance(20)
    assert await lasting.goes_on()
    left_s = lasting.for_s - (bench.clock.monotonic_ns() - began_ns) / 1e9
    bench.clock.advance(left_s - 5)
    assert await lasting.goes_on()  # it is not over sooner
    bench.clock.advance(10)
    assert not await lasting.goes_on()  # nor later


@pytest.mark.parametrize("recorded_synced", [True, False])
@pytest.mark.parametrize("synced_now", [True, False])
async def test_over_a_reboot_wall_time_counts_only_if_it_was_disciplined_at_both_ends(
    tmp_path: Path, recorded_synced: bool, synced_now: bool
) -> None:
    clock = ManualClock()
    clock.is_synced = recorded_synced
    async with open_bench(tmp_path, clock=clock) as bench:
        ids = bench.ids
        order = await young_order(bench)
        await waiting_words(bench)
        assert await order.goes_on()
    later = ManualClock(clock.now + timedelta(days=18262), boot_id="boot-2")
    later.is_synced = synced_now
    async with open_bench(tmp_path, clock=later, ids=ids) as bench:
        begun = await bench.database.transaction(lambda tx: deliveries.begin_next(tx, later))
        is_known_to_be_old = recorded_synced and synced_now
        assert (begun is None) is is_known_to_be_old
        recovered = await take_over(bench.database, later, bench.ids, "core", os.getpid())
        assert bool(recovered.suspended) is is_known_to_be_old
        assert bool(recovered.resumed) is not is_known_to_be_old


def test_ids_go_on_sorting_when_the_clock_is_set_back() -> None:
    clock = ManualClock()
    ids = SystemIds(clock)
    minted = [ids.mint("ad")]
    for jump in (to_1976, to_2076, to_1976):
        jump(clock)
        minted += [ids.mint("ad") for _ in range(3)]
    assert minted == sorted(set(minted))


async def test_what_was_said_last_is_what_sounded_last(tmp_path: Path) -> None:
    async with open_bench(tmp_path) as bench:
        for text, step in (("first", 0), ("second", -18262)):
            bench.clock.advance(1)
            bench.clock.now += timedelta(days=step)

            def say(tx: Transaction, words: str = text) -> None:
                queued = deliveries.queue(tx, bench.clock, bench.ids, turn_id=None, language="en", text=words, priority=5)
                deliveries.begin(tx, queued.id)
                deliveries.finish(tx, bench.clock, queued.id)

            await bench.database.transaction(say)
        assert (await bench.one(deliveries.LAST_SAID))["text"] == "second"
