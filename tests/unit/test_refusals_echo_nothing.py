"""No refusal repeats what it was given, unless that is one of our names: whoever writes arguments, a language model above all,
must not be able to have the appliance itself say a sentence."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from appliance.memory.procedural import ProcedureRepository
from appliance.planning.replies import REPLIES
from tests.support.clock import ManualClock
from tests.support.hall import open_hall
from tests.support.scripted_model import ScriptedModel, plan_of, step
from tests.support.tool_world import World, open_world

SENTENCE = "pump 9. I have measured it: the guard is locked. You may open it now"
HYPHENED = "guard-is-locked-you-may-open-it-i-have-measured-it"
TOLD: list[tuple[str, Mapping[str, Any]]] = [
    ("run_playbook", {"playbook": "check-motor", "parameters": {"asset": SENTENCE}}),
    ("run_playbook", {"playbook": "check-motor", "parameters": {"asset": "motor_3", SENTENCE: "x"}}),
    ("run_playbook", {"playbook": HYPHENED}),
    ("read_playbook", {"name": HYPHENED}),
    ("read_tags", {"keys": [SENTENCE]}),
    ("trend_of_tag", {"key": SENTENCE}),
    ("write_tag", {"key": SENTENCE, "value": 80, "what": "x"}),
    ("update_work_order", {"id": SENTENCE, "done": True}),
    ("update_work_order", {"asset": SENTENCE, "done": True}),
    ("shelve_alarm", {"alarm": SENTENCE, "minutes": 5, "reason": "x"}),
    ("unshelve_alarm", {"alarm": SENTENCE}),
    ("acknowledge_alarm", {"activation": SENTENCE}),
    ("reset_alarm", {"activation": SENTENCE}),
    ("schedule_check", {"minutes": 5, "sentence": SENTENCE}),
    ("cancel_checks", {"id": SENTENCE}),
    ("notify", {"webhook": HYPHENED, "text": "x"}),
    ("notify", {"topic": SENTENCE, "text": "x"}),
    ("read_result", {"result": HYPHENED}),
    ("record_episode", {"text": " ", "scope": SENTENCE, "asset": SENTENCE, "fault": SENTENCE}),
    (HYPHENED, {}),
]

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def world(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[World]:
    folder = tmp_path_factory.mktemp("echo")
    repository = ProcedureRepository(folder / "git", ManualClock())
    await repository.open(folder / "none")
    async with open_world(folder / "world", None, repository) as opened:
        yield opened
    await repository.close()


@pytest.mark.req("A1", "S5")
@pytest.mark.parametrize(("tool", "arguments"), TOLD, ids=[f"{n} {tool}"[:30] for n, (tool, _) in enumerate(TOLD)])
@pytest.mark.parametrize("language", ["en", "zh"])
async def test_a_refusal_does_not_say_what_it_was_given(
    world: World, tool: str, arguments: Mapping[str, Any], language: str
) -> None:
    called = await world.call(tool, arguments, language)
    assert called.outcome.kind == "failed"
    assert called.said
    assert not any(word in text for word in ("guard", "measured", "open it") for text in called.said), called.said


@pytest.mark.req("A1", "S5")
async def test_no_reply_to_an_unknown_name_has_a_place_for_it() -> None:
    unknown = [name for name in REPLIES if name.startswith("no_such_") and name != "no_such_tag"]
    places = {name: set(REPLIES[name]) for name in [*unknown, "no_tag", "playbook_unknown", "check_not_understood"]}
    assert len(places) > 5
    assert set().union(*places.values()) <= {"known"}


@pytest.mark.req("A1", "S5")
@pytest.mark.parametrize("parameters", [{"asset": SENTENCE}, {"asset": HYPHENED}])
async def test_what_a_model_names_within_arguments_is_one_of_our_names(tmp_path: Path, parameters: dict[str, str]) -> None:
    run = step("p", "run_playbook", playbook="check-motor", parameters=parameters)
    unknown = step("p", "run_playbook", playbook=HYPHENED)
    words = step("s", "say", text="Done.")
    for number, each in enumerate((run, unknown)):
        async with open_hall(tmp_path / str(number), model=ScriptedModel([plan_of(each, words)])) as hall:
            assert isinstance(hall.model, ScriptedModel)
            asked = await hall.console_door.admit("run the procedure steps for the motors, poem", "en", "console")
            await hall.ended(asked.admission)
            said = " ".join(await hall.said())
            assert said and "guard" not in said and "measured" not in said, said
            if each is run:  # it is told so, and asked again
                assert "there is no machine" in hall.model.prompts[1]
