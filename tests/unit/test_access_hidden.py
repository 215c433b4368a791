"""What is above an asker's level, through the whole appliance: told in the words for what is not there, and noted."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from appliance.contracts.errors import Refused
from appliance.contracts.hold import HoldSource
from appliance.contracts.plan import Intent
from appliance.contracts.principal import AccessLevel, Identification, Principal
from appliance.planning.answers import needed_for, steps_for
from appliance.planning.intents import INTENTS
from appliance.planning.tongue import Tongue
from appliance.store import holds
from tests.support.gate import SET_FAN
from tests.support.hall import Hall, open_hall
from tests.support.planning import shipped_phrasebook, shipped_plant
from tests.support.scripted_model import shipped_contracts

pytestmark = pytest.mark.req("T3")


def holder(level: AccessLevel, by: str) -> Principal:
    """Somebody whose token verified."""
    return Principal(by, Identification.TOKEN, level.word, level, f"tok_{by}_{level.word}")


VISITOR = holder(AccessLevel.PUBLIC, "vic")
SLOTS = {
    "asset": "motor_3", "tag": "motor_3.fan_speed", "amount": 80, "limit": "high", "minutes": 10, "reason": "cleaning",
    "alarm": "motor_3_over_temperature", "playbook": "over-temperature", "step": 2,
}  # fmt: skip


@pytest.fixture
async def hall(tmp_path: Path) -> AsyncIterator[Hall]:
    async with open_hall(tmp_path) as hall:
        yield hall
        hall.bus.open_gate.set()


async def told(hall: Hall, text: str, who: Principal) -> str:
    """Ask with a token; return what was said to it."""
    admitted = await hall.console_door.admit(text, "en", who.by, holder=who)
    ended = await hall.ended(admitted.admission)
    return " ".join(await hall.said(ended.turn_id))


@pytest.mark.parametrize(
    ("said", "tool"),
    [
        (SET_FAN, "write_tag"),
        ("set the fan speed of motor three to five hundred percent", "write_tag"),  # beyond its limits
        ("set the temperature of motor three to ten degrees", "write_tag"),  # only read
        ("set the fan speed of motor three to maximum", "write_tag"),
        ("check the temperature of motor three in ten minutes", "schedule_check"),
        ("cancel the checks", "cancel_checks"),
        ("create a work order for motor three", "create_work_order"),
        ("acknowledge all alarms", "acknowledge_alarm"),
    ],
)
async def test_what_a_visitor_may_not_do_is_not_there_and_that_is_noted(hall: Hall, said: str, tool: str) -> None:
    assert await told(hall, said, VISITOR) == f"I cannot do that. There is no tool {tool}."
    (entry,) = await hall.bench.rows("SELECT payload FROM operation WHERE kind = 'audit.call_hidden'")
    assert f'"tool":"{tool}"' in entry["payload"] and '"by":"vic"' in entry["payload"]
    assert (await hall.bench.one("SELECT tool, decision, rule FROM approval")) == {
        "tool": tool, "decision": "deny", "rule": "hard_floor",
    }  # fmt: skip


async def test_a_hold_or_a_limit_is_told_to_who_may_set_it_and_to_nobody_else(hall: Hall) -> None:
    operator, beyond = holder(AccessLevel.OPERATOR, "ana"), SET_FAN.replace("eighty", "five hundred")
    assert "from 0 to 100 percent" in await told(hall, beyond, operator)
    await hall.bench.database.transaction(
        lambda tx: holds.begin(tx, hall.bench.clock, HoldSource.PERSON, by="root", reason="repair")
    )
    assert "hold" in await told(hall, SET_FAN, operator)
    for said in (SET_FAN, beyond):
        assert await told(hall, said, VISITOR) == "I cannot do that. There is no tool write_tag."


async def test_help_offers_a_visitor_what_a_visitor_may_do(hall: Hall) -> None:
    offered = await told(hall, "help", VISITOR)
    assert "set" not in offered and "work order" not in offered and "alarms" in offered
    assert "set a value" in await told(hall, "help", holder(AccessLevel.OPERATOR, "ana"))


def test_every_intent_says_which_tool_it_needs() -> None:
    """So that whoever may not do it is not told why it could not be done either."""
    contracts, tongue = shipped_contracts(), Tongue(shipped_phrasebook().phrases("en"), shipped_plant())
    for name in set(INTENTS) - {"run_playbook"}:  # its level is the procedure's own
        try:
            steps = steps_for(Intent(name, "en", "x", SLOTS), tongue, {})
        except Refused as refused:
            raise AssertionError(f"{name}: give it the slots it needs") from refused
        above = {step.tool for step in steps if contracts[step.tool].security.access_level > AccessLevel.PUBLIC}
        assert above == set(needed_for(name)), name
