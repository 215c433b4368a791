"""What one answer of one server can spoil: that server's turn, for a while, and no other's (A2)."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appliance.foundation.outbound import retry_after_s
from appliance.foundation.supervisor import Degraded
from appliance.planning.model.model_planner import ModelPlanner
from drivers.models.chain import ModelChain
from drivers.models.failures import classify
from drivers.models.refusal import prompt_tokens_of, window_of
from drivers.models.settings import ModelSettings
from drivers.models.standing import WINDOW_HELD_S, Standing
from tests.support.clock import ManualClock
from tests.support.model_peer import Play, counted, model_peer, says, status
from tests.support.scripted_model import open_planning, plan_of, step

pytestmark = pytest.mark.req("A2")

PLAN = plan_of(step("s", "say", text="It is warm."))
ECHO = '{"detail":[{"type":"x","msg":"Input should be an object","input":"maximum context length is 128 tokens"}]}'
TPM = '{"error":{"message":"Request too large for model on tokens per minute (TPM): Limit 1000"}}'
NAMED = '{"error":{"message":"exceed_context_size_error","n_ctx":%d}}'
TOO_MANY = '{"error":{"message":"too many tokens","n_prompt_tokens":9999999}}'
ALWAYS = {
    "too large for what stands before it": status(413, "<html>413 Request Entity Too Large</html>"),
    "more than a minute allows": status(429, TPM),
    "a window that holds nothing": status(400, NAMED % 100),
    "a window that holds no prompt": status(400, NAMED % 600),
    "a deadline": status(500, "internal error: exceeded my context deadline"),
    "a request repeated": status(422, ECHO),
}


@pytest.mark.field("FC-A01")
@pytest.mark.parametrize("refusal", ALWAYS.values(), ids=ALWAYS)
async def test_who_takes_no_length_rests_and_the_next_is_asked(tmp_path: Path, refusal: Play) -> None:
    told: list[str] = []
    async with open_planning(tmp_path) as room:
        with model_peer([refusal]) as first, model_peer([says(PLAN)]) as second:
            clock, degraded = ManualClock(), Degraded()

            async def pass_by(pause_s: float) -> None:
                clock.advance(pause_s)

            degraded.listeners.append(lambda part, why: told.append(f"{part} {'degraded' if why else 'whole'}"))
            models = [ModelSettings(name=f"m{n}", url=peer.url) for n, peer in enumerate((first, second))]
            chain = ModelChain(models, clock, within_s=90, degraded=degraded, sleep=pass_by)
            planner = ModelPlanner(chain, room.contexts, room.phrasebook, room.plant)
            for _ in range(2):
                plan = await planner.plan(await room.asked("is motor three warm"))
                assert plan is not None and plan.source.startswith("model:m1/")
            assert (len(first.asked) <= 4, len(second.asked)) == (True, 2)
            assert [each["ready"] for each in chain.facts()] == [False, True]
            assert len(told) <= 1 and not chain.is_away
            first.plays = [says(PLAN)]
            clock.advance(61)
            plan = await planner.plan(await room.asked("is motor three warm"))
            assert plan is not None and plan.source.startswith("model:m0/")
            assert degraded.reasons == {}
            await chain.close()


@pytest.mark.parametrize("lie", [says(PLAN, usage=counted(1_000_000, 3)), status(400, TOO_MANY)])
async def test_a_count_many_times_ours_is_not_believed(tmp_path: Path, lie: Play) -> None:
    async with open_planning(tmp_path) as room:
        with model_peer([lie, says(PLAN, usage=counted(800, 3))]) as peer:
            chain = ModelChain([ModelSettings(name="m0", url=peer.url)], ManualClock(), within_s=90)
            before = chain.count_tokens("why did it stop " * 50)
            for _ in range(2):
                assert await ModelPlanner(chain, room.contexts, room.phrasebook, room.plant).plan(await room.asked("is it warm"))
            assert chain.count_tokens("why did it stop " * 50) <= 1.1 * before
            await chain.close()


def test_a_window_is_believed_for_a_while() -> None:
    clock = ManualClock()
    standing = Standing("m", 8192, clock)
    for tokens, held in ((100, 8192), (16_384, 8192), (4096, 4096)):
        standing.learn_window(tokens)
        assert standing.context_tokens == held
    clock.advance(WINDOW_HELD_S + 1)
    assert standing.context_tokens == 8192


def test_numbers_come_from_where_servers_put_them() -> None:
    assert window_of(NAMED % 4096) == 4096
    assert window_of('{"error":{"message":"This model\'s maximum context length is 8192 tokens. However"}}') == 8192
    assert window_of(ECHO) == window_of("maximum context length is 128 tokens") == window_of('{"x":"\\"n_ctx\\": 128"}') == 0
    assert prompt_tokens_of('{"error":{"n_prompt_tokens":true}}') == prompt_tokens_of("[" * 9000) == 0
    for body in (ECHO, ECHO[:-4] + "x" * 9000):
        assert classify(422, '{"detail":[{"msg":"' + "x" * 600 + body).reason == "bad_request"
    assert classify(422, ECHO).reason == "bad_request"


@pytest.mark.req("X6")
@given(st.text(max_size=40) | st.binary(max_size=40).map(lambda raw: raw.decode("latin-1")), st.integers(0, 10**40))
def test_any_header_is_a_wait_of_at_most_ten_minutes(junk: str, number: int) -> None:
    date = "Mon, 30 Nov 2026 10:00:00"
    for header in (junk, str(number), f"{date} +{number}", f"{date} {junk}", f"Mon, 30 Nov {number} 10:00:00 -{number}"):
        for sent in (f"{date} GMT", header, ""):
            assert 0 <= retry_after_s(header, sent) <= 600
            assert 0 <= retry_after_s(f"{date} GMT", header) <= 600
