"""Voice is not identity (X5): through every room, what is CRITICAL is not done on a voice that did not read the code back."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from appliance.contracts.principal import AccessLevel
from appliance.intake.voice_door import SPEAKER, VoiceDoor
from tests.support.gate import FAN, SET_FAN, rules
from tests.support.hall import Hall, open_hall

pytestmark = pytest.mark.req("X5", "V4")


@asynccontextmanager
async def critical_hall(folder: Path, *, level: AccessLevel = AccessLevel.CRITICAL) -> AsyncIterator[Hall]:
    """A hall in which the fan's speed is critical, and a voice has a level."""
    async with open_hall(folder, is_open=False) as hall:
        hall.rules = rules(writes=[{"tags": [FAN], "access": "critical"}])
        hall.build(hall.bench.epoch)
        hall.voice_door = VoiceDoor(hall.gate, speaker=replace(SPEAKER, role="engineer", level=level))
        hall.open()
        yield hall


async def heard(hall: Hall, text: str) -> str:
    """Say something; return what is said to it."""
    await hall.utter(text)
    await hall.speak_all()
    return (await hall.said())[-1]


async def test_only_the_code_lets_a_voice_write_what_is_critical(tmp_path: Path) -> None:
    async with critical_hall(tmp_path) as hall:
        asked = await heard(hall, SET_FAN)
        code = " ".join((await hall.bench.one("SELECT code FROM confirmation"))["code"])
        assert asked == f"Set the fan speed of motor 3 to 80 percent. Say confirm, and the code {code}."
        for chatter in ("yes", "yes confirm", "confirm"):
            assert await heard(hall, chatter) == f"That needs its code. Say confirm, and the code {code}."
        assert hall.bus.writes == []
        assert await heard(hall, f"confirm {code}") == "The fan speed of motor 3 is now 80 percent."
        assert hall.bus.writes == [(FAN, 80)]


async def test_three_wrong_codes_are_the_end_of_it(tmp_path: Path) -> None:
    async with critical_hall(tmp_path) as hall:
        await heard(hall, SET_FAN)
        code = (await hall.bench.one("SELECT code FROM confirmation"))["code"]
        wrong = "confirm 0 0 1" if code != "001" else "confirm 0 0 2"
        again = f"That is not the code. Say confirm, and the code {' '.join(code)}."
        told = [await heard(hall, wrong) for _ in range(3)]
        assert told == [again, again, "That was the wrong code three times. It is not done."]
        assert await heard(hall, f"confirm {' '.join(code)}") == "I have not asked anything."
        assert hall.bus.writes == [] and await hall.questions() == []


async def test_a_voice_that_may_not_is_not_asked(tmp_path: Path) -> None:
    async with critical_hall(tmp_path, level=AccessLevel.OPERATOR) as hall:
        assert await heard(hall, SET_FAN) == "I cannot do that. That needs a person with critical access."
        assert hall.bus.writes == [] and await hall.questions() == []
