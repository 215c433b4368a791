"""Every shipped tool, called by the real runner: it does what its contract says, refuses in words, and keeps its bound. The field
is a table, and then a PLC in a process of its own that is asked over Modbus."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from appliance.contracts.errors import Unavailable
from appliance.memory.procedural import ProcedureRepository
from tests.support.clock import ManualClock
from tests.support.modbus_servers import field_server
from tests.support.plant import SimulatedPlant, running_plant
from tests.support.tool_cases import REFUSED, TIMED_OUT, UNSURE, WELL, Case
from tests.support.tool_world import Called, World, open_world
from tests.support.waiting import pause

FIELD_TOOLS = {"read_tags", "read_plc_log", "write_tag", "trend_of_tag"}
SHARED = {"read_tags", "write_tag"}  # what a server that is none of ours has the registers for
_CHINESE = re.compile(r"[\u4e00-\u9fff]")

SAID = {
    "en": {
        "reading": "what alarms are active", "acting": "set the fan speed of motor 3 to 60 percent", "question": "Shall I?",
        "unclear": "make me a coffee",
    },
    "zh": {
        "reading": "现在有哪些报警", "acting": "把3号电机的风扇转速设为百分之60", "question": "可以吗？",
        "unclear": "给我一杯咖啡",
    },
}  # fmt: skip
"""Sentences a check may be about, and may not, and a question."""
_NAMED = ("belt off the pulley",)
"""What a person wrote is said as it was written."""
_FOREIGN = re.compile(r"[A-Za-z]+(?:[^A-Za-z\u3000-\u9fff]+[A-Za-z]+){2,}")
"""Three words that are not Chinese, one after the other."""
_WIRE = re.compile(r"register|coil|address|device \d|_|exception|MODBUS|cannot connect", re.IGNORECASE)
"""What is for whoever wired the controller, and read aloud helps nobody."""

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def plc(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[SimulatedPlant]:
    async with running_plant(tmp_path_factory.mktemp("plant")) as plant:
        yield plant


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def procedures(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[ProcedureRepository]:
    folder = tmp_path_factory.mktemp("procedures")
    repository = ProcedureRepository(folder / "git", ManualClock())
    await repository.open(folder / "none")
    yield repository
    await repository.close()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def worlds(
    tmp_path_factory: pytest.TempPathFactory, plc: SimulatedPlant, procedures: ProcedureRepository
) -> AsyncIterator[dict[str, World]]:
    """The worlds of the calls that need nothing to have happened: a table, our PLC, and a server that shares no line with it."""
    async with AsyncExitStack() as stack:
        libmodbus = stack.enter_context(field_server("libmodbus", tmp_path_factory.mktemp("libmodbus_server")))
        fields = {"table": None, "modbus": plc, "libmodbus": libmodbus}
        yield {
            name: await stack.enter_async_context(open_world(tmp_path_factory.mktemp(name), field, procedures))
            for name, field in fields.items()
        }


@pytest_asyncio.fixture(loop_scope="module")
async def world(
    case: Case, where: str, worlds: dict[str, World], tmp_path: Path, plc: SimulatedPlant, procedures: ProcedureRepository
) -> AsyncIterator[World]:
    if not case.given:
        yield worlds[where]
        return
    async with open_world(tmp_path, plc if where == "modbus" else None, procedures) as built:
        yield built


def each(cases: Sequence[Case]) -> pytest.MarkDecorator:
    """Every case on the table, and those of tools that ask the field at the PLCs, too."""
    every = [("table", case) for case in cases if not case.needs_plc]
    every += [("modbus", case) for case in cases if case.tool in FIELD_TOOLS]
    every += [("libmodbus", case) for case in cases if cases is WELL and case.tool in SHARED and not case.given]
    return pytest.mark.parametrize(("where", "case"), every, ids=[f"{where}-{case.id}" for where, case in every])


async def called(world: World, case: Case, language: str) -> Called:
    world.names |= SAID[language]
    for step in case.given:
        await getattr(world, step)()
    arguments = {name: _filled(value, world.names) for name, value in case.arguments.items()}
    async with asyncio.timeout(20):
        return await world.call(case.tool, arguments, language)


def _filled(value: Any, names: Mapping[str, Any]) -> Any:
    return names.get(value.strip("{}"), value) if isinstance(value, str) else value


def require_language(said: list[str], language: str) -> None:
    for sentence in said:
        assert bool(_CHINESE.search(sentence)) is (language == "zh"), f"{language}: {sentence}"


def require_sayable(said: str) -> None:
    """A sentence that ends once, and names nothing that only a program knows by that name."""
    assert said[-1] in ".。" and not re.search(r"[.。！？!?]\s*[.。]", said), said
    assert not _WIRE.search(said), said
    assert _CHINESE.search(said) or all(sentence[0].upper() == sentence[0] for sentence in said.split(". ")), said


def require_chinese(said: str) -> None:
    """A Chinese sentence with no English one in it."""
    assert _CHINESE.search(said), said
    for name in _NAMED:
        said = said.replace(name, "")
    assert not _FOREIGN.search(said), said


@pytest.mark.req("T1", "T7")
@pytest.mark.parametrize("language", ["en", "zh"])
@each(WELL)
async def test_it_does_what_its_contract_says(world: World, case: Case, language: str) -> None:
    found = await called(world, case, language)
    assert found.outcome.kind == case.ends, found.outcome.failure
    fields = dict(found.result)
    assert fields.pop("effect_disposition") == case.disposition
    contract = world.hall.rooms.toolbox.contracts[case.tool]
    contract.schema.result.model_validate(fields)
    assert (found.effect is not None) is contract.has_effect
    for name in ("sentence", "summary"):
        if words := fields.get(name):
            require_language([words], language)


@pytest.mark.req("T1", "T7", "T9", "V6")
@pytest.mark.parametrize("language", ["en", "zh"])
@each(REFUSED)
async def test_it_refuses_in_words_and_changes_nothing(world: World, case: Case, language: str) -> None:
    found = await called(world, case, language)
    assert (found.outcome.kind, found.result["error_code"]) == ("failed", case.code), found
    assert found.result["effect_disposition"] == "none"
    assert found.effect is None or found.effect["status"] == "none"
    assert len(found.said) == 1 and "{" not in found.said[0] and "Traceback" not in found.said[0]
    (said,) = found.said
    require_sayable(said)
    if language == "en":
        assert case.why in said
    else:
        require_chinese(said)


@pytest.mark.req("S6", "T7")
@each(TIMED_OUT)
async def test_it_keeps_its_bound(world: World, case: Case) -> None:
    found = await called(world, case, "en")
    assert (found.result["error_code"], found.result["effect_disposition"]) == (case.code, case.disposition)
    assert found.said == ["That took too long and was stopped."]


@pytest.mark.req("T7", "F4")
@each(UNSURE)
async def test_what_is_not_known_is_found_out_and_not_done_again(world: World, case: Case) -> None:
    found = await called(world, case, "en")
    assert found.effect is not None and found.effect["was_unknown"] == 1
    assert (
        found.said[0]
        == f"I was interrupted while {case.arguments['what']}. I do not know yet whether it happened. I am checking."
    )
    effect = found.effect["status"]
    async with asyncio.timeout(20):
        while effect == "unknown":  # the PLC answers again after a while
            try:
                effect = (await world.runner().verify_unknown(found.effect["action_id"], "anna")).status
            except Unavailable as away:
                await pause(min(away.retry_after_s, 0.2))
    assert effect == case.disposition
    (shown,) = (await world.hall.bus.read([case.arguments["key"]])).values()
    assert shown.value == case.arguments["value"]


@pytest.mark.req("T1")
async def test_every_tool_has_a_case_that_goes_well_and_one_that_does_not(worlds: dict[str, World]) -> None:
    contracts = worlds["table"].hall.rooms.toolbox.contracts
    names = set(contracts)
    cannot_fail = {name for name in names if not contracts[name].schema.arguments.model_fields} | {"stop_work", "report_work"}
    assert names - {case.tool for case in WELL} == set()
    assert names - {case.tool for case in REFUSED} - cannot_fail == set()
