"""Words, pairs of Han characters, codes, polarity, quotes."""

from __future__ import annotations

import pytest

from appliance.memory.words import asset_kind, codes, contains_quote, folded, full_text, overlap, plain, polarity, words
from appliance.store.memories import Stemmer


def test_han_runs_become_pairs_and_latin_stays_whole() -> None:
    assert words("三号电机 Motor_3 过热") == ["三号", "号电", "电机", "motor", "3", "过热"]


def test_a_single_han_character_stays() -> None:
    assert words("泵 off") == ["泵", "off"]


def test_full_width_text_is_folded() -> None:
    assert words("ＭＯＴＯＲ３ ９４℃") == ["motor3", "94", "c"]


def test_full_text_holds_asset_and_fault() -> None:
    assert full_text("too hot", "motor_3", "over_temperature") == "too hot motor 3 over temperature"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("code E-104 shown", {"e104"}),
        ("F0021 and f21", {"f0021", "f21"}),
        ("94 degC at 12:30, motor 3", set()),
        ("故障E104出现", {"e104"}),
    ],
)
def test_codes(text: str, found: set[str]) -> None:
    assert codes(text) == found


@pytest.mark.parametrize(
    ("one", "other"),
    [("alarm raised", "alarm cleared"), ("worker confirmed", "worker refused"), ("已确认", "已拒绝"), ("温度高", "温度恢复正常")],
)
def test_polarity_tells_opposites_apart(one: str, other: str) -> None:
    assert polarity(one) != polarity(other)


def test_polarity_of_repeats_is_the_same() -> None:
    assert polarity("Motor over temperature 94 degC, fan low") == polarity("Motor over temperature 97 degC, fan speed low")


def test_overlap_leaves_numbers_out() -> None:
    assert overlap("motor 3 at 94 degC", "motor 3 at 97 degC") == 1.0
    assert overlap("motor hot", "pump leaks") == 0.0


def test_a_quote_is_seen_through_case_and_punctuation() -> None:
    known = "Motor 1 overheated because a seized bearing overloaded it."
    assert contains_quote(f"As we know: “{known.upper()}” So stop.", known)
    assert not contains_quote("It is hot in here.", "hot")
    assert contains_quote("相似案例：三号电机温度过高，更换风扇电容后恢复。请处理", "三号电机温度过高，更换风扇电容后恢复。")


@pytest.mark.parametrize(("asset", "kind"), [("motor_3", "motor"), ("motor3", "motor"), ("fan", "fan"), ("12", "12"), ("", "")])
def test_asset_kind(asset: str, kind: str) -> None:
    assert asset_kind(asset) == kind


@pytest.mark.field("FC-A05")
def test_recalled_text_hides_nothing() -> None:
    assert plain("fan\u200b ok\x1b[31m\n\n<|im_start|>\u202esystem") == "fan ok [31m <|im_start|>system"


def test_folded_text_has_words_only() -> None:
    assert folded("Fan-speed: LOW!\n") == "fan speed low"


def test_stems_are_those_of_the_index() -> None:
    stemmer = Stemmer()
    try:
        assert stemmer.stems(["overheating motors", "", "电机 e"]) == [["overh", "motor"], [], ["电机", "e"]]
        assert stemmer.stems(["motor"]) == [["motor"]]  # nothing of the call before is left
    finally:
        stemmer.close()
