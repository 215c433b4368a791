"""Several models as one, on a virtual clock and real sockets: retries, keys, rests, the end, and what is told of it (A2, A4)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from appliance.contracts.errors import StorageFullError
from appliance.contracts.model import ContextOverflow, Message, ModelCall, ModelRequest, ModelsAway
from appliance.foundation.supervisor import Degraded
from drivers.models.chain import TRIES, ModelChain
from drivers.models.settings import ModelSettings
from tests.support.clock import ManualClock
from tests.support.model_peer import OVERFLOW, ModelPeer, Play, head, model_peer, piece, says, status
from tests.support.waiting import until

pytestmark = pytest.mark.req("A2")

ASK = ModelRequest((Message("user", "why did the conveyor stop"),), 32, purpose="plan", session_id="s-1", turn_id="t-1")
BUSY = status(503)


@dataclass
class Site:
    """A chain over peers, a clock that sleeping moves, and what was told and noted."""

    chain: ModelChain
    peers: list[ModelPeer]
    clock: ManualClock
    waits: list[float] = field(default_factory=list)
    calls: list[ModelCall] = field(default_factory=list)
    told: list[str] = field(default_factory=list)

    @property
    def outcomes(self) -> list[str]:
        return [each.outcome for each in self.calls]

    async def away(self) -> Mapping[str, str]:
        with pytest.raises(ModelsAway) as caught:
            await self.chain.complete(ASK)
        reasons = caught.value.facts["reasons"]
        assert isinstance(reasons, dict)
        return reasons


@asynccontextmanager
async def site(
    *plays: list[Play], within_s: float = 600.0, changes: dict[str, Any] | None = None, note: Any = None, sleep: Any = None
) -> AsyncIterator[Site]:
    """One peer for each list of plays, named ``m0``, ``m1``, …"""
    with ExitStack() as stack:
        peers = [stack.enter_context(model_peer(each)) for each in plays]
        shared: dict[str, Any] = changes or {}
        models = [ModelSettings.model_validate({"name": f"m{n}", "url": peer.url} | shared) for n, peer in enumerate(peers)]
        clock, degraded = ManualClock(), Degraded()

        async def pass_by(pause_s: float) -> None:
            built.waits.append(pause_s)
            clock.advance(pause_s)
            await asyncio.sleep(0)

        async def keep(call: ModelCall) -> None:
            built.calls.append(call)

        chain = ModelChain(models, clock, within_s=within_s, note=note or keep, degraded=degraded, sleep=sleep or pass_by)
        built = Site(chain, peers, clock)
        chain.on_away.append(lambda reasons: built.told.append(f"away {dict(reasons)}"))
        chain.on_back.append(lambda: built.told.append("back"))
        degraded.listeners.append(lambda part, why: built.told.append(f"{part}: {why or 'whole'}"))
        try:
            yield built
        finally:
            await chain.close()


# ---- retries


async def test_waits_double_from_two_seconds_with_jitter_up_to_a_minute() -> None:
    async with site([BUSY, BUSY, says("yes")]) as at:
        reply = await at.chain.complete(ASK)
        assert reply.text == "yes"
        first, second = at.waits
        assert 1.6 <= first <= 2.4 and 3.2 <= second <= 4.8
        assert at.outcomes == ["overloaded", "overloaded", "ok"]
        assert at.told == []


async def test_no_wait_is_longer_than_a_minute_however_often_it_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("drivers.models.chain.TRIES", 9)
    async with site([*[BUSY] * 8, says("yes")], within_s=900) as at:
        assert (await at.chain.complete(ASK)).text == "yes"
        assert all(
            0.8 * least <= told <= min(1.2 * least, 60)
            for least, told in zip((2, 4, 8, 16, 32, 60, 60, 60), at.waits, strict=True)
        )


@pytest.mark.parametrize(
    ("told", "least_s", "most_s"),
    [
        ({"Retry_After": "7"}, 7.0, 7.0),
        ({"Retry_After": "99999"}, 600.0, 600.0),
        ({"Retry_After": "-1"}, 1.6, 2.4),
        ({}, 1.6, 2.4),
    ],
)
async def test_retry_after_is_honoured_up_to_ten_minutes(told: dict[str, str], least_s: float, most_s: float) -> None:
    async with site([status(429, **told), says("yes")], within_s=900) as at:
        await at.chain.complete(ASK)
        assert least_s <= at.waits[0] <= most_s


async def test_nobody_is_waited_for_longer_than_the_whole_may_take() -> None:
    async with site([status(429, Retry_After="120")], within_s=60) as at:
        assert await at.away() == {"m0": "rate_limited"}
        assert at.waits == [] and len(at.peers[0].asked) == 1
        at.clock.advance(119)
        await at.away()
        assert len(at.peers[0].asked) == 1  # it rests as long as it asked for
        at.peers[0].plays = [says("yes")]
        at.clock.advance(2)
        assert (await at.chain.complete(ASK)).text == "yes"


async def test_another_model_is_asked_at_once_where_one_wants_to_be_left_alone() -> None:
    async with site([status(429, Retry_After="30")], [says("second")]) as at:
        reply = await at.chain.complete(ASK)
        assert (reply.provider, at.waits) == ("m1", [])
        assert at.chain.name == "m1"


async def test_one_that_was_slow_is_not_waited_for_again_where_there_is_another() -> None:
    async with site([Play((), holds=True)], [says("second")], changes={"timeout_s": 0.2}) as at:
        assert (await at.chain.complete(ASK)).provider == "m1"
        assert (len(at.peers[0].asked), at.waits) == (1, [])


async def test_what_will_not_change_is_not_tried_again() -> None:
    for refused in (status(400), status(404), status(301, Location="http://127.0.0.1:1/"), status(402), status(401)):
        async with site([refused]) as at:
            await at.away()
            assert (len(at.peers[0].asked), at.waits) == (1, [])


# ---- keys


async def test_keys_take_turns_without_a_wait_and_the_good_one_is_kept() -> None:
    plays = [status(401), status(429, '{"error":{"code":"insufficient_quota"}}'), says("yes"), says("again")]
    async with site(plays, changes={"keys": ["k-a", "k-b", "k-c"]}) as at:
        await at.chain.complete(ASK)
        await at.chain.complete(ASK)
        assert at.peers[0].keys == ["k-a", "k-b", "k-c", "k-c"]
        assert at.waits == []
        assert at.outcomes == ["bad_key", "used_up", "ok", "ok"]


async def test_when_every_key_was_refused_the_next_model_is_asked() -> None:
    async with site([status(401)], [says("second")], changes={"keys": ["k-a", "k-b"]}) as at:
        assert (await at.chain.complete(ASK)).provider == "m1"
        assert at.peers[0].keys == ["k-a", "k-b"]


async def test_limited_keys_are_all_tried_before_a_wait() -> None:
    async with site([status(429), status(429), says("yes")], changes={"keys": ["k-a", "k-b"]}) as at:
        await at.chain.complete(ASK)
        assert at.peers[0].keys == ["k-a", "k-b", "k-b"]
        assert len(at.waits) == 1


async def test_secrets_are_in_no_error_log_or_repr(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    leak = '{"error":{"message":"Incorrect API key provided: sk-very-secret. utterance: why did the conveyor stop"}}'
    async with site([status(401, leak)], changes={"keys": ["sk-very-secret"]}) as at:
        with pytest.raises(ModelsAway) as caught:
            await at.chain.complete(ASK)
        said = [str(caught.value), repr(caught.value.facts), repr(at.chain.facts()), repr(at.told), repr(at.calls)]
        own = [f"{record.getMessage()} {record.__dict__}" for record in caplog.records if record.name.startswith("drivers")]
        assert own
        for text in (*said, *own, repr(ModelSettings(name="m", url=at.peers[0].url, keys=("sk-very-secret",)))):  # type: ignore[arg-type]
            assert "very-secret" not in text and "conveyor" not in text


# ---- the chain, rests, and being away


async def test_models_are_tried_in_order_and_the_failed_one_rests() -> None:
    async with site([BUSY], [says("second")]) as at:
        for _ in range(3):
            assert (await at.chain.complete(ASK)).provider == "m1"
        assert len(at.peers[0].asked) == TRIES  # of the first call; then it rests
        at.peers[0].plays = [says("first")]
        at.clock.advance(61)
        assert (await at.chain.complete(ASK)).provider == "m0"
        assert at.told == []


async def test_rests_double_from_a_minute_to_four_hours_and_success_ends_them() -> None:
    async with site([status(500)]) as at:
        rests = []
        for _ in range(11):
            await at.away()
            rests.append(round(at.chain.facts()[0]["ready_in_s"]))
            at.clock.advance(rests[-1] - 1)
            asked = len(at.peers[0].asked)
            await at.away()
            assert len(at.peers[0].asked) == asked
            at.clock.advance(1.5)
        assert rests == [60, 120, 240, 480, 960, 1920, 3840, 7680, 14400, 14400, 14400]
        assert len(at.peers[0].asked) == TRIES + 10  # when it has rested it is asked once, not three times
        at.peers[0].plays = [says("yes")]
        await at.chain.complete(ASK)
        at.peers[0].plays = [status(500)]
        await at.away()
        assert round(at.chain.facts()[0]["ready_in_s"]) == 60


@pytest.mark.req("A1")
async def test_while_all_are_away_that_is_told_once_and_so_is_the_end_of_it() -> None:
    async with site([BUSY], [status(401)]) as at:
        assert await at.away() == {"m0": "overloaded", "m1": "bad_key"}
        assert at.chain.is_away
        words = "models: m0: it has too much to do (answered 503); m1: it does not take the key (answered 401)"
        key = "model:m1: it does not take the key (answered 401)"  # what a person has to mend is named by itself
        assert at.told == [key, words, "away {'m0': 'overloaded', 'm1': 'bad_key'}"]
        assert at.chain.is_known_away
        for _ in range(4):
            at.clock.advance(50)
            assert await at.away() == {"m0": "overloaded", "m1": "bad_key"}
        assert len(at.told) == 3
        at.clock.advance(4000)
        assert at.chain.is_away and not at.chain.is_known_away  # the first may be well by now
        at.peers[1].plays = [says("back")]
        assert (await at.chain.complete(ASK)).text == "back"
        assert at.told[3:] == ["model:m1: whole", "models: whole", "back"]
        assert not at.chain.is_away


async def test_a_model_that_has_rested_is_asked_by_one_alone() -> None:
    async with site([BUSY]) as at:
        await at.away()
        at.clock.advance(61)
        asked = len(at.peers[0].asked)
        at.peers[0].plays = [Play((), holds=True), says("yes")]
        first = asyncio.create_task(at.chain.complete(ASK))
        await until(lambda: len(at.peers[0].asked) == asked + 1, "the first asks")
        await at.away()
        assert len(at.peers[0].asked) == asked + 1
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        assert (await at.chain.complete(ASK)).text == "yes"  # who was cancelled has not proven anything


async def test_one_outage_that_many_meet_is_one_rest() -> None:
    async with site([status(500)]) as at:
        await asyncio.gather(*(at.away() for _ in range(5)))
        assert at.chain.facts()[0]["ready_in_s"] <= 60
        assert len(at.told) == 2


async def test_what_only_one_request_meets_makes_nobody_rest() -> None:
    async with site([status(400, '{"error":{"code":"content_filter"}}'), says("yes")]) as at:
        assert await at.away() == {"m0": "filtered"}
        assert (await at.chain.complete(ASK)).text == "yes"
        assert at.told == []


async def test_a_try_cut_short_by_the_whole_says_nothing_of_the_model() -> None:
    async with site([Play((), holds=True)], within_s=0.2, changes={"timeout_s": 60}) as at:
        await at.away()
        assert at.chain.is_away  # it had all the time there is
    async with site([BUSY, Play((), holds=True)], within_s=2.6, changes={"timeout_s": 60}) as at:
        await at.away()
        assert not at.chain.is_away  # it answered first, and had little time to do so again
    assert at.outcomes[0] == "overloaded"


# ---- too long, and halves


async def test_what_is_too_long_goes_to_nobody_else() -> None:
    async with site([status(400, OVERFLOW)], [says("second")], changes={"context_tokens": 8192}) as at:
        assert at.chain.context_tokens == 8192
        with pytest.raises(ContextOverflow) as caught:
            await at.chain.complete(ASK)
        assert caught.value.facts["context_tokens"] == 4096
        assert at.chain.context_tokens == 4096  # as the server says
        assert (len(at.peers[0].asked), at.peers[1].asked, at.waits) == (1, [], [])
        assert at.outcomes == ["context_overflow"]
        assert at.told == []


@pytest.mark.field("FC-A01")
async def test_what_is_certainly_too_long_is_not_sent_to_a_server_that_would_drop_its_beginning() -> None:
    async with site([says("yes")]) as at:
        long = ModelRequest((Message("user", "94.2 " * 2000),), 32)
        assert at.chain.request_tokens(long) > 4096
        with pytest.raises(ContextOverflow):
            await at.chain.complete(long)
        assert at.peers[0].asked == []


async def test_half_a_reply_is_kept_and_marked_when_nobody_gives_a_whole_one() -> None:
    half, more = (Play((head(), piece(text))) for text in ("the conv", "the conveyor stopped be"))
    async with site([half, more, half, half, says("the whole")]) as at:
        reply = await at.chain.complete(ASK)
        assert (reply.text, reply.is_partial, reply.facts["finish"]) == ("the conveyor stopped be", True, "cut")
        assert at.outcomes == ["cut"] * TRIES
        assert all(call.usage.is_estimated and call.usage.tokens_out for call in at.calls)
        at.clock.advance(61)
        await at.chain.complete(ASK)
        at.clock.advance(121)
        assert not (await at.chain.complete(ASK)).is_partial


# ---- the account, and being cancelled


@pytest.mark.req("A4")
async def test_every_try_is_accounted_also_the_cancelled_one() -> None:
    async with site([status(500), says("yes", ended="length"), Play((head(), piece("half a ")), holds=True)]) as at:
        await at.chain.complete(ASK)
        asking = asyncio.create_task(at.chain.complete(ASK))
        await until(lambda: len(at.peers[0].asked) == 3, "it asks")
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        assert at.outcomes == ["server_error", "partial", "cancelled"]
        assert {(call.provider, call.purpose, call.session_id, call.turn_id) for call in at.calls} == {
            ("m0", "plan", "s-1", "t-1")
        }
        assert [call.usage.cost for call in at.calls] == [None] * 3  # not known, which is not nothing
        assert at.calls[1].usage.tokens_in == 100
        await until(at.peers[0].closed_by_client.is_set, "the connection is closed")


@pytest.mark.req("A4")
async def test_a_reply_is_not_lost_with_its_account(caplog: pytest.LogCaptureFixture) -> None:
    is_full = True

    async def note(call: ModelCall) -> None:
        if is_full:
            raise StorageFullError("no room left")

    async with site([says("yes")], note=note) as at:
        for _ in range(3):
            assert (await at.chain.complete(ASK)).text == "yes"
        is_full = False
        await at.chain.complete(ASK)
    said = [record.getMessage() for record in caplog.records if "accounted" in record.getMessage()]
    assert said == ["model.unaccounted"]  # once for three, and the end of it is no warning


@pytest.mark.req("R7")
async def test_a_caller_that_is_cancelled_in_a_wait_asks_no_more() -> None:
    is_waiting = asyncio.Event()

    async def sleep(pause_s: float) -> None:
        is_waiting.set()
        await asyncio.Event().wait()

    async with site([BUSY], sleep=sleep) as at:
        asking = asyncio.create_task(at.chain.complete(ASK))
        await is_waiting.wait()
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        assert len(at.peers[0].asked) == 1
        assert not at.chain.is_away
