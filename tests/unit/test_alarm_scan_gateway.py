"""The alarm engine: what a gateway lost on the way, what is suppressed by design, and what cannot be seen."""

from __future__ import annotations

import pytest

from appliance.contracts.alarm import AlarmChange, AlarmEvent
from appliance.contracts.reading import Quality
from tests.support.alarm_engine import CLEARED, HOT, RAISED, Engine, live, plant_of, running
from tests.support.waiting import until

# the gateway's alarms -------------------------------------------------------------------------------------------------
GATEWAY = {"source_id": "HOT", "condition": HOT}


def reported(it: Engine, change: AlarmChange, activation: str = "7-1", alarm_id: str = "a") -> None:
    """Let the gateway's report be stored."""
    it.ledger.store(AlarmEvent("line_3_plc", alarm_id, activation, change, 91.0, "degC", it.clock.utc()))


@pytest.mark.req("F7")
async def test_what_the_gateway_reports_in_time_is_not_reported_again() -> None:
    async with running(GATEWAY) as it:
        it.sees(heat=50.0)
        it.sees(after_s=1, heat=92.0)
        it.passes(4.5)
        reported(it, RAISED)
        for value in (92.0, 89.0, 81.0):  # in the PLC's band it goes on
            it.sees(after_s=10, heat=value)
        it.sees(after_s=1, heat=79.0)
        it.passes(4.5)
        reported(it, CLEARED)
        for value in (79.0, 85.0, 89.9):
            it.sees(after_s=10, heat=value)
        assert await it.told() == []
        assert it.account() == (0, 0, 0, 0, 0)


@pytest.mark.req("F7")
async def test_between_the_limits_the_gateway_is_right() -> None:
    """Its noise crossed the limit where ours did not."""
    async with running(GATEWAY) as it:
        it.sees(heat=89.9)
        reported(it, RAISED)
        it.sees(after_s=10, heat=89.9)
        it.sees(after_s=10, heat=80.1)
        reported(it, CLEARED)
        it.sees(after_s=10, heat=80.1)
        it.sees(after_s=10, heat=80.1)
        assert await it.told() == []


@pytest.mark.req("F7")
@pytest.mark.field("FC-F18")
async def test_a_raise_that_was_lost_on_the_way_is_noticed_by_reading_the_plc() -> None:
    async with running(GATEWAY) as it:
        it.sees(heat=50.0)
        it.sees(after_s=1, heat=92.0)
        it.sees(after_s=4.9, heat=86.0)  # in the PLC it goes on
        assert await it.told() == []
        it.passes(0.1)
        assert await it.told() == ["a raised"]
        (event,) = it.ledger.events
        assert (event.source, event.activation, event.value, event.was_missed, event.is_state) == (
            "plc:line", "act_0001", 86.0, True, False,
        )  # fmt: skip
        it.sees(after_s=60, heat=92.0)
        assert await it.told() == [], "once"
        it.sees(after_s=1, heat=50.0)
        it.passes(5)
        assert await it.told() == ["a cleared"]
        assert it.ledger.events[-1].activation_id == event.activation_id


@pytest.mark.req("F7")
@pytest.mark.field("FC-F18")
async def test_a_clear_that_was_lost_is_of_the_gateways_own_activation() -> None:
    async with running(GATEWAY, know=(live("a", "7-1", source="line_3_plc"),)) as it:
        it.sees(heat=50.0)
        assert await it.told() == []
        it.passes(5)
        assert await it.told() == ["a cleared"]
        (event,) = it.ledger.events
        assert (event.activation_id, event.source, event.activation) == ("line_3_plc:a:7-1", "line_3_plc", "7-1")
        assert event.was_missed
        it.sees(after_s=60, heat=50.0)
        assert await it.told() == []


@pytest.mark.req("F7")
async def test_lost_clears_of_several_activations_are_all_noticed() -> None:
    known = (live("a", "7-1", source="line_3_plc"), live("a", "7-2", source="line_3_plc"))
    async with running(GATEWAY, know=known) as it:
        it.sees(heat=50.0)
        it.passes(5)
        assert await it.told() == ["a cleared"]
        it.sees(after_s=0.1, heat=50.0)
        it.passes(5)
        assert await it.told() == ["a cleared"]
        assert [e.activation for e in it.ledger.events] == ["7-1", "7-2"]
        it.sees(after_s=60, heat=50.0)
        assert await it.told() == []


@pytest.mark.req("F7")
async def test_true_at_start_and_never_told_by_the_gateway_is_state_that_was_missed() -> None:
    async with running({**GATEWAY, "missed_after_s": 2}) as it:
        it.sees(heat=95.0)
        it.passes(2)
        assert await it.told() == ["a raised"]
        assert (it.ledger.events[0].is_state, it.ledger.events[0].was_missed) == (True, True)


