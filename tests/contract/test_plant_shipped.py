"""The shipped plant model is whole, and reads the same by every reader."""

from __future__ import annotations

from itertools import pairwise

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
    for thing in [*PLANT.assets, *PLANT.tags]:
        assert set(thing.spoken) in (LANGUAGES, set()), thing
        assert all(names and all(names) for names in thing.spoken.values())
    for alarm in PLANT.alarms:
        assert set(alarm.text) == LANGUAGES
        assert not any(character.isdigit() for text in alarm.text.values() for character in text), "the value is said apart"


def test_alarms_have_a_limit_a_tag_and_a_name_of_their_own() -> None:
    assert len(PLANT.alarm_by_source_id) == len(PLANT.alarms)
    for alarm in PLANT.alarms:
        assert alarm.tag is not None
        assert PLANT.tag_by_key[alarm.tag].asset == alarm.asset
        assert alarm.fault in LIMITS
