"""What is rendered, and what is refused, before an engine sees it."""

from __future__ import annotations

import pytest

from appliance.contracts.errors import Malformed
from voice.pronunciation import sentences


@pytest.mark.field("FC-V11")
@pytest.mark.parametrize("text", ["", " ", "...", "\0", "\0\0...\n", "—", "?!"])
def test_what_holds_nothing_to_say_is_nothing(text: str) -> None:
    assert sentences(text, "en") == []


@pytest.mark.field("FC-V11")
def test_control_characters_are_left_out() -> None:
    assert sentences("Motor\0 3\x1b is\u200bhot.", "en") == ["Motor 3 is hot."]


@pytest.mark.field("FC-V12")
@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("It is at 3.2 kPa.", "It is at 3.2 kilopascals."),
        ("94.2 °C", "94.2 degrees Celsius"),
        ("at 45%", "at 45 percent"),
        ("12 mm/s", "12 millimeters per second"),
        ("a leak of 1e-3 bar", "a leak of 0.001 bar"),
        ("1.5E3 rpm", "1500 revolutions per minute"),
        ("due 2026-03-02", "due March 2, 2026"),
        ("$1,200.50", "1200.50 dollars"),
        ("part E3-1e7x", "part E3-1e7x"),
    ],
)
def test_numbers_and_units_become_words(written: str, said: str) -> None:
    assert sentences(written, "en") == [said]


@pytest.mark.field("FC-V12")
def test_a_script_the_voice_cannot_read_is_refused_when_there_is_nothing_else() -> None:
    with pytest.raises(Malformed):
        sentences("3号电机温度过高", "en")


@pytest.mark.field("FC-V12")
def test_a_foreign_name_in_a_sentence_is_left_out_and_the_alarm_is_said() -> None:
    assert sentences("Pump 电机 is hot.", "en") == ["Pump is hot."]


def test_chinese_is_cut_at_its_own_full_stops() -> None:
    assert sentences("温度过高。请检查风扇！", "zh") == ["温度过高。", "请检查风扇！"]


def test_sentences_are_rendered_one_by_one() -> None:
    assert sentences("Motor 3 is hot. It is at 94.2 degrees. Stop it?", "en") == [
        "Motor 3 is hot.",
        "It is at 94.2 degrees.",
        "Stop it?",
    ]


def test_a_sentence_without_end_is_cut_at_its_clauses() -> None:
    parts = sentences("one two three four five, " * 30, "en")
    assert len(parts) > 2
    assert all(len(part) <= 250 for part in parts)
    assert " ".join(parts).split() == ("one two three four five, " * 30).split()


def test_a_book_is_refused() -> None:
    with pytest.raises(Malformed):
        sentences("word " * 1000, "en")
