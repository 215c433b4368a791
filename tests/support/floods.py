"""A plant with hundreds of alarms, and bursts of them."""

from __future__ import annotations

import functools
from typing import Any

from appliance.contracts.alarm import AlarmChange, AlarmEvent
from appliance.contracts.plant import Plant
from tests.support.ledger import Bench
from tests.support.planning import shipped_plant

ASSETS, EACH, AREAS = 50, 10, 5
PRIORITIES = ("critical", "high", "medium", "low")


def alarm_id(number: int) -> str:
    """Id of the plant's alarm ``number``, from 0."""
    return f"machine_{number % ASSETS}_fault_{number // ASSETS}"


@functools.cache
def flood_plant() -> Plant:
    """The shipped plant and fifty machines more in five halls, each with ten alarms: two critical, three high, and so on."""
    shipped = shipped_plant().model_dump()
    return Plant.model_validate(shipped | grown(shipped))


def grown(shipped: dict[str, Any]) -> dict[str, Any]:
    """Return ``assets`` and ``alarms`` of a plant model with those of the machines added."""
    assets = [
        {"id": f"machine_{n}", "area": f"hall_{n % AREAS}", "spoken": {"en": [f"machine {n}"], "zh": [f"{n}号机器"]}}
        for n in range(ASSETS)
    ]
    alarms = [
        {
            "id": alarm_id(n), "asset": f"machine_{n % ASSETS}", "source_id": f"M{n}",
            "priority": PRIORITIES[n % len(PRIORITIES)],
            "fault": "overcurrent", "playbook": "overcurrent",
            "text": {"en": f"Machine {n % ASSETS} fault {n // ASSETS}", "zh": f"故障{n}"},
        }
        for n in range(ASSETS * EACH)
    ]  # fmt: skip
    return {"assets": [*shipped["assets"], *assets], "alarms": [*shipped["alarms"], *alarms]}


def raised(bench: Bench, number: int, **changes: Any) -> AlarmEvent:
    """The coming of the plant's alarm ``number``."""
    told: dict[str, Any] = {"activation": "1", "change": AlarmChange.RAISED, "value": None, "unit": "", "source_utc": None}
    return AlarmEvent(source="plc", alarm_id=alarm_id(number), **told | changes)


def cleared(bench: Bench, number: int, **changes: Any) -> AlarmEvent:
    """Its going."""
    return raised(bench, number, change=AlarmChange.CLEARED, **changes)
