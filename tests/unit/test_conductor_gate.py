"""One gate for every path (FC-A03), through the whole appliance: a sentence we know, a procedure, an example, a model, a steer
and a schedule come to the same answer, by the question that is asked, by a person's yes or no, and by what the site forbids."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from appliance.contracts.admission import Admission, Arrival
from appliance.contracts.principal import Identification, Principal
from appliance.execution.approval.settings import ApprovalSettings
from appliance.intake.console_door import TYPIST
from appliance.intake.schedule_door import ScheduleDoor
from appliance.memory.sentence_encoder import SentenceEncoder
from appliance.planning.playbooks.playbooks import Playbooks
from appliance.store import admissions, scheduled_checks
from tests.support.gate import FAN, SET_FAN, rules
from tests.support.hall import Hall, open_hall
from tests.support.plans import phrasing
from tests.support.scripted_model import ScriptedModel, plan_of, step
from tests.support.waiting import until

SKILL = """---
name: cool-down
description: Let the fan of a motor run
triggers:
  names: {en: [cool down], zh: [降温]}
  phrases: {en: ["cool [the] {asset} down"], zh: ["给 {asset} 降温"]}
access: operator
---
# Cooling down

Set the fan.
"""
STEPS = """parameters:
  asset: {kind: asset, tags: [fan_speed]}
steps:
  - id: fan
    tool: write_tag
    arguments: {tag: fan_speed, value: 80}
"""
WRITE = plan_of(step("w", "write_tag", key=FAN, value=80), step("s", "say", text="Done."))
QUESTION = "Set the fan speed of motor 3 to 80 percent. Say yes, confirm."
UNDER_REPAIR = "The fan is under repair."
FORBIDDEN = rules(deny=[{"tools": ["write_tag"], "subjects": [FAN], "why": {"en": UNDER_REPAIR}}])
FREE = rules(allow=["write_tag"], ask=[])


@pytest.fixture(scope="module")
def encoder() -> Iterator[SentenceEncoder]:
    """The real encoder, loaded once: its thread serves any loop."""
    loaded = SentenceEncoder()
    asyncio.run(loaded.load())
    yield loaded
    asyncio.run(loaded.close())


@pytest.fixture(scope="module")
def playbooks(tmp_path_factory: pytest.TempPathFactory) -> Playbooks:
    folder = tmp_path_factory.mktemp("playbooks")
    (folder / "cool-down").mkdir()
    (folder / "cool-down" / "SKILL.md").write_text(SKILL, encoding="utf-8")
    (folder / "cool-down" / "steps.yaml").write_text(STEPS, encoding="utf-8")
    return Playbooks.load(folder, "c0ffee")


async def by_phrase(hall: Hall) -> Admission:
    return await hall.say(SET_FAN)


async def by_playbook(hall: Hall) -> Admission:
    return await hall.say("cool motor three down")


async def by_example(hall: Hall) -> Admission:
    assert await hall.agent.examples.prepare()
    return await hall.say("make motor 3 run with a fan speed of 80 percent")


async def by_model(hall: Hall) -> Admission:
    return await hall.say("change the fan of motor three so that it will not melt")


async def by_steer(hall: Hall) -> Admission:
    """The sentence joins a turn that only reads."""
    hall.bus.open_gate.clear()
    asked = (await hall.console_door.admit("what is the temperature of motor three", "en", "console")).admission
    await until(lambda: hall.bus.reading == 1, "the turn reads the machine")
    await hall.console_door.admit(SET_FAN, "en", "console", arrival=Arrival.STEER)
    (signal,) = [signal for _, signal in hall.conductor.bells._led.values()]
    await until(lambda: signal.steered, "the turn knows")
    hall.bus.open_gate.set()
    return await hall.ended(asked)


async def by_schedule(hall: Hall) -> Admission:
    """A check that acts, as no sentence can ask for one: it is in the ledger."""
    bench = hall.bench
    who = Principal("anna", Identification.SOCKET, TYPIST.role, TYPIST.level)
    turn = await hall.say("what is the load of motor three")
    await bench.database.transaction(
        lambda tx: scheduled_checks.schedule(
            tx, bench.clock, bench.ids, turn_id=str(turn.turn_id), lane="console:anna", language="en", principal=who,
            intent="set_tag", slots={}, what=SET_FAN, after_s=60.0,
        )
    )  # fmt: skip
    bench.clock.advance(61)
    await ScheduleDoor(bench.database, hall.gate, bench.clock, bench.ids, phrasing(hall.plant)).look()
    (row,) = await bench.database.fetch("SELECT * FROM admission WHERE door = 'schedule'")
    return await hall.ended(admissions.to_admission(row))


PATHS: dict[str, tuple[Callable[[Hall], Awaitable[Admission]], str]] = {
    "phrase": (by_phrase, "phrase:set_tag"),
    "playbook": (by_playbook, "playbook:cool-down@c0ffee"),
    "example": (by_example, "example:set_tag"),
    "model": (by_model, "model:test/scripted"),
    "steer": (by_steer, "phrase:read_tag"),
    "schedule": (by_schedule, "phrase:set_tag"),
}
"""By name: how it comes, and what the turn's plan says it is from."""