@pytest.mark.req("F7")
async def test_a_report_that_comes_while_the_ledger_is_away_makes_ours_needless() -> None:
    async with running(GATEWAY) as it:
        it.ledger.is_away = True
        it.sees(heat=50.0)
        it.sees(after_s=1, heat=92.0)
        it.passes(5)
        await until(lambda: it.ledger.tries > 0, "it was offered")
        assert it.account() == (1, 0, 0, 0, 1)
        reported(it, RAISED)
        it.ledger.is_away = False
        assert await it.told() == []
        assert it.account() == (1, 0, 0, 1, 0)
        it.sees(after_s=60, heat=92.0)
        assert await it.told() == []


@pytest.mark.req("F7")
async def test_what_the_ledger_learned_while_ours_was_on_its_way_is_not_told_again() -> None:
    async with running(GATEWAY) as it:
        it.sees(heat=50.0)
        it.ledger.open_gate.clear()
        it.sees(after_s=1, heat=92.0)
        it.passes(5)
        await until(lambda: it.ledger.tries == 1, "it is on its way")
        reported(it, RAISED)
        it.sees(after_s=1, heat=50.0)
        it.passes(5)
        assert it.account() == (2, 0, 0, 0, 2), "our raise on its way, our clear behind it"
        reported(it, CLEARED)
        it.ledger.counts_to = it.ledger.alarms["line_3_plc:a:7-1"]
        it.ledger.open_gate.set()
        assert await it.told() == ["a raised"]
        assert it.account() == (2, 1, 0, 1, 0)
        it.sees(after_s=60, heat=50.0)
        assert await it.told() == []


@pytest.mark.req("F7")
async def test_a_lost_link_is_no_reason_to_think_that_the_gateway_lost_something() -> None:
    async with running(GATEWAY, know=(live("a", "7-1", source="line_3_plc"),)) as it:
        it.sees(heat=95.0)
        it.link("silent")
        it.sees(Quality.STALE, heat=95.0)
        reported(it, CLEARED)
        it.passes(600)
        assert await it.told() == []
        it.link("")
        it.sees(heat=40.0)
        it.passes(600)
        assert await it.told() == []


@pytest.mark.req("F7")
async def test_word_of_how_it_was_that_comes_late_changes_nothing() -> None:
    async with running(GATEWAY) as it:
        it.sees(heat=50.0)
        reported(it, RAISED)
        as_it_was = it.ledger.alarms["line_3_plc:a:7-1"]
        reported(it, CLEARED)
        it.scan.known(as_it_was)
        it.sees(after_s=1, heat=50.0)
        it.sees(after_s=60, heat=50.0)
        assert await it.told() == []


# suppressed by design -------------------------------------------------------------------------------------------------
AT_REST = {"suppressed_while": {"tag": "m.running", "equals": False}}


@pytest.mark.req("F6")
async def test_suppression_is_told_on_changes_only_and_before_the_alarm_it_is_about() -> None:
    low = {"condition": {"kind": "l", "tag": "m.flow", "limit": 2}, **AT_REST}
    async with running(low, {"source_id": "X", **AT_REST}) as it:
        it.sees(flow=5.0, running=True)
        assert await it.told() == ["a released", "b released"], "the ledger may remember otherwise"
        it.sees(flow=5.0, running=True)
        it.sees(flow=0.1, running=False)
        assert await it.told() == ["a suppressed", "b suppressed", "a raised"]
        assert it.ledger.suppressions[-1] == ("b", True, "m.running is false")
        it.sees(Quality.STALE, running=True)
        it.sees(Quality.BAD, running=None)
        assert await it.told() == [], "what cannot be seen stays"
        it.sees(flow=5.0, running=True)
        assert await it.told() == ["a released", "b released", "a cleared"]


@pytest.mark.req("F6")
async def test_suppression_keeps_its_place_between_the_alarms() -> None:
    trip = {"condition": {"kind": "bit", "tag": "m.trip"}}
    async with running(trip, {"condition": {"kind": "l", "tag": "m.flow", "limit": 2}, **AT_REST}) as it:
        it.sees(trip=True)
        it.sees(running=False)
        it.sees(flow=0.1)
        assert await it.told() == ["a raised", "b suppressed", "b raised"]


@pytest.mark.req("F6")
async def test_suppression_that_changes_while_the_ledger_is_away_ends_as_it_is() -> None:
    async with running({"source_id": "X", "suppressed_while": {"tag": "m.mode", "equals": "off"}}) as it:
        it.sees(mode="off")
        assert await it.told() == ["a suppressed"]
        it.ledger.is_away = True
        for _ in range(100):
            it.sees(mode="1")
            it.sees(mode="off")
        assert len(it.scan._line) == 1
        it.ledger.is_away = False
        assert await it.told() == []
        it.sees(mode="1")
        assert await it.told() == ["a released"]


