"""The shipped plant, phrases and playbooks, as planning gets them."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

from appliance.contracts.plant import Plant
from appliance.planning.phrases import Phrasebook
from appliance.planning.playbooks.playbooks import Playbooks
from appliance.settings_yaml import read_document

CONFIG = Path(__file__).parents[2] / "config"
PHRASES = CONFIG / "phrases"


@functools.cache
def shipped_plant() -> Plant:
    """``config/plant.yaml`` with the defaults of its environment variables."""
    return Plant.model_validate(read_document(CONFIG / "plant.yaml", {}).tree)


@functools.cache
def shipped_phrasebook() -> Phrasebook:
    """Every shipped language, with what the shipped playbooks can be asked by."""
    return phrasebook_for(shipped_plant())


def phrasebook_for(plant: Plant, playbooks: Playbooks | None = None) -> Phrasebook:
    """The shipped phrases about a plant, with what the shipped playbooks, or others, can be asked by."""
    return Phrasebook.load(PHRASES, plant).knowing(playbooks or shipped_playbooks())


@functools.cache
def shipped_playbooks() -> Playbooks:
    """The shipped playbooks, as if commit ``c0ffee`` had been checked out."""
    return Playbooks.load(CONFIG / "playbooks", "c0ffee")


def large_plant(assets: int, tags_each: int) -> Plant:
    """A plant of ``assets`` machines with ``tags_each`` tags, every fifth of them writable; two names for each."""
    declared: list[dict[str, Any]] = []
    for asset in range(assets):
        for n in range(tags_each):
            writable = n % 5 == 0
            declared.append(
                {
                    "name": f"signal_{n}", "asset": f"machine_{asset}", "link": "plc", "device_id": 1,
                    "address": asset * tags_each + n,
                    "kind": "holding_register", "type": "int16", "unit": "%", "writable": writable,
                    "low": 0 if writable else None, "high": 100 if writable else None,
                    "spoken": {"en": [f"signal {n}", f"value {n}"], "zh": [f"{n}号信号", f"{n}号数值"]},
                }
            )  # fmt: skip
    return Plant.model_validate(
        {
            "site": "works",
            "links": [{"id": "plc", "host": "127.0.0.1", "port": 502}],
            "assets": [
                {
                    "id": f"machine_{a}",
                    "area": "line",
                    "spoken": {"en": [f"machine {a}", f"unit {a}"], "zh": [f"{a}号机", f"{a}号设备"]},
                }
                for a in range(assets)
            ],
            "tags": declared,
            "alarms": [],
        }
    )
