"""No part of a sentence that changes it is lost on the way to its plan: numbers are read to their end or not at all."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from appliance.foundation.sentence import joined
from appliance.memory.sentence_encoder import SentenceEncoder
from appliance.planning.examples import Router
from appliance.planning.playbooks.playbooks import Triggers
from tests.support.planning import shipped_phrasebook, shipped_playbooks

EN, ZH = "set the fan speed of motor 3 to {}", "把三号电机的风扇转速设为{}"


@pytest.mark.req("A1")
@pytest.mark.parametrize(
    ("said", "amount"),
    [
        *((EN.format(n), a) for n, a in [("1,000", 1000), (".5", 0.5), ("\u221250", -50), ("12.5.", 12.5)]),
        *(
            (EN.format(n), None)
            for n in ["1e2", "1.2.3", "10/20", "ten twenty", "1,5", "5²", "½", "~3", "$50", "50‰", "50°", "+50"]
        ),
        *((ZH.format(n), a) for n, a in [("一千二百三", 1230), ("负五十", -50), ("-50", -50), ("五 十", 50), ("1,000", 1000)]),
        *(
            (ZH.format(n), None)
            for n in ["五十五十", "一百二百", "三五十", "十十", "零五十", "10/20", "10、20", "50 60", "½", "3百", "一万"]
        ),
    ],
)
def test_a_number_is_read_to_its_end_or_not_at_all(said: str, amount: float | None) -> None:
    heard = shipped_phrasebook().understand(said, "zh" if "把" in said else "en")
    assert (None if heard is None else heard.slots["amount"]) == amount


@pytest.mark.req("A1")
@given(st.text("0123456789.,/eE+-~ :x'½²%", min_size=1, max_size=7))
@settings(max_examples=300, deadline=None, derandomize=True)
def test_whatever_is_typed_for_a_number_is_that_number_or_none(typed: str) -> None:
    plain = typed.strip().rstrip("%.,:'/+~ ").strip().lstrip(" ,:").replace(",", "")
    for sentence, language in ((EN, "en"), (ZH, "zh")):
        heard = shipped_phrasebook().understand(sentence.format(typed), language)
        if heard is not None and "amount" in heard.slots and re.fullmatch(r"-?(\d+(\.\d+)?|\.\d+)", plain):
            assert heard.slots["amount"] == float(plain)


@pytest.mark.req("A1")
async def test_by_how_much_from_where_two_amounts_and_what_others_did_are_no_order() -> None:
    encoder = SentenceEncoder()
    await encoder.load()
    for language, sentences in {
        "en": [
            "raise the fan speed of motor three by 10",
            "bring the fan speed of motor three up by 10 percent",
            "add 10 percent to the fan speed of motor three",
            "lower the fan speed of motor three from 50 to 20 percent",
            "set the fan speed of motor 3 to 50 percent and of conveyor 3 to 1",
            "somebody set the fan speed of motor 3 to 20 percent",
            "set the fan speed of motor 3 to 3e2",
            "check the temperature of motor 3 in 10.5 minutes",
            "bring the fan speed of motor 3 to at most 50 percent",
        ],
        "zh": [
            "把三号电机的风扇转速调高10",
            "把三号电机的风扇转速从50降到20",
            "把三号电机的风扇转速调到百分之50再调到百分之20",
            "有人把三号电机的风扇转速设为百分之20",
            "三号电机的风扇转速提高到百分之20十分钟",
        ],
    }.items():
        router = Router(shipped_phrasebook().phrases(language))
        await router.prepare(encoder)
        for said in sentences:
            assert shipped_phrasebook().understand(said, language) is None, said
            found = await router.nearest(said, encoder)
            assert found is None or not found.is_clear or found.intent == "not_understood", said
    await encoder.close()


@pytest.mark.field("FC-O03")
@pytest.mark.parametrize(
    ("triggers", "why"),
    [
        ({"phrases": {"en": ["[please]"]}}, "no word at all"),
        ({"names": {"en": [""]}}, "no letters"),
        ({"names": {"en": ["(a|b"]}}, "brackets"),
        ({"names": {"xx": ["ab"]}}, "without phrases"),
    ],
)
def test_triggers_that_nobody_could_say_are_faults(triggers: dict[str, dict[str, list[str]]], why: str) -> None:
    changed = replace(shipped_playbooks()["check-motor"], triggers=Triggers.model_validate(triggers))
    assert why in str(shipped_phrasebook().wrong_with([changed]))


def test_chinese_sentences_are_joined_without_a_blank() -> None:
    assert joined("语言模型说：", "三号电机正常。") == "语言模型说：三号电机正常。"
    assert joined("A model says:", "Fine.") == "A model says: Fine."
    assert joined("", "Fine.") == "Fine."
