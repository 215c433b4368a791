"""Sparkplug B as a host must take it: payloads of another implementation, births, sequence, deaths, rebirth requests."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appliance.contracts.errors import Malformed
from appliance.contracts.reading import Quality
from drivers.mqtt.sequence import MOST_HELD, NUMBERS, InOrder
from drivers.mqtt.sparkplug import REBIRTH_EVERY_S, REORDER_S
from drivers.mqtt.sparkplug_payload import read_payload, rebirth_request
from drivers.mqtt.taken import Taken
from drivers.mqtt.topic_map import TopicMap
from drivers.mqtt.topics import IncomingMessage
from tests.support.clock import ManualClock
from tests.support.gateways import SPARKPLUG_TOPIC, gateway_plant
from tests.support.sparkplug import BOOLEAN, DOUBLE, FLOAT, UINT64, metric, payload

PLANT = gateway_plant(SPARKPLUG_TOPIC)
AT_MS = 1772438400000
AT = datetime(2026, 3, 2, 8, tzinfo=UTC)

# Made by another implementation (pysparkplug 0.6.1 with Eclipse Tahu's compiled schema).
NBIRTH = bytes.fromhex(
    "0880d8beecca3312120a0562645365711880d8beecca332008580712210a144e6f646520436f6e74726f6c2f526562697274681880d8be"
    "ecca33200b700012440a104c696e652f54656d7065726174757265100118fad9beecca332009420e420c6f6620746865206d6f746f724a"
    "100a075175616c6974791205080318c001650000bd42121b0a0a4c696e652f44656c746110021880d8beecca33200250fbff0312220a0a"
    "4c696e652f436f756e7410031880d8beecca332008588080808080808080800112200a0a4c696e652f537461746510041880d8beecca33"
    "200c7a0772756e6e696e6712190a0a4c696e652f456d70747910051880d8beecca33200a380112210a0a4c696e652f5461626c65100618"
    "80d8beecca3320108a0107080112016118091800"
)
NDATA = bytes.fromhex("08e8dfbeecca33120e10011884dfbeecca33650080be42120f10021884dfbeecca3350fbffffff0f1801")
NDEATH = bytes.fromhex("0880d8beecca3312120a0562645365711880d8beecca3320085807")
NCMD = bytes.fromhex("0880d8beecca3312210a144e6f646520436f6e74726f6c2f526562697274681880d8beecca33200b7001")


class Host:
    """A topic map with a clock that moves when told to."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.map = TopicMap(PLANT, self.clock, alarm_topics=())

    def hear(self, kind: str, content: bytes, device: str = "", **more: Any) -> Taken:
        topic = f"spBv1.0/works/{kind}/edge_1" + (f"/{device}" if device else "")
        return self.map.take(IncomingMessage(topic, content, 0, more.get("retained", False), False, None, 0))

    def born(self, bd_seq: int = 7, seq: int = 0) -> Taken:
        return self.hear("NBIRTH", birth(bd_seq, seq))

    def data(self, seq: int, value: float) -> Taken:
        return self.hear("NDATA", payload(metric(alias=1, float=value, at_ms=AT_MS + 900), seq=seq))

    def device_born(self, seq: int) -> Taken:
        speed = metric("Speed", 21, DOUBLE, AT_MS, double=1450.0)
        return self.hear("DBIRTH", payload(speed, metric("Running", 22, BOOLEAN, bool=True), seq=seq), "drive")


def birth(bd_seq: int, seq: int = 0) -> bytes:
    return payload(
        metric("bdSeq", datatype=UINT64, long=bd_seq),
        metric("Line/Temperature", 1, FLOAT, AT_MS, float=94.5),
        seq=seq,
        at_ms=AT_MS,
    )


def death(bd_seq: int) -> bytes:
    return payload(metric("bdSeq", datatype=UINT64, long=bd_seq))


def values(taken: Taken) -> dict[str, Any]:
    return {reading.tag.removeprefix("press_1."): reading.value for reading in taken.readings}


@pytest.mark.req("F5")
@pytest.mark.field("FC-F12", "FC-F13")
def test_payloads_of_another_implementation_are_understood() -> None:
    host = Host()
    born = host.hear("NBIRTH", NBIRTH)
    assert values(born) == {
        "temperature": 94.5, "delta": -5, "count": 2**63, "state": "running", "empty": None, "table": None,
    }  # fmt: skip
    by_tag = {reading.tag: reading for reading in born.readings}
    assert by_tag["press_1.temperature"].source_utc == AT.replace(microsecond=250_000)
    assert by_tag["press_1.empty"].quality is Quality.BAD
    assert "Line/Table: has no value that can be read" in by_tag["press_1.table"].why
    data = host.hear("NDATA", NDATA)
    assert values(data) == {"temperature": 95.25, "delta": -5}
    assert {reading.source_utc for reading in data.readings} == {AT.replace(microsecond=900_000)}
    assert not born.send and not data.send
    died = host.hear("NDEATH", NDEATH)
    assert died.lost["press_1.temperature"] == "the gateway works/edge_1 says that it is gone"


