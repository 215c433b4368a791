"""The alarm engine on a plant of its own, with a clock of the test's and a ledger that is a list."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from appliance.contracts.alarm import Alarm, AlarmChange, AlarmEvent, AlarmState, Disposition, Journalled
from appliance.contracts.errors import AlarmUnreadable, Refused, Unavailable
from appliance.contracts.plant import Plant
from appliance.contracts.reading import Quality, Reading, Repeat, Value, Visibility
from drivers.alarms.scan import AlarmScan
from tests.support.clock import CountingIds, ManualClock
from tests.support.waiting import until

RAISED, CLEARED = AlarmChange.RAISED, AlarmChange.CLEARED
HOT = {"kind": "h", "tag": "m.heat", "limit": 90, "hysteresis": 10}


class ListedLedger:
    """An alarm sink that keeps what it is given, in order, and tells the engine of each change as the journal does."""

    def __init__(self, clock: Any) -> None:
        self._clock = clock
        self.events: list[AlarmEvent] = []
        self.suppressions: list[tuple[str, bool, str]] = []
        self.order: list[str] = []
        self.alarms: dict[str, Alarm] = {}
        self.is_away = False
        self.refuses = False
        self.tries = 0
        self.open_gate = asyncio.Event()
        self.open_gate.set()
        self.counts_to: Alarm | None = None  # what the journal counts the next events to
        self.scan: AlarmScan | None = None

    async def admit(self, event: AlarmEvent) -> Journalled:
        self._try()
        await self.open_gate.wait()
        if self.refuses:
            raise Refused("the same activation came with other content")
        self.events.append(event)
        self.order.append(f"{event.alarm_id} {event.change}")
        alarm = self.counts_to or self.store(event)
        return Journalled(len(self.events), Disposition.ANNOUNCE, None, alarm, is_duplicate=False)

    async def suppress(self, alarm_id: str, is_suppressed: bool, why: str) -> None:
        self._try()
        for _ in range(5):  # slower than an event: the order must not depend on it
            await asyncio.sleep(0)
        self.suppressions.append((alarm_id, is_suppressed, why))
        self.order.append(f"{alarm_id} {'suppressed' if is_suppressed else 'released'}")

    async def note_unreadable(self, topic: str, faults: Sequence[AlarmUnreadable]) -> None:
        raise AssertionError("what is read from the PLC can be read")

    def _try(self) -> None:
        self.tries += 1
        if self.is_away:
            raise Unavailable("the ledger cannot be written", retry_after_s=0.0)

    def store(self, event: AlarmEvent) -> Alarm:
        """Store an event, whoever reports it, and tell the engine."""
        known = self.alarms.get(event.activation_id) or live(event.alarm_id, event.activation, source=event.source)
        if event.change is CLEARED:
            known = replace(known, state=AlarmState.RETURNED_UNACKNOWLEDGED, cleared_utc=self._clock.utc())
        self.alarms[event.activation_id] = known
        if self.scan is not None:
            self.scan.known(known)
        return known


def live(alarm_id: str, activation: str, *, source: str = "plc:line", state: AlarmState = AlarmState.UNACKNOWLEDGED) -> Alarm:
    at = datetime(2026, 3, 2, 7, tzinfo=UTC)
    told = f"{source}:{alarm_id}:{activation}"
    cleared = at if state in (AlarmState.RETURNED_UNACKNOWLEDGED, AlarmState.LATCHED) else None
    return Alarm(told, alarm_id, source, "m", "high", state, 91.0, "degC", None, at, cleared, None, None, 1)


def plant_of(*alarms: dict[str, Any]) -> Plant:
    """A plant of two links with these alarms; ids are a, b, c, …"""
    number = {"kind": "input_register", "type": "float32", "poll": "fast", "unit": "degC"}
    bit = {"kind": "coil", "type": "bool", "poll": "fast"}
    tags = [
        {"name": "heat", "address": 0, **number}, {"name": "flow", "address": 2, **number, "unit": "m3/h"},
        {"name": "trip", "address": 0, **bit}, {"name": "running", "address": 1, **bit},
        {"name": "far", "address": 4, **number, "device_id": 2},
        {"name": "mode", "address": 8, "kind": "holding_register", "type": "uint16", "poll": "fast", "names": {0: "off"}},
        {"name": "state", "address": 9, "kind": "holding_register", "type": "uint16", "poll": "fast", "flags": {0: "rest"}},
    ]  # fmt: skip
    common = {"asset": "m", "priority": "high", "fault": "f", "playbook": "p", "text": {"en": "x"}}
    return Plant.model_validate(
        {
            "site": "s",
            "links": [{"id": "line", "host": "h"}, {"id": "other", "host": "h"}],
            "assets": [{"id": "m", "area": "z", "spoken": {}}],
            "poll_groups": [{"name": "fast", "every_s": 0.05}],
            "tags": [
                *({"asset": "m", "link": "line", "device_id": 1, "spoken": {}} | tag for tag in tags),
                {"name": "cloud", "asset": "m", "link": "mqtt", "kind": "published", "type": "float64", "spoken": {}},
            ],
            "alarms": [common | {"id": chr(ord("a") + n)} | alarm for n, alarm in enumerate(alarms)],
            "topics": [{"topic": "x", "format": "plain", "values": {"value": "m.cloud"}}],
        }
    )


class Engine:
    """An engine on a plant, with a clock of the test's and a listed ledger."""

    def __init__(self, *alarms: dict[str, Any]) -> None:
        self.clock = ManualClock()
        self.ledger = ListedLedger(self.clock)
        self.plant = plant_of(*alarms)
        self.scan = AlarmScan(self.plant, self.clock, CountingIds(), self.ledger)
        self.ledger.scan = self.scan
        self._before: dict[str, Reading] = {}

    def sees(self, quality: Quality = Quality.GOOD, after_s: float = 0.0, **values: Value | None) -> None:
        """Let a sample of these tags come in, ``after_s`` later; as a repeat if it is one, as the bus does."""
        self.passes(after_s)
        now, before = self.clock.utc(), self._before
        came = {f"m.{tag}": Reading(f"m.{tag}", value, "degC", quality, now, (1,)) for tag, value in values.items()}
        self._before = came if quality is Quality.GOOD else {}
        is_repeat = bool(self._before) and {tag: r.value for tag, r in came.items()} == {
            tag: r.value for tag, r in before.items()
        }
        self.scan.take(Repeat(before, now) if is_repeat else list(came.values()))

    def passes(self, seconds: float) -> None:
        """Let time pass, as the engine's timer would notice it."""
        self.clock.advance(seconds)
        self.scan.expire()

    def link(self, why: str, device_id: int | None = None, link: str = "line") -> None:
        self._before = {}
        self.scan.note(Visibility(link, device_id, is_visible=not why, why=why))

    async def told(self) -> list[str]:
        """What has arrived in the ledger since the last time, once nothing is on its way."""
        await until(lambda: self.scan.as_facts()["pending"] == 0 and not self.scan._line, "everything was handed in")
        new, self.ledger.order = self.ledger.order, []
        return new

    def account(self) -> tuple[int, ...]:
        facts = self.scan.as_facts()
        assert facts["seen"] == facts["admitted"] + facts["refused"] + facts["withdrawn"] + facts["pending"]
        return tuple(facts[name] for name in ("seen", "admitted", "refused", "withdrawn", "pending"))


@asynccontextmanager
async def running(*alarms: dict[str, Any], know: tuple[Alarm, ...] = ()) -> AsyncIterator[Engine]:
    engine = Engine(*alarms)
    for alarm in know:
        engine.ledger.alarms[alarm.activation_id] = alarm
    engine.scan.know(know)
    task = asyncio.create_task(engine.scan.run())
    try:
        yield engine
        assert not task.done(), task
        engine.account()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
