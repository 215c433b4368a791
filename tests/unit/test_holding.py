"""The global hold: by a person and by the key switch, recorded, told once, shown everywhere, and there after a restart."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from gpiozero.pins.mock import MockFactory, MockPin

from appliance.contracts.errors import Refused
from appliance.contracts.hold import HoldSource
from appliance.contracts.store import Transaction
from appliance.foundation.supervisor import Degraded
from appliance.foundation.system_clock import SystemClock
from appliance.holding import Holding
from appliance.machine_panel import MachinePanel
from appliance.store import deliveries, holds
from appliance.store.audit_check import walk_slice
from drivers.gpio.annunciator import Pattern, Situation, annunciate
from drivers.gpio.settings import GpioSettings
from tests.support.ledger import Bench, open_bench
from tests.support.operating import holding_of
from tests.support.waiting import until

pytestmark = pytest.mark.req("R10")

ON = "I am on hold. Nothing is executed until I am released."
OFF = "I am released and carry out work again."
KEY, LAMP = 22, 23


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    async with open_bench(tmp_path) as opened:
        yield opened


async def spoken(bench: Bench, status: str = "pending") -> list[str]:
    rows = await bench.rows("SELECT text FROM delivery WHERE channel = 'speech' AND status = ? ORDER BY seq", status)
    return [row["text"] for row in rows]


async def published(bench: Bench) -> list[dict[str, object]]:
    rows = await bench.rows("SELECT topic, payload, retain FROM delivery WHERE channel = 'mqtt' ORDER BY seq")
    assert {(row["topic"], row["retain"]) for row in rows} <= {("floorhand/line-3/hold", 1)}
    return [dict(deliveries.to_json_or_none(row["payload"]) or {}) for row in rows]


async def audited(bench: Bench) -> list[tuple[str, str]]:
    rows = await bench.rows("SELECT kind, payload ->> '$.by' AS by FROM operation WHERE kind GLOB 'audit.hold_*' ORDER BY seq")
    return [(row["kind"], row["by"]) for row in rows]


async def may_act(bench: Bench) -> bool:
    try:
        await bench.database.transaction(holds.require_none)
    except Refused:
        return False
    return True


async def test_a_person_holds_and_lets_go_and_it_is_told_once(bench: Bench) -> None:
    queued: list[None] = []
    holding = holding_of(bench, queued=queued)
    told: list[bool] = []
    holding.listeners.append(lambda: told.append(holding.is_on))
    now = await holding.hold("belt off the pulley", "anna")
    assert (now["on_hold"], now["holds"][0]["by"], now["holds"][0]["reason"]) == (True, "anna", "belt off the pulley")
    assert not await may_act(bench)
    assert await holding.hold("belt off the pulley", "anna") == now  # it is on hold already, for that
    assert (await spoken(bench), told, len(queued)) == ([ON], [True], 1)
    assert not (await holding.release("anna"))["on_hold"]
    assert await may_act(bench)
    assert (await spoken(bench), await spoken(bench, "abandoned")) == ([OFF], [ON])  # nobody hears what is no longer so
    assert [message["on_hold"] for message in await published(bench)] == [True, False]
    assert (await audited(bench), told) == ([("audit.hold_began", "anna"), ("audit.hold_ended", "anna")], [True, False])
    with pytest.raises(Refused, match="nothing is on hold") as refused:
        await holding.release("bert")
    assert "floorhand status" in refused.value.facts["cure"]


async def test_several_people_hold_and_each_lets_go_of_their_own(bench: Bench) -> None:
    """A second hold is neither lost nor freed by the first one's release."""
    holding = holding_of(bench)
    await holding.hold("belt off the pulley", "anna")
    await holding.hold("guard open", "bert")
    await holding.hold("hands inside", "anna")
    held = [(hold["by"], hold["reason"]) for hold in holding.facts()["holds"]]
    assert held == [("anna", "belt off the pulley; hands inside"), ("bert", "guard open")]
    with pytest.raises(Refused, match="carl holds nothing; on hold by anna, bert") as refused:
        await holding.release("carl")
    assert "release --for 'anna'" in refused.value.facts["cure"]
    assert [hold["by"] for hold in (await holding.release("anna"))["holds"]] == ["bert"]
    assert not await may_act(bench)
    assert await spoken(bench) == [ON]
    assert [message["on_hold"] for message in await published(bench)] == [True] * 4
    assert not (await holding.release("carl", of="bert"))["on_hold"]
    rows = await bench.rows("SELECT kind, payload FROM operation WHERE kind GLOB 'audit.hold_*' ORDER BY seq")
    told = [(row["kind"].removeprefix("audit.hold_"), dict(deliveries.to_json_or_none(row["payload"]) or {})) for row in rows]
    assert told == [
        ("began", {"by": "anna", "reason": "belt off the pulley"}),
        ("began", {"by": "bert", "reason": "guard open"}),
        ("reason_added", {"by": "anna", "reason": "hands inside"}),
        ("ended", {"by": "anna", "of": "anna"}),
        ("ended", {"by": "carl", "of": "bert"}),
    ]


