"""Writes over real sockets: by which function, what is sent, and what is never sent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from appliance.contracts.errors import Refused, Uncertain
from appliance.contracts.plant import Plant
from appliance.contracts.reading import Quality
from appliance.foundation.supervisor import Degraded
from appliance.foundation.system_clock import SystemClock
from drivers.modbus.bus import ModbusBus
from tests.support.register_plc import RegisterPlc, register_plc

COIL, HOLDING = 1, 3

TAGS: list[dict[str, Any]] = [
    {"name": "speed", "address": 0, "type": "uint16", "low": 0, "high": 100},
    {"name": "level", "address": 1, "type": "float32", "word_order": "CDAB", "low": 0, "high": 100},
    {"name": "total", "address": 3, "type": "int64", "word_order": "DCBA", "low": -(10**12), "high": 10**12},
    {"name": "batch", "address": 7, "type": "string", "length": 4, "word_order": "BADC"},
    {"name": "mode", "address": 11, "type": "uint16", "names": {0: "off", 1: "hand", 2: "auto"}},
    {"name": "options", "address": 12, "type": "uint16", "flags": {0: "light", 3: "fan"}},
    {"name": "fan", "address": 13, "type": "bool", "bit": 3},
    {"name": "single", "address": 14, "type": "uint16", "low": 0, "high": 9, "write_function": "multiple"},
    {"name": "lamp", "address": 0, "type": "bool", "kind": "coil"},
    {"name": "horn", "address": 1, "type": "bool", "kind": "coil", "write_function": "multiple"},
    {"name": "fixed", "address": 2, "type": "uint16", "writable": False},
]


@asynccontextmanager
async def site() -> AsyncIterator[tuple[ModbusBus, RegisterPlc]]:
    base = {"asset": "a", "link": "l", "device_id": 1, "kind": "holding_register", "writable": True, "spoken": {}}
    published = {"name": "remote", "asset": "a", "link": "mqtt", "kind": "published", "type": "float64", "spoken": {}}
    tables = {(1, HOLDING): dict.fromkeys(range(20), 0), (1, COIL): dict.fromkeys(range(4), 0)}
    async with register_plc(tables) as plc:
        plant = Plant.model_validate(
            {
                "site": "s",
                "links": [{"id": "l", "host": "127.0.0.1", "port": plc.port, "timeout_s": 0.3, "retries": 0}],
                "assets": [{"id": "a", "area": "x", "spoken": {}}],
                "tags": [*(base | each for each in TAGS), published],
                "topics": [{"topic": "x", "format": "plain", "values": {"value": "a.remote"}}],
                "alarms": [],
            }
        )
        bus = ModbusBus(plant, SystemClock(), Degraded())
        try:
            yield bus, plc
        finally:
            await bus.close()


@pytest.mark.req("F2", "F4")
@pytest.mark.field("FC-F01", "FC-F13")
@pytest.mark.parametrize(
    ("key", "value", "function", "cells", "shown"),
    [
        ("a.speed", 80, 6, {0: 80}, 80),
        ("a.level", 94.25, 16, {1: 0x8000, 2: 0x42BC}, 94.25),
        ("a.total", -5, 16, {3: 0xFBFF, 4: 0xFFFF, 5: 0xFFFF, 6: 0xFFFF}, -5),
        ("a.batch", "B-77", 16, {7: 0x2D42, 8: 0x3737, 9: 0, 10: 0}, "B-77"),
        ("a.mode", "auto", 6, {11: 2}, "auto"),
        ("a.mode", 1, 6, {11: 1}, "hand"),
        ("a.options", "fan, light", 6, {12: 9}, "light, fan"),
        ("a.single", 7, 16, {14: 7}, 7),
    ],
)
async def test_a_write_uses_the_codec_of_reading(key: str, value: Any, function: int, cells: dict[int, int], shown: Any) -> None:
    async with site() as (bus, plc):
        receipt = await bus.write(key, value)
        assert (receipt.verified, receipt.read_back.value, receipt.read_back.quality) == (True, shown, Quality.GOOD)
        assert {address: plc.tables[1, HOLDING][address] for address in cells} == cells
        assert [each.function for each in plc.asked] == [function, 3], "once, and read back"


@pytest.mark.req("F4")
@pytest.mark.parametrize(("key", "function"), [("a.lamp", 5), ("a.horn", 15)])
async def test_a_coil_is_written_alone_or_as_one_of_several(key: str, function: int) -> None:
    async with site() as (bus, plc):
        assert (await bus.write(key, True)).verified
        assert (await bus.write(key, False)).verified
        assert [each.function for each in plc.asked] == [function, 1, function, 1]


@pytest.mark.req("F4")
async def test_a_bit_of_a_register_is_written_by_a_mask() -> None:
    async with site() as (bus, plc):
        plc.tables[1, HOLDING][13] = 0b1010_0101_0000_0001
        receipt = await bus.write("a.fan", True)
        assert (receipt.verified, receipt.read_back.value) == (True, True)
        assert plc.tables[1, HOLDING][13] == 0b1010_0101_0000_1001, "the other bits are left alone"
        assert (await bus.write("a.fan", False)).verified
        assert plc.tables[1, HOLDING][13] == 0b1010_0101_0000_0001
        assert [each.function for each in plc.asked] == [22, 3, 22, 3], "never read, changed and written back"


@pytest.mark.req("F4")
async def test_a_device_without_mask_write_is_never_written_the_whole_register() -> None:
    async with site() as (bus, plc):
        plc.knows_mask_write = False
        with pytest.raises(Refused, match="function 22") as refused:
            await bus.write("a.fan", True)
        assert "as a coil" in refused.value.cure
        assert (refused.value.reply, refused.value.words) == ("controller_refuses", {"asset": "a", "quantity": "a.fan"})
        assert [each.function for each in plc.asked] == [22]


@pytest.mark.req("F4")
@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("a.level", 100.5, r"takes 0\.0 to 100\.0"),
        ("a.batch", "B-7788990", "room for 8 bytes"),
        ("a.batch", 12, "takes a text"),
        ("a.mode", "turbo", "does not know"),
        ("a.mode", 3, "does not know"),
        ("a.options", "light, siren", "does not know"),
        ("a.options", 2, "does not know"),
        ("a.fan", "on", "takes true or false"),
        ("a.fixed", 1, "cannot be written"),
        ("a.remote", 1.0, "published by MQTT"),
    ],
)
async def test_what_a_tag_does_not_take_is_never_sent(key: str, value: Any, words: str) -> None:
    async with site() as (bus, plc):
        with pytest.raises(Refused, match=words) as refused:
            await bus.write(key, value)
        assert plc.asked == []
        assert refused.value.reply == {"a.fixed": "not_settable", "a.remote": ""}.get(key, "not_its_value")


async def test_a_published_tag_is_not_the_buses() -> None:
    async with site() as (bus, plc):
        for ask in (bus.read(["a.speed", "a.remote"]), bus.probe("a.remote")):
            with pytest.raises(Refused, match=r"a\.remote is published by MQTT"):
                await ask
        with pytest.raises(Refused, match="published by MQTT"):
            bus.last("a.remote")
        assert plc.asked == []


@pytest.mark.req("F4")
async def test_a_lost_answer_is_uncertain_and_the_write_is_not_repeated() -> None:
    async with site() as (bus, plc):
        await bus.read(["a.speed"])
        plc.silent.add(1)
        for key, value in (("a.speed", 50), ("a.fan", True)):
            plc.asked.clear()
            with pytest.raises(Uncertain):
                await bus.write(key, value)
            assert len(plc.asked) == 1
            plc.silent.clear()
            while (await bus.read(["a.speed"]))["a.speed"].quality is not Quality.GOOD:  # noqa: ASYNC110 - it is left alone a while
                await asyncio.sleep(0.01)
            plc.silent.add(1)