@pytest.mark.req("F6")
async def test_suppression_by_one_bit_does_not_mind_the_others() -> None:
    async with running({"source_id": "X", "suppressed_while": {"tag": "m.state", "equals": "rest"}}) as it:
        for state, told in (("rest, bit 4", ["a suppressed"]), ("rest", []), ("bit 4", ["a released"]), ("none", [])):
            it.sees(state=state)
            assert await it.told() == told


@pytest.mark.parametrize(("tag", "equals"), [("m.state", "resting"), ("m.state", "rest, rest"), ("m.mode", "on"), ("m.mode", 0)])
def test_suppression_by_what_a_tag_never_shows_does_not_load(tag: str, equals: str | int) -> None:
    with pytest.raises(ValueError, match="is never"):
        plant_of({"source_id": "X", "suppressed_while": {"tag": tag, "equals": equals}})


# reachability ---------------------------------------------------------------------------------------------------------
UNSEEN = {"condition": {"kind": "unreachable", "link": "line", "on_delay_s": 4}}


@pytest.mark.req("F7")
@pytest.mark.field("FC-F05")
async def test_a_lost_link_is_one_alarm_and_those_of_its_values_stay_as_they_are() -> None:
    hot, trip = {"condition": HOT}, {"condition": {"kind": "bit", "tag": "m.trip"}}
    async with running(UNSEEN, hot, trip) as it:
        it.link("")
        it.sees(heat=95.0, trip=False)
        assert await it.told() == ["b raised"]
        for _ in range(3):  # it blinks
            it.link("silent")
            it.passes(3.9)
            it.link("")
        assert await it.told() == []
        it.link("silent")
        it.sees(Quality.STALE, heat=20.0, trip=True)
        it.passes(4)
        it.link("still silent")
        it.passes(400)
        assert await it.told() == ["a raised"], "once"
        event = it.ledger.events[-1]
        assert (event.source, event.value, event.unit, event.is_state) == ("plc:line", None, "", False)
        assert event.source_utc is not None
        it.link("")
        it.sees(heat=95.0, trip=False)
        assert await it.told() == ["a cleared"]
        assert it.ledger.events[-1].activation_id == event.activation_id


@pytest.mark.req("F7")
async def test_a_link_that_cannot_be_seen_from_the_start_is_told_and_known_not_to_be_new() -> None:
    async with running(UNSEEN) as it:
        it.passes(60)
        assert await it.told() == [], "nobody has looked yet"
        it.link("refused")
        it.passes(4)
        assert await it.told() == ["a raised"]
        assert it.ledger.events[0].is_state


@pytest.mark.req("F7")
async def test_a_good_reading_proves_that_a_link_is_back_since_a_restart() -> None:
    device = {"condition": {"kind": "unreachable", "link": "line", "device_id": 2}}
    known = (live("a", "act_7"), live("b", "act_8"))
    async with running(UNSEEN, device, know=known) as it:
        it.sees(Quality.STALE, far=1.0)
        assert await it.told() == []
        it.sees(heat=1.0)
        assert await it.told() == ["a cleared"]
        it.sees(far=1.0)
        assert await it.told() == ["b cleared"]
        assert [e.activation for e in it.ledger.events] == ["act_7", "act_8"]


@pytest.mark.req("F7")
async def test_devices_behind_a_lost_link_are_not_told_one_by_one() -> None:
    link = {"condition": {"kind": "unreachable", "link": "line"}}
    one, two = ({"condition": {"kind": "unreachable", "link": "line", "device_id": n, "on_delay_s": 1}} for n in (1, 2))
    async with running(link, one, two) as it:
        it.link("")
        it.link("silent", device_id=2)
        it.passes(1)
        assert await it.told() == ["c raised"]
        it.link("silent", device_id=1)
        it.link("silent")
        it.passes(60)
        assert await it.told() == ["a raised"], "the link's alarm tells it all"
        it.link("")
        it.link("", device_id=1)
        it.link("", device_id=2)
        it.passes(60)
        assert await it.told() == ["a cleared", "c cleared"]


@pytest.mark.req("F7")
async def test_a_devices_alarm_tells_of_its_lost_link_where_no_other_does() -> None:
    device = {"condition": {"kind": "unreachable", "link": "line", "device_id": 1}}
    async with running(device, {"condition": {"kind": "unreachable", "link": "other"}}) as it:
        it.link("", device_id=1)
        it.link("refused")
        assert await it.told() == ["a raised"]
        it.link("")
        assert await it.told() == ["a cleared"]
        it.link("refused", link="other")
        assert await it.told() == ["b raised"]


@pytest.mark.req("F7")
async def test_a_lost_device_freezes_only_what_is_read_from_it() -> None:
    near, far = ({"condition": {"kind": "h", "tag": f"m.{tag}", "limit": 5, "on_delay_s": 1}} for tag in ("heat", "far"))
    async with running(near, far) as it:
        it.sees(heat=9.0, far=9.0)
        it.link("silent", device_id=2)
        it.passes(5)
        assert await it.told() == ["a raised"]
        it.sees(far=9.0)
        assert await it.told() == ["b raised"]