async def test_all_of_them_can_be_let_go_of_at_once_but_not_the_key(bench: Bench) -> None:
    holding = holding_of(bench, has_key=True)
    await holding.begin(HoldSource.KEY_SWITCH, by="key switch", reason="")
    await holding.hold("belt", "anna")
    await holding.hold("guard", "bert")
    assert [hold["by"] for hold in (await holding.release("carl", everyone=True))["holds"]] == ["key switch"]
    with pytest.raises(Refused, match="anna holds nothing; on hold by the key switch") as refused:
        await holding.release("anna")
    assert refused.value.facts["cure"] == "Turn the key back."


async def test_reasons_of_one_hold_do_not_grow_without_end(bench: Bench) -> None:
    holding = holding_of(bench)
    await holding.hold("x" * 1_990, "anna")
    with pytest.raises(Refused, match="long enough"):
        await holding.hold("y" * 20, "anna")


async def test_it_survives_a_restart_and_says_so_to_the_broker(tmp_path: Path) -> None:
    async with open_bench(tmp_path) as bench:
        await holding_of(bench).hold("belt", "anna")
        clock, ids = bench.clock, bench.ids
    async with open_bench(tmp_path, clock=clock, ids=ids) as bench:
        holding = holding_of(bench)
        await holding.load()
        assert (holding.is_on, holding.facts()["holds"][0]["by"]) == (True, "anna")
        assert [message["on_hold"] for message in await published(bench)] == [True, True]
        assert await spoken(bench) == [ON]  # said once, however often it is started
        await holding.release("anna")
        await holding_of(bench).load()
        # Said at every start: what the broker keeps may be the word of a ledger that was lost since.
        assert [message["on_hold"] for message in await published(bench)] == [True, True, False, False]


async def test_each_source_lets_go_of_its_own(bench: Bench) -> None:
    holding = holding_of(bench, has_key=True)
    await holding.begin(HoldSource.KEY_SWITCH, by="key switch", reason="")
    await holding.hold("belt", "anna")
    assert [hold["source"] for hold in holding.facts()["holds"]] == ["key_switch", "person"]
    assert (await holding.release("anna"))["on_hold"]  # the key is turned still
    assert await spoken(bench) == [ON]
    await holding.end(HoldSource.KEY_SWITCH, by="key switch")
    assert not holding.is_on
    assert await spoken(bench) == [OFF]


async def test_the_hold_of_a_key_that_is_gone_is_a_persons_to_end(bench: Bench) -> None:
    await holding_of(bench, has_key=True).begin(HoldSource.KEY_SWITCH, by="key switch", reason="")
    holding = holding_of(bench, has_key=False)
    await holding.load()
    assert not (await holding.release("anna"))["on_hold"]
    assert (await audited(bench))[-1] == ("audit.hold_ended", "anna")


