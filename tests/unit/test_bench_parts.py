"""What measurements are made of: percentiles, JSON, packets, made-up plants, the ledger seen from outside."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from appliance.contracts.alarm import AlarmChange, AlarmEvent, Disposition
from appliance.contracts.plant import Plant
from appliance.store import alarm_events
from bench.ack_watch import PacketSplitter
from bench.alarm_latency import Timeline
from bench.figures import Findings, print_findings, write_json
from bench.fsync import Disk
from bench.gateway import alarm_message
from bench.ledger_watch import LedgerWatch
from bench.plants import coil_plant, gateway_plant, register_plant, tag_plant
from bench.quantiles import quantile, quantiles
from bench.servers import CannotMeasure
from drivers.mqtt.topics import IncomingMessage, parse_alarm
from tests.support.ledger import open_bench


@pytest.mark.parametrize(
    ("values", "percent", "expected"),
    [([7.0], 99, 7.0), ([3, 1, 2, 4], 50, 2), (range(1, 101), 95, 95), (range(1, 101), 99, 99), (range(1, 201), 99, 198)],
)
def test_a_percentile_is_a_value_that_was_measured(values: Any, percent: int, expected: float) -> None:
    assert quantile(list(values), percent) == expected


def test_nothing_measured_has_no_percentile() -> None:
    with pytest.raises(ValueError, match="no values"):
        quantiles([], 50)


def test_findings_say_figures_ratios_and_whether_reaches_are_met(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    findings = Findings(figures={"alarm_latency_ms": {"p99": 58.0}})
    assert findings.compare("cpu_vs_script", 3.0, 2.0) == 1.5
    findings.reach("cpu_vs_script", 1.5, 1.5, "at most 1.5 x")
    findings.reach("flood_lost", 2, 0, "none is lost")
    findings.missing["tags"] = "no compiler"
    write_json(tmp_path / "bench" / "field.json", findings.to_json())
    read = json.loads((tmp_path / "bench" / "field.json").read_text("utf-8"))
    assert read["alarm_latency_ms"] == {"p99": 58.0}
    assert read["ratios"] == {"cpu_vs_script": 1.5}
    assert read["reaches"] == {"cpu_vs_script": True, "flood_lost": False}
    assert read["missing"] == {"tags": "no compiler"}
    print_findings("field", findings)
    printed = capsys.readouterr().out
    assert "alarm_latency_ms.p99" in printed and "met: 1.5" in printed and "MISSED: 2" in printed and "no compiler" in printed


def test_packets_are_told_apart_however_the_stream_is_cut() -> None:
    puback, publish = b"\x40\x02\x00\x07", b"\x32\x85\x01" + bytes(133)  # a length of two bytes
    stream = puback + publish + puback
    for step in (1, 2, 5, len(stream)):
        splitter = PacketSplitter()
        kinds = [kind for at in range(0, len(stream), step) for kind in splitter.feed(stream[at : at + step])]
        assert kinds == [4, 3, 4]


def test_each_switch_is_matched_with_its_own_arrival() -> None:
    timeline = Timeline(applied={(0, True): [1_000_000, 9_000_000], (1, True): [5_000_000]})
    arrived = {(0, True): [3_000_000, 10_000_000], (1, True): [11_000_000]}
    assert sorted(timeline.latencies_ms(arrived, "core")) == [1.0, 2.0, 6.0]
    with pytest.raises(CannotMeasure, match="coil 0 turned True 2 times, 1 came"):
        timeline.latencies_ms({(0, True): [3_000_000]}, "core")


def test_made_up_plants_are_plants_and_the_gateway_speaks_of_their_alarms() -> None:
    assert len(Plant.model_validate(register_plant()).tags) == 125
    many = Plant.model_validate(tag_plant())
    assert len(many.tags) == 5000 and len({tag.device_id for tag in many.tags}) == 20
    coils = Plant.model_validate(coil_plant(8, 0.05))
    assert [group.every_s for group in coils.poll_groups] == [0.05]
    assert len(coils.alarms) == 8 and all(alarm.condition for alarm in coils.alarms)
    heard = IncomingMessage("plant/bench/alarms", alarm_message(3, 11, "raised"), 1, False, False, None, 0)
    assert parse_alarm(heard, Plant.model_validate(gateway_plant(8, 502))).alarm_id == "alarm_3"


def test_the_disk_is_probed_and_leaves_nothing_behind(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    disk.probe(3)
    disk.probe(2)
    assert len(disk.times_ms) == 5 and min(disk.times_ms) > 0
    assert set(disk.quantiles(50, 99)) == {"p50", "p99"}
    assert list(tmp_path.iterdir()) == []


async def test_an_event_is_seen_from_outside_once_it_is_committed(tmp_path: Path) -> None:
    async with open_bench(tmp_path) as bench:
        event = AlarmEvent("gateway", "alarm_3", "11", AlarmChange.RAISED, 1.0, "", None)

        def journal(tx: Any) -> None:
            alarm_events.journal(
                tx,
                bench.clock,
                event,
                activation_id=event.activation_id,
                admission_id=None,
                disposition=Disposition.STATE,
                epoch=None,
            )

        with LedgerWatch(tmp_path / "ledger.db") as watch:
            await bench.database.transaction(journal)
            assert await asyncio.to_thread(watch.wait, len, 5.0)
        assert [(row.alarm_id, row.change) for row in watch.rows] == [("alarm_3", "raised")]
