"""Turns with a stored plan, as execution finds them, and the shipped sentences to speak with."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from appliance.contracts.admission import Door, Request, RequestKind
from appliance.contracts.clock import Clock, IdSource
from appliance.contracts.plan import Step
from appliance.contracts.plant import Plant
from appliance.contracts.store import Ledger, Transaction
from appliance.contracts.turn import Turn, TurnState
from appliance.delivery.phrasing import Phrasing
from appliance.store import actions, admissions, leases, sessions, turns

PHRASES = Path(__file__).parents[2] / "config" / "phrases"

PLANT = Plant.model_validate(
    {
        "site": "works",
        "links": [{"id": "plc", "host": "127.0.0.1", "port": 502, "timeout_s": 0.3, "retries": 0}],
        "assets": [{"id": "motor_3", "area": "line_3", "spoken": {"en": ["motor 3"], "zh": ["3号电机"]}}],
        "tags": [
            {
                "name": "temperature", "asset": "motor_3", "link": "plc", "device_id": 1, "kind": "input_register", "address": 0,
                "type": "int16", "scale": 0.1, "unit": "degC", "decimals": 1,
                "spoken": {"en": ["temperature"], "zh": ["温度"]},
            },
            {
                "name": "fan_speed", "asset": "motor_3", "link": "plc", "device_id": 1, "kind": "holding_register", "address": 10,
                "type": "uint16", "unit": "%", "writable": True, "low": 0, "high": 100,
                "spoken": {"en": ["fan speed"], "zh": ["风扇转速"]},
            },
        ],
        "alarms": [
            {
                "id": "motor_3_hot", "asset": "motor_3", "source_id": "M3_HOT", "priority": "high", "fault": "over_temperature",
                "tag": "motor_3.temperature", "playbook": "over_temperature",
                "text": {"en": "Motor 3 is too hot, {value}.", "zh": "3号电机过热，{value}。"},
            },
            {
                "id": "motor_3_trip", "asset": "motor_3", "source_id": "M3_TRIP", "priority": "critical", "fault": "trip",
                "playbook": "trip", "text": {"en": "Motor 3 tripped.", "zh": "3号电机跳闸。"},
            },
        ],
        "event_log": {
            "link": "plc", "device_id": 1, "address": 100, "entries": 4,
            "codes": {1: {"en": "fan slow", "zh": "风扇过慢"}, 2: {"en": "temperature high", "zh": "温度过高"}},
        },
    }
)  # fmt: skip


def phrasing(plant: Plant = PLANT) -> Phrasing:
    """Wording with the replies that ship."""
    return Phrasing(_shipped_replies(), plant)


@functools.cache
def _shipped_replies() -> Mapping[str, Mapping[str, str]]:
    """The files are read once: parsing them takes longer than most tests."""
    files = {path.stem: yaml.safe_load(path.read_text("utf-8")) for path in PHRASES.glob("*.yaml")}
    return {language: content["replies"] for language, content in files.items()}


async def open_turn(
    ledger: Ledger,
    clock: Clock,
    ids: IdSource,
    steps: Sequence[Step],
    *,
    context: Mapping[str, Any] | None = None,
    language: str = "en",
    turn_id: str = "tr_1",
    lane: str = "",
) -> Turn:
    """Store a turn that is executing ``steps``, with everything its rows point to."""

    def work(tx: Transaction) -> Turn:
        led_in = lane or f"lane:{turn_id}"
        request = Request(Door.CONSOLE, RequestKind.UTTERANCE, led_in, f"key:{turn_id}", {}, 5)
        admission = admissions.insert(tx, clock, ids, request, "digest")
        turn = Turn(
            id=turn_id, session_id=sessions.open_for(tx, clock, ids, led_in, None), admission_id=admission.id, lane=led_in,
            language=language, state=TurnState.EXECUTING, intent="test", plan=None, context=context or {}, blocking_reason="",
            failure="", state_hash="", lifespan_s=300.0, offline=False, opened_utc=clock.utc(), updated_utc=clock.utc(),
        )  # fmt: skip
        turns.insert(tx, turn)
        actions.insert_plan(tx, ids, turn_id, steps)
        leases.take(tx, clock, turn_id, led_in, tx.execute("SELECT max(epoch) FROM owner").fetchone()[0])
        return turn

    return await ledger.transaction(work)