def test_our_request_is_what_another_implementation_sends() -> None:
    assert rebirth_request(AT) == NCMD
    assert read_payload("t", NCMD).metrics[0].value is True


@pytest.mark.req("F5")
def test_data_before_a_birth_asks_for_one_once_and_again_after_a_while() -> None:
    host = Host()
    (request,) = host.data(5, 1).send
    assert (request.topic, request.payload) == ("spBv1.0/works/NCMD/edge_1", NCMD)
    assert host.data(6, 2) == Taken(), "once"
    host.clock.advance(REBIRTH_EVERY_S)
    assert len(host.data(7, 3).send) == 1
    assert values(host.born()) == {"temperature": 94.5}
    assert values(host.data(1, 4)) == {"temperature": 4}


def test_every_connection_asks_for_births() -> None:
    host = Host()
    assert [request.topic for request in host.map.connected().send] == ["spBv1.0/works/NCMD/edge_1"]
    assert len(host.map.connected().send) == 1, "what was said in between is not known"


@pytest.mark.req("F5")
def test_numbers_wrap_from_255_to_0() -> None:
    host = Host()
    host.born(seq=254)
    for seq, value in ((255, 1), (0, 2), (1, 3)):
        assert values(host.data(seq, value)) == {"temperature": value}
    assert host.map.due_mono_ns is None


def test_what_comes_too_early_waits_its_turn() -> None:
    host = Host()
    host.born()
    assert host.data(2, 20) == Taken()
    assert host.map.due_mono_ns == host.clock.monotonic_ns() + int(REORDER_S * 1e9)
    assert [reading.value for reading in host.data(1, 10).readings] == [10, 20]
    assert host.map.due_mono_ns is None
    assert host.data(2, 20) == Taken(), "the same again"


@pytest.mark.req("F5")
@pytest.mark.field("FC-F18")
def test_a_gap_is_waited_for_and_then_a_rebirth_is_asked_for_once() -> None:
    host = Host()
    host.born()
    host.data(3, 30)
    host.data(2, 20)
    host.clock.advance(REORDER_S / 2)
    assert host.map.overdue() == Taken(), "not yet"
    host.clock.advance(REORDER_S / 2)
    overdue = host.map.overdue()
    assert [reading.value for reading in overdue.readings] == [20, 30]
    assert len(overdue.send) == 1
    assert values(host.data(4, 40)) == {"temperature": 40}, "life goes on"
    host.data(9, 90)
    host.clock.advance(REORDER_S)
    assert host.map.overdue().send == (), "asked already, and not answered yet"
    host.born()
    host.data(3, 30)
    host.clock.advance(REORDER_S)
    assert len(host.map.overdue().send) == 1, "a new gap after a birth"


def test_only_so_much_waits() -> None:
    host = Host()
    host.born()
    for seq in range(2, MOST_HELD + 1):
        assert host.data(seq, seq) == Taken()
    full = host.data(MOST_HELD + 1, 0)
    assert (len(full.readings), len(full.send)) == (MOST_HELD, 1)


@pytest.mark.req("F5")
@pytest.mark.field("FC-F05")
def test_a_death_makes_all_values_of_the_node_and_its_devices_stale() -> None:
    host = Host()
    host.born(7)
    host.device_born(1)
    died = host.hear("NDEATH", death(7))
    assert set(died.lost) == set(SPARKPLUG_TOPIC["values"].values())
    assert len(host.data(1, 1).send) == 1, "who is dead is asked to be born"


@pytest.mark.req("F5")
def test_the_death_of_an_earlier_session_is_ignored() -> None:
    host = Host()
    host.born(8)
    assert host.hear("NDEATH", death(7)) == Taken()
    assert values(host.data(1, 5)) == {"temperature": 5}
    assert host.hear("NDEATH", death(8)).lost


@pytest.mark.req("F5")
def test_a_device_lives_and_dies_for_itself() -> None:
    host = Host()
    host.born()
    early = host.hear("DDATA", payload(metric("Speed", double=1.0), seq=1), "drive")
    assert (early.readings, len(early.send)) == ((), 1)
    host.born()
    assert values(host.device_born(1)) == {"speed": 1450.0, "running": True}
    assert values(host.hear("DDATA", payload(metric(alias=21, double=1460.0), seq=2), "drive")) == {"speed": 1460.0}
    gone = host.hear("DDEATH", payload(seq=3), "drive")
    assert gone.lost == dict.fromkeys(("press_1.speed", "press_1.running"), "the gateway works/edge_1 says that drive is gone")
    assert values(host.data(4, 5)) == {"temperature": 5}