@pytest.fixture
def opening(
    tmp_path: Path, path: str, encoder: SentenceEncoder, playbooks: Playbooks
) -> Callable[[ApprovalSettings | None], Any]:
    """Opens a hall with what the path needs, and the rules that are given."""

    @asynccontextmanager
    async def opened(settings: ApprovalSettings | None = None) -> AsyncIterator[Hall]:
        given: dict[str, Any] = {
            "example": {"embedder": encoder}, "model": {"model": ScriptedModel([WRITE])}, "playbook": {"playbooks": playbooks}
        }.get(path, {})  # fmt: skip
        async with open_hall(tmp_path, rules=settings, **given) as hall:
            yield hall
            hall.bus.open_gate.set()

    return opened


async def comes(hall: Hall, path: str) -> dict[str, Any]:
    """Let the write come by a path; return its turn."""
    bring, source = PATHS[path]
    turn = await hall.turn((await bring(hall)).turn_id)
    plan = await hall.bench.one("SELECT plan ->> '$.source' AS source FROM turn WHERE id = ?", turn["id"])
    assert plan["source"] in (None, source)
    return turn


def asked_by(path: str) -> str:
    """The question: of a model's plan, whose proposal it is comes first."""
    return f"The language model proposes this: {QUESTION}" if path == "model" else QUESTION


async def decided(hall: Hall) -> set[tuple[str, str]]:
    rows = await hall.bench.rows("SELECT decision, rule FROM approval WHERE tool = 'write_tag'")
    return {(row["decision"], row["rule"]) for row in rows}


ASKING = [path for path in PATHS if path != "schedule"]


@pytest.mark.req("X2", "A1")
@pytest.mark.field("FC-A03")
@pytest.mark.parametrize("path", ASKING)
@pytest.mark.parametrize("answer", ["no", "yes", "yes confirm"])
async def test_it_is_asked_for_and_done_on_a_yes_with_its_word(opening: Any, path: str, answer: str) -> None:
    async with opening() as hall:
        turn = await comes(hall, path)
        assert turn["state"] == "confirming" and await hall.questions() == [asked_by(path)]
        assert hall.bus.writes == [] and not any(decision == "allow" for decision, _ in await decided(hall))
        await hall.speak_all()
        await hall.say(answer)
        if answer == "yes confirm":
            assert hall.bus.writes == [(FAN, 80)] and ("allow", "consent") in await decided(hall)
            (effect,) = await hall.bench.rows("SELECT turn_id, status FROM effect")
            assert (effect["turn_id"], effect["status"]) == (turn["id"], "applied")
        else:
            assert hall.bus.writes == [] and await hall.bench.rows("SELECT * FROM effect") == []
            assert not any(decision == "allow" for decision, _ in await decided(hall))


@pytest.mark.req("X2")
@pytest.mark.field("FC-A03")
@pytest.mark.parametrize("path", PATHS)
async def test_what_the_site_forbids_is_refused_and_nobody_is_asked(opening: Any, path: str) -> None:
    async with opening(FORBIDDEN) as hall:
        turn = await comes(hall, path)
        why = "Nobody is there to be asked" if path == "schedule" else UNDER_REPAIR  # its question is refused before its write
        assert any(why in said for said in await hall.said(turn["id"]))
        assert hall.bus.writes == [] and await hall.bench.rows("SELECT * FROM confirmation") == []
        assert await decided(hall) == {("deny", "deny")}
        assert await hall.bench.rows("SELECT 1 FROM operation WHERE kind = 'audit.call_denied'") != []


@pytest.mark.req("X2")
@pytest.mark.field("FC-A03")
@pytest.mark.parametrize("path", ["schedule"])
async def test_with_nobody_there_it_is_refused(opening: Any, path: str) -> None:
    async with opening() as hall:
        turn = await comes(hall, path)
        assert await hall.said(turn["id"]) == ["I cannot do that. Nobody is there to be asked, so it is not done."]
        assert hall.bus.writes == [] and await decided(hall) == {("deny", "unattended")}
        assert await hall.bench.rows("SELECT * FROM confirmation") == []


@pytest.mark.req("X2", "A1")
@pytest.mark.field("FC-A03")
@pytest.mark.parametrize("path", ["model"])
async def test_a_model_is_never_let_do_what_the_site_lets_people_do_unasked(opening: Any, path: str) -> None:
    async with opening(FREE) as hall:
        await comes(hall, path)
        assert hall.bus.writes == [] and await hall.questions() == [asked_by(path)]


@pytest.mark.req("A1")
@pytest.mark.parametrize("path", ["example"])
async def test_wording_nobody_foresaw_that_only_reads_is_answered_at_once(opening: Any, path: str) -> None:
    async with opening() as hall:
        assert await hall.agent.examples.prepare()
        read = await hall.say("tell me how hot motor three has become")
        said = await hall.said(read.turn_id)
        assert len(said) == 2 and "what is the temperature of motor 3" in said[0]
        assert said[1] == "The temperature of motor 3 is 94 degrees Celsius."
