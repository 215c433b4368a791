"""A model through the whole appliance: rounds, a stop and a death in the middle of one, and none that answers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from appliance.contracts.admission import Admission, Outcome
from appliance.contracts.model import ModelReply, ModelRequest
from drivers.models.chain import ModelChain
from drivers.models.settings import ModelSettings
from tests.support.hall import Hall, open_hall
from tests.support.model_peer import model_peer, status
from tests.support.scripted_model import ScriptedModel, plan_of, step
from tests.support.waiting import until

ASKED = "is motor three warm enough to fry an egg"
LOOK = plan_of(step("a", "read_tags", keys=["motor_3.temperature"]), goes_on=True)
SAY = plan_of(step("s", "say", text="It is hot enough."))
SAID = "A language model says: It is hot enough."


@dataclass
class Slow(ScriptedModel):
    """Answers the first request at once, and those after it when it is let go."""

    let_go: asyncio.Event = field(default_factory=asyncio.Event)
    waiting: int = 0
    given_up: int = 0

    async def complete(self, request: ModelRequest) -> ModelReply:
        if len(self.requests) > 0:
            self.waiting += 1
            try:
                await self.let_go.wait()
            except asyncio.CancelledError:
                self.given_up += 1
                raise
            finally:
                self.waiting -= 1
        return await super().complete(request)


@asynccontextmanager
async def in_second_round(folder: Path) -> AsyncIterator[tuple[Hall, Slow, Admission]]:
    """A turn whose model has seen what it wanted to see, and thinks."""
    model = Slow([LOOK, SAY])
    async with open_hall(folder, model=model) as hall:
        admission = (await hall.console_door.admit(ASKED, "en", "console")).admission
        await until(lambda: model.waiting == 1, "the model thinks about what was found")
        yield hall, model, await hall.look(admission)


async def steps_of(hall: Hall, admission: Admission) -> list[tuple[str, str]]:
    rows = await hall.bench.rows("SELECT step_id, state FROM action WHERE turn_id = ? ORDER BY position", admission.turn_id)
    return [(row["step_id"], row["state"]) for row in rows]


@pytest.mark.req("A1", "S3")
async def test_a_plan_goes_on_with_what_was_found(tmp_path: Path) -> None:
    model = ScriptedModel([LOOK, SAY])
    async with open_hall(tmp_path, model=model) as hall:
        admission = await hall.say(ASKED)
        assert admission.outcome is Outcome.DONE and await hall.said(admission.turn_id) == [SAID]
        assert await steps_of(hall, admission) == [("m1_a", "done"), ("m2_s", "done")]
        assert "94.2" not in model.prompts[0] and "94.2" in model.prompts[1]
        assert [request.turn_id for request in model.requests] == [admission.turn_id] * 2


@pytest.mark.req("A1", "S2")
async def test_a_model_that_thinks_for_longer_than_is_left_costs_no_turn(tmp_path: Path) -> None:
    async with in_second_round(tmp_path) as (hall, model, asked):
        for _ in range(4):
            hall.bench.clock.advance(120)  # after one call 96 s are left
            await hall.watch.look()
        model.let_go.set()
        ended = await hall.ended(asked)
        assert ended.outcome is Outcome.DONE and await hall.said(ended.turn_id) == [SAID]
        assert (await hall.turn(ended.turn_id))["lifespan_s"] > 70  # and none of it was spent


@pytest.mark.req("A1", "R7")
async def test_a_stop_while_it_thinks_ends_the_turn_and_its_asking(tmp_path: Path) -> None:
    async with in_second_round(tmp_path) as (hall, model, asked):
        stop = await hall.say("stop that")
        stopped = await hall.ended(asked)
        assert await hall.said(stop.turn_id) == [f"I am stopping: {ASKED}."]
        assert (stopped.outcome, (await hall.turn(stopped.turn_id))["state"]) == (Outcome.INTERRUPTED, "abandoned")
        assert (model.waiting, model.given_up, len(model.requests)) == (0, 1, 1)
        model.let_go.set()
        assert (await hall.say("help")).outcome is Outcome.DONE  # the lane goes on
        assert await steps_of(hall, stopped) == [("m1_a", "done")] and await hall.said(stopped.turn_id) == []


@pytest.mark.req("A1", "R2", "R4")
async def test_a_death_while_it_thinks_costs_nothing_that_was_found(tmp_path: Path) -> None:
    async with in_second_round(tmp_path) as (hall, model, asked):
        await hall.die()
        (successor,) = (await hall.restart()).resumed
        model.let_go.set()
        hall.open()
        ended = await hall.ended(successor)
        assert (ended.outcome, ended.turn_id) == (Outcome.DONE, asked.turn_id)
        assert await steps_of(hall, ended) == [("m1_a", "done"), ("m2_s", "done")]
        assert await hall.said(ended.turn_id) == [SAID]
        assert hall.bus.most_reading == 1 and "94.2" in model.prompts[-1]


@pytest.mark.req("A1", "A2")
@pytest.mark.parametrize(
    ("language", "text", "said"), [("en", ASKED, "I did not understand that."), ("zh", "三号电机热得能煎蛋吗", "我没有听懂。")]
)
async def test_while_no_model_answers_it_is_not_understood_and_the_part_is_degraded(
    tmp_path: Path, language: str, text: str, said: str
) -> None:
    async with open_hall(tmp_path, is_open=False) as hall:
        with model_peer([status(402)]) as peer:
            settings = ModelSettings(name="m", url=peer.url)
            chain = ModelChain([settings], hall.bench.clock, within_s=30, degraded=hall.degraded)
            for model in (None, chain):
                hall.model = model
                hall.build(hall.bench.epoch)
                hall.open()
                admission = await hall.say(text, language=language)
                assert admission.outcome is Outcome.DONE
                assert await hall.said(admission.turn_id) == [said]  # the same words as without a model
                await hall.close()
            assert len(peer.asked) > 0
            assert hall.degraded.reasons == {"models": "m: the account has no money or quota left (answered 402)"}
            await chain.close()
