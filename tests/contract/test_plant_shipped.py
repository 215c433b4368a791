"""The shipped plant model is whole, and reads the same by every reader."""

from __future__ import annotations

from itertools import pairwise

import pytest

from appliance.contracts.alarm_definition import HIGH_LIMITS, ConditionKind
from drivers.sim.dynamics import LIMITS
from tests.support.plant import shipped_plant

PLANT = shipped_plant()
LANGUAGES = {"en", "zh"}


def test_tags_do_not_overlap_on_the_wire() -> None:
    spans = sorted((t.link, t.device_id, t.kind, t.address, t.address + t.register_count, t.key) for t in PLANT.tags)
    ring = PLANT.event_log
    assert ring is not None
    for one, next_ in pairwise(spans):
        if one[:3] == next_[:3]:
            assert one[4] <= next_[3], f"{one[5]} and {next_[5]}"
    assert all(end <= ring.address for *_, kind, _, end, _ in spans if kind == "holding_register")


def test_everything_spoken_has_all_languages() -> None:
    for spoken in [*(asset.spoken for asset in PLANT.assets), *(tag.spoken for tag in PLANT.tags)]:
        assert set(spoken) in (LANGUAGES, set()), spoken
        assert all(names and all(names) for names in spoken.values())
    for alarm in PLANT.alarms:
        assert set(alarm.text) == LANGUAGES
        assert not any(character.isdigit() for text in alarm.text.values() for character in text), "the value is said apart"


@pytest.mark.req("F6", "F7")
def test_an_alarm_of_the_gateway_is_watched_by_the_plcs_own_limits() -> None:
    gateway = [alarm for alarm in PLANT.alarms if alarm.source_id is not None]
    assert len(PLANT.alarm_by_source_id) == len(gateway) == 3
    for alarm in gateway:
        assert alarm.tag is not None
        assert PLANT.tag_by_key[alarm.tag].asset == alarm.asset
        condition, limit = alarm.condition, LIMITS[alarm.fault]
        assert condition is not None
        assert condition.tag == alarm.tag
        assert condition.limit == limit.raise_
        assert condition.hysteresis == abs(limit.raise_ - limit.clear)
        assert (condition.kind in HIGH_LIMITS) == (limit.raise_ > limit.clear)


@pytest.mark.req("F7")
def test_every_link_has_an_alarm_that_tells_when_it_cannot_be_seen() -> None:
    conditions = [alarm.condition for alarm in PLANT.alarms if alarm.condition is not None]
    told = [c.link for c in conditions if c.kind is ConditionKind.UNREACHABLE]
    assert told == [link.id for link in PLANT.links]


@pytest.mark.req("F3")
def test_how_every_measured_value_changed_can_be_asked() -> None:
    """A trend needs a past, and only what is polled has one that does not depend on who asked when."""
    intervals_s = {group.name: group.every_s for group in PLANT.poll_groups}
    for tag in PLANT.tags:
        if tag.kind == "input_register" and tag.spoken:
            assert tag.poll is not None and intervals_s[tag.poll] <= 5, tag.key