def test_a_new_session_of_the_node_leaves_its_devices_stale_until_they_are_born() -> None:
    host = Host()
    host.born(7)
    host.device_born(1)
    assert host.born(7).lost == {}, "a rebirth of the same session is no loss"
    host.device_born(1)
    again = host.born(8)
    assert "press_1.speed" in again.lost
    assert values(again) == {"temperature": 94.5}, "the birth comes after the loss"


@pytest.mark.req("F5")
def test_an_unknown_alias_asks_for_a_rebirth_and_the_rest_is_taken() -> None:
    host = Host()
    host.born()
    taken = host.hear("NDATA", payload(metric(alias=99, float=1.0), metric(alias=1, float=2.0), seq=1))
    assert values(taken) == {"temperature": 2.0}
    assert len(taken.send) == 1
    host.born(7)
    assert len(host.hear("NDATA", payload(metric("Line/New", float=1.0), seq=1)).send) == 1, "or an unknown name"


def test_quality_history_and_null_are_respected() -> None:
    host = Host()
    host.born()
    told = [metric(alias=1, float=5.0, **more) for more in ({"old": True}, {"quality": 500}, {"quality": 0}, {"null": True}, {})]
    taken = host.hear("NDATA", payload(*told, seq=1)).readings
    assert [(r.value, r.quality) for r in taken] == [
        (5.0, Quality.STALE), (None, Quality.BAD), (None, Quality.BAD), (5.0, Quality.GOOD),
    ]  # fmt: skip
    nothing = host.hear("NDATA", payload(metric(alias=1), seq=2)).readings[0]
    assert nothing.quality is Quality.BAD
    nan = host.hear("NDATA", payload(metric(alias=1, float=float("nan")), seq=3)).readings[0]
    assert nan.quality is Quality.BAD


@pytest.mark.parametrize(
    ("kind", "content", "device"),
    [
        ("NDATA", b"\xff", ""), ("NDATA", b"\x08", ""), ("NDATA", payload(seq=256), ""), ("NDATA", payload(), ""),
        ("NBIRTH", payload(), ""), ("NDATA", b"", "drive"), ("DDATA", b"", ""), ("NBIRTH", b"\x0a" * 300_000, ""),
    ],
)  # fmt: skip
def test_what_is_no_sparkplug_is_malformed(kind: str, content: bytes, device: str) -> None:
    host = Host()
    host.born()
    with pytest.raises(Malformed, match=f"spBv1.0/works/{kind}/edge_1"):
        host.hear(kind, content, device)


def test_what_is_retained_or_for_the_node_is_not_taken() -> None:
    host = Host()
    with pytest.raises(Malformed, match="retained"):
        host.hear("NBIRTH", birth(7), retained=True)
    assert host.hear("NCMD", NCMD) == Taken()


def test_a_birth_with_hundreds_of_metrics_is_taken() -> None:
    host = Host()
    many = [metric(f"Folder/Subfolder/Machine metric {n}", n, FLOAT, AT_MS, float=1.0) for n in range(2_000)]
    assert len(content := payload(*many, metric("Line/Temperature", 5_000, FLOAT, float=3.0), seq=0)) > 100_000
    assert values(host.hear("NBIRTH", content)) == {"temperature": 3.0}


@given(st.binary(max_size=200), st.sampled_from(["NBIRTH", "NDATA", "NDEATH", "DBIRTH", "DDATA", "DDEATH"]))
def test_no_bytes_raise_anything_else(content: bytes, kind: str) -> None:
    host = Host()
    host.born()
    try:
        host.hear(kind, content, "drive" if kind.startswith("D") else "")
    except Malformed:
        return


@given(st.integers(0, NUMBERS - 1), st.permutations(range(MOST_HELD)), st.data())
def test_any_order_within_the_window_comes_out_in_order_and_whole(first: int, order: list[int], data: Any) -> None:
    gate: InOrder[int] = InOrder(first)
    passed: list[int] = []
    for place in order:
        now = gate.offer((first + place) % NUMBERS, place)
        if now in ([], [place]) and data.draw(st.booleans()):
            assert gate.offer((first + place) % NUMBERS, place) == [], "the same again"
        passed += now
    assert passed == list(range(MOST_HELD))
    assert not gate.is_waiting


@given(st.integers(0, NUMBERS - 1), st.lists(st.integers(1, 20), min_size=1, max_size=12, unique=True))
def test_giving_up_passes_what_came_in_order_and_goes_on_behind_it(first: int, came: list[int]) -> None:
    gate: InOrder[int] = InOrder(first)
    for place in came:
        assert gate.offer((first + place) % NUMBERS, place) == []  # number 0 never comes
    assert gate.give_up() == sorted(came)
    following = max(came) + 1
    assert gate.offer((first + following) % NUMBERS, following) == [following]