async def test_a_hold_that_cannot_be_told_does_not_begin(bench: Bench) -> None:
    """Rows, words, message and audit entry are one transaction."""
    holding = holding_of(bench)

    def break_words(tx: Transaction) -> None:
        tx.execute("CREATE TRIGGER full BEFORE INSERT ON delivery BEGIN SELECT RAISE(ABORT, 'no'); END")

    await bench.database.transaction(break_words)
    with pytest.raises(Exception, match="no"):
        await holding.hold("belt", "anna")
    assert (holding.is_on, await may_act(bench), await audited(bench)) == (False, True, [])
    for lane in ("P0", "P1"):
        assert (await walk_slice(bench.database, lane, 0)).broken_seq is None  # type: ignore[arg-type]


@pytest.mark.parametrize("language", ["en", "zh"])
async def test_it_is_said_in_the_language_of_the_site(bench: Bench, language: str) -> None:
    holding = holding_of(bench, language=language)
    await holding.hold("belt", "anna")
    (text,) = await spoken(bench)
    assert ("保持状态" in text) is (language == "zh")


@pytest.mark.req("F8")
def test_the_panel_shows_a_hold_and_is_never_green_with_it() -> None:
    shown = annunciate(Situation(is_on_hold=True))
    assert (shown.amber, shown.green, shown.hold, shown.buzzer) == (Pattern.STEADY, Pattern.OFF, Pattern.STEADY, Pattern.OFF)
    assert annunciate(Situation()).hold is Pattern.OFF


# the key switch -------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def panel(
    bench: Bench, holding: Holding, factory: MockFactory, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[MachinePanel]:
    monkeypatch.setattr("drivers.gpio.chip.Chip.factory", lambda _: factory)
    settings = GpioSettings.model_validate({"key_switch": {"pin": KEY, "debounce_ms": 5}, "hold_lamp": {"pin": LAMP}})
    it = MachinePanel(settings, bench.database, SystemClock(), Degraded(), None, None, holding)  # type: ignore[arg-type]
    running = asyncio.create_task(it.run())
    try:
        yield it
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


class ClosedPin(MockPin):  # type: ignore[misc]  # gpiozero has no type information
    """A contact that is closed when its pin is opened."""

    def _set_pull(self, value: str) -> None:
        super()._set_pull(value)
        self._change_state(False)


@pytest.mark.req("F8")
async def test_turning_the_key_holds_and_turning_it_back_lets_go(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    holding, factory = holding_of(bench, has_key=True), MockFactory()
    async with panel(bench, holding, factory, monkeypatch):
        await until(lambda: len(factory.pins) == 2, "the pins are open")
        factory.pin(KEY).drive_low()
        await until(lambda: holding.is_on and factory.pin(LAMP).state, "on hold, and its lamp is lit")
        assert holding.facts()["holds"][0]["by"] == "key switch"
        factory.pin(KEY).drive_high()
        await until(lambda: not holding.is_on and not factory.pin(LAMP).state, "released, and its lamp is dark")
    assert await audited(bench) == [("audit.hold_began", "key switch"), ("audit.hold_ended", "key switch")]


@pytest.mark.req("F8")
@pytest.mark.parametrize("is_turned", [True, False])
async def test_a_key_turned_while_the_power_was_off_counts(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, is_turned: bool
) -> None:
    holding, factory = holding_of(bench, has_key=True), MockFactory(pin_class=ClosedPin if is_turned else MockPin)
    if not is_turned:
        await holding.begin(HoldSource.KEY_SWITCH, by="key switch", reason="")
    async with panel(bench, holding, factory, monkeypatch):
        await until(lambda: holding.is_on is is_turned, "how the key stands counts")


@pytest.mark.req("F8")
async def test_a_key_that_can_no_longer_be_read_lets_nothing_go(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    holding, factory = holding_of(bench, has_key=True), MockFactory()
    async with panel(bench, holding, factory, monkeypatch) as it:
        await until(lambda: len(factory.pins) == 2, "the pins are open")
        factory.pin(KEY).drive_low()
        await until(lambda: holding.is_on, "on hold")
        key = it._panel._key
        assert key is not None
        key._take_level(True)  # read again as it was: no change
        assert it.facts() == {"key_is_on": True}
    assert holding.is_on  # the panel is gone, the hold is not
