"""Registers, line and journal of the simulated plant."""

from __future__ import annotations

from pathlib import Path

import pytest

from appliance.contracts.alarm import AlarmChange
from appliance.contracts.alarm_definition import AlarmDefinition
from appliance.contracts.errors import Malformed, Refused
from appliance.contracts.plant import Plant
from appliance.contracts.tag import RegisterKind
from drivers.modbus.event_log import SLOT_REGISTERS, decode_ring
from drivers.sim.alarms import Alarms
from drivers.sim.control import parse_order
from drivers.sim.journal import Journal
from drivers.sim.line import EVENT_CODES, Line
from drivers.sim.registers import Memory, Registers
from tests.support.plant import shipped_plant

PLANT = shipped_plant()
WITHOUT_CONDITIONS = PLANT.model_copy(
    update={"alarms": [alarm.model_copy(update={"condition": None}) for alarm in PLANT.alarms if alarm.source_id]}
)
STEP_S = 3.0


class Told:
    def __init__(self, plant: Plant = PLANT) -> None:
        self.alarms: list[tuple[str, AlarmChange, float | None]] = []
        self.now_s = 0.0
        self.memory = Memory(plant, ["line_3"])
        self.judge = Alarms(plant, self.memory, self.changed)
        self.line = Line(plant, self.memory, self.judge)

    def changed(self, alarm: AlarmDefinition, change: AlarmChange, value: float | None) -> None:
        self.alarms.append((alarm.id, change, value))
        self.line.alarm_changed(alarm, change, value)

    def run(self, steps: int = 100) -> None:
        for _ in range(steps):
            self.now_s += STEP_S
            self.line.step(STEP_S)
            self.judge.step(self.now_s)

    def value(self, key: str) -> object:
        return self.memory.get(PLANT.tag_by_key[key])

    def write(self, key: str, value: float | bool) -> None:
        tag = PLANT.tag_by_key[key]
        self.memory.put(tag, value)
        self.line.written(tag)

    def events(self) -> list[int]:
        ring = PLANT.event_log
        assert ring is not None
        cells = self.memory.of(ring.link).cells(ring.device_id, RegisterKind.HOLDING_REGISTER)
        slots = [cells[ring.address + 1 + i] for i in range(ring.entries * SLOT_REGISTERS)]
        return [e["code"] for e in decode_ring(ring, cells[ring.address], slots, ring.entries)]


def test_a_quiet_line_has_no_alarms() -> None:
    told = Told()
    told.run(2000)
    assert told.alarms == []
    assert told.events() == [1]


@pytest.mark.req("F9")
@pytest.mark.parametrize("plant", [PLANT, WITHOUT_CONDITIONS], ids=["by condition", "by the limits of the machine"])
def test_each_fault_raises_its_alarm_once_and_repair_clears_it(plant: Plant) -> None:
    told = Told(plant)
    told.line.overheat("motor_3")
    told.line.drop_pressure("pump_3")
    told.line.jam("conveyor_3")
    told.run()
    assert sorted((a, c) for a, c, _ in told.alarms) == [
        ("conveyor_3_overcurrent", AlarmChange.RAISED),
        ("motor_3_over_temperature", AlarmChange.RAISED),
        ("pump_3_low_pressure", AlarmChange.RAISED),
    ]
    told.run(500)
    assert len(told.alarms) == 3, "noise does not chatter"
    told.line.recover(None)
    told.run()
    assert [c for _, c, _ in told.alarms[3:]] == [AlarmChange.CLEARED] * 3
    assert set(told.events()) >= {1, 101, 102, 103, 201, 202, 203, 301, 302, 303}


def test_a_setpoint_reaches_the_machine() -> None:
    told = Told()
    before = float(told.value("motor_3.temperature"))  # type: ignore[arg-type]
    told.write("motor_3.fan_speed", 20)
    told.run()
    assert float(told.value("motor_3.temperature")) > before + 5  # type: ignore[arg-type]
    told.write("conveyor_3.speed", 0.0)
    told.run()
    assert told.value("conveyor_3.running") is False
    assert told.events()[-2:] == [401, 401]


def test_the_reset_coil_repairs_and_falls_back() -> None:
    told = Told()
    told.line.overheat("motor_3")
    told.run()
    told.write("motor_3.reset", True)
    told.line.step(STEP_S)
    assert told.value("motor_3.reset") is True, "lit long enough to be read back"
    told.run()
    assert told.value("motor_3.reset") is False
    assert [c for _, c, _ in told.alarms] == [AlarmChange.RAISED, AlarmChange.CLEARED]


def test_the_same_seed_is_the_same_run() -> None:
    runs = [Told(), Told()]
    for told in runs:
        told.line.overheat("motor_3")
        told.run()
    assert runs[0].alarms == runs[1].alarms


def test_a_fault_is_only_for_its_kind_of_machine() -> None:
    with pytest.raises(Refused, match="pump_3 is not a motor"):
        Told().line.overheat("pump_3")
    with pytest.raises(Refused, match="motor_9 is not a machine"):
        Told().line.recover("motor_9")


def test_every_event_code_has_its_text_in_the_shipped_plant() -> None:
    assert PLANT.event_log is not None
    for code in EVENT_CODES:
        assert set(PLANT.event_log.codes[code]) == {"en", "zh"}


def test_only_declared_addresses_exist() -> None:
    registers = Registers(PLANT, "line_3")
    assert list(registers.spans(1, RegisterKind.INPUT_REGISTER)) == [(0, 7)]
    assert list(registers.spans(1, RegisterKind.HOLDING_REGISTER)) == [(0, 2), (100, 129)]
    assert list(registers.spans(2, RegisterKind.COIL)) == []
    assert registers.device_ids == [1]


@pytest.mark.field("FC-F14")
def test_the_journal_keeps_what_the_broker_does_not_have(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    journal = Journal(path)
    first = journal.append("t", {"n": 1})
    journal.append("t", {"n": 2})
    journal.strike(first)
    journal.close()
    with path.open("ab") as torn:
        torn.write(b'{"number": 3, "to')  # power went while the third was written
    again = Journal(path)
    oldest = again.oldest()
    assert oldest is not None
    assert (oldest.number, oldest.payload) == (2, {"n": 2})
    assert (again.written, again.acknowledged) == (2, 1)
    assert again.append("t", {"n": 3}).number == 3
    again.strike(oldest)
    again.close()
    third = Journal(path)
    assert third.oldest() is not None
    assert (third.written, third.acknowledged) == (3, 2)
    third.close()


@pytest.mark.parametrize(
    "line",
    [b"", b"[]", b"{}", b'{"do": "dance"}', b'{"do": ["a"]}', b"\xff", b'{"do": "set"}', b"dance", b"set a 1 2 3", b'set "a',
     b"misbehave refuse_connections times=1", b'{"do": "set", "tag": "a", "to": 1, "at": 3}'],
)  # fmt: skip
def test_a_bad_order_is_malformed(line: bytes) -> None:
    with pytest.raises(Malformed):
        parse_order(line)


def test_words_mean_the_same_as_json() -> None:
    typed = parse_order(b"misbehave short_reply device_id=2 for_s=1.5\n")
    assert typed == parse_order(b'{"do": "misbehave", "mode": "short_reply", "device_id": 2, "for_s": 1.5}')
    assert parse_order(b"set pump_3.running false") == parse_order(b'{"do": "set", "tag": "pump_3.running", "to": false}')
    assert parse_order(b"pressure-drop pump_3") == parse_order(b'{"do": "pressure_drop", "asset": "pump_3"}')
