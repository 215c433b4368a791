"""The site that is soaked: 200 cells, each with an alarm that a gateway publishes and a setpoint that can be written."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import yaml

from demo.site import CONFIG, Site

CELLS = 200
SOURCE, TOPIC = "soak_gateway", "plant/soak/alarms"
LINK = "soak_line"
_UNITS = 20
_CHANGES = {
    "appliance.yaml": (("synthesizer: auto", "synthesizer: espeak"), ("\nsync:\n", "\nsync:\n  retry_longest_s: 1\n")),
    # Here every alarm is to be a conversation of its own: none is part of a flood, none chatters.
    "policies.yaml": (("flood_count: 8 ", "flood_count: 10000 "), ("chatter_count: 5 ", "chatter_count: 1000 ")),
}
_PLAYBOOK = """---
name: soak
description: Says that it came and asks for work
triggers:
  faults: [soak_fault]
access: operator
---
# Soak

1. Announce it.
2. Ask for work.
"""
_STEPS = """steps:
  - id: announce
    tool: say
    arguments:
      lead: "{alarm.lead}"
      text: {en: "It is on.", zh: "已触发。"}
  - id: order
    tool: create_work_order
    arguments:
      title: {en: "{alarm.asset}", zh: "{alarm.asset}"}
      detail: {en: "{alarm.text}", zh: "{alarm.text}"}
"""


class SoakSite(Site):
    """Broker, plant, coordinator and core of the soak; the core neither hears nor speaks."""

    device = "soak-hand"

    def __init__(self, folder: Path) -> None:
        """``folder`` is made anew; the configuration is written beside it."""
        config = folder.with_name(f"{folder.name}-config")
        write_config(config)
        super().__init__(folder, config=config, environ={"FLOORHAND_SPEAKER": "none", "FLOORHAND_SPEAKER_RECORD": ""})

    @property
    def gateway_password(self) -> str:
        """What the alarm gateway says to the broker."""
        return (self.folder / "plc.password").read_text("ascii")

    @property
    def write_ahead_log(self) -> Path:
        """The ledger's log file."""
        return self.database.with_name(f"{self.database.name}-wal")


def write_config(folder: Path) -> None:
    """Write the shipped configuration with the soak's plant."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(CONFIG, folder)
    (folder / "incidents.yaml").unlink(missing_ok=True)
    for name, changes in _CHANGES.items():
        text = (folder / name).read_text("utf-8")
        for shipped, wanted in changes:
            if text.count(shipped) != 1:
                raise ValueError(f"{name} is not as it was: {shipped.strip()}")
            text = text.replace(shipped, wanted)
        (folder / name).write_text(text, "utf-8")
    shutil.rmtree(folder / "playbooks")
    playbook = folder / "playbooks" / "soak"
    playbook.mkdir(parents=True)
    (playbook / "SKILL.md").write_text(_PLAYBOOK, "utf-8")
    (playbook / "steps.yaml").write_text(_STEPS, "utf-8")
    (folder / "plant.yaml").write_text(yaml.safe_dump(plant(), allow_unicode=True, sort_keys=False), "utf-8")


def plant() -> dict[str, Any]:
    """Return the plant model."""
    cells = range(1, CELLS + 1)
    return {
        "site": "soak",
        "links": [{"id": LINK, "host": "127.0.0.1", "port": "${FLOORHAND_PLC_PORT:-5020}", "timeout_s": 1.0}],
        "assets": [{"id": f"cell_{n}", "area": "soak", "spoken": {"en": [f"cell {n}"], "zh": [f"{n}号单元"]}} for n in cells],
        "tags": [
            {
                "name": "speed", "asset": f"cell_{n}", "link": LINK, "device_id": 1 + n % _UNITS, "kind": "holding_register",
                "address": n // _UNITS, "type": "uint16", "unit": "%", "writable": True, "low": 0, "high": 65_000,
                "spoken": {"en": ["speed"], "zh": ["速度"]},
            }
            for n in cells
        ],
        "alarms": [
            {
                "id": f"cell_{n}_fault", "asset": f"cell_{n}", "source_id": f"CELL.{n}", "priority": "medium",
                "fault": "soak_fault", "playbook": "soak", "text": {"en": "Cell fault", "zh": "单元故障"},
            }
            for n in cells
        ],
    }  # fmt: skip
