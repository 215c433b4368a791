"""A full queue reaches the gateway: what cannot be admitted is not acknowledged, the broker keeps it, and none is lost (R1)."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from appliance.admission.queue import AdmissionQueue
from appliance.contracts.admission import Outcome
from appliance.foundation.system_clock import SystemClock
from appliance.store import admissions
from drivers.mqtt.listener import Listener
from drivers.mqtt.published import PublishedValues
from tests.support.alarms import AlarmBench, definition, small_plant
from tests.support.broker import publisher, running_broker, settings_for
from tests.support.ledger import open_bench
from tests.support.waiting import until

_ALARMS = 5
_LIMIT = 1  # of which alarms may use twice as much


@pytest.mark.req("R1", "F5")
@pytest.mark.field("FC-R01", "FC-R13")
async def test_the_broker_keeps_what_the_full_queue_does_not_take(tmp_path: Path) -> None:
    plant, clock = small_plant(*(definition(f"fault_{number}") for number in range(_ALARMS))), SystemClock()
    async with open_bench(tmp_path) as bench, running_broker(tmp_path) as broker:
        rooms = AlarmBench(bench.database, bench.clock, bench.ids, plant, bench.epoch, limit=_LIMIT)
        values = PublishedValues(plant, clock)
        listener = Listener(settings_for(broker), clock, rooms.degraded, plant, rooms.door, values)
        listening = asyncio.create_task(listener.run())
        queue = AdmissionQueue(bench.database, bench.clock)
        try:
            await asyncio.wait_for(listener.session.wait_connected(), 10)
            async with publisher(broker) as gateway:
                for number in range(_ALARMS):
                    told = {"source": "gw", "alarm": f"FAULT_{number}", "activation": number, "state": "raised"}
                    await gateway.publish("plant/hall/alarms", json.dumps(told).encode())
                counts = listener.session.counts
                await until(lambda: counts.acknowledged == 2 * _LIMIT and counts.failed > 0, "one was offered too many")
                assert len(await bench.rows("SELECT 1 FROM admission")) == 2 * _LIMIT
                taken = []
                async with asyncio.timeout(20):
                    while len(taken) < _ALARMS:  # one is dealt with: there is room for the next, which comes again
                        if (admission := await queue.look(set())) is None:
                            await asyncio.sleep(0.02)
                            continue
                        taken.append(admission.payload["activation"])
                        await bench.database.transaction(
                            lambda tx, a=admission: admissions.settle(tx, bench.clock, a.id, Outcome.DONE)
                        )
                await until(lambda: listener.session.counts.acknowledged == _ALARMS, "all acknowledged")
            assert sorted(map(str, taken)) == [str(number) for number in range(_ALARMS)]
        finally:
            listening.cancel()
            await asyncio.gather(listening, return_exceptions=True)
