"""Counting tokens without a tokenizer: against a real one's counts, by script, and corrected by what servers report."""

from __future__ import annotations

import random

import pytest

from appliance.contracts.model import Message, ModelRequest
from drivers.models.tokens import MESSAGE_TOKENS, TEMPLATE_TOKENS, TokenCounter

# Text -> tokens of SmolLM2-135M-Instruct (49,152 entries, digits one by one), as llama.cpp's /tokenize answers.
REAL = {
    "What is the temperature of motor three? The conveyor stopped because the drive reported overcurrent.": 18,
    "line3/motor_03.temperature_degc = 81.25 degC at 2026-03-02T08:00:00.000000+00:00 (quality good)": 59,
    '{"steps": [{"id": "s1", "tool": "read_tags", "arguments": {"tags": ["line3/motor_03.temperature"]}}], "goes_on": false}': 46,
    "三号电机的温度是多少？输送机停了，因为变频器报过流。请检查冷却水泵。": 64,
    "MOTOR OVERTEMPERATURE TRIP HH ALARM FC302 E17": 22,
    "5f3a9c0be1d24477aa10c39be0f1d2c4": 29,
    "40001 94.2 93.8 0 1 65535 -12.5 1e-3 2026-03-02 08:00:00 192.168.10.21:502": 73,
    "prs vlv tmp mtr ctl pmp sts cfg rst flt dbg": 20,
    "컨베이어 모터가 과전류로 정지했습니다. 냉각 펌프를 점검하고 패널에서 경보를 확인하십시오.": 112,
}
# European prose is shorter in letters than in tokens of a vocabulary made of English.
REAL_OTHER = {
    "Der Förderbandantrieb wurde wegen Überstrom abgeschaltet. Bitte prüfen Sie die Kühlwasserpumpe und quittieren Sie danach"
    " die Störung am Bedienfeld. Die Temperatur des Lagers lag zuletzt bei 94,2 Grad.": 76,
    "El motor de la cinta transportadora se detuvo por sobrecorriente. Compruebe la bomba de refrigeración y después reconozca"
    " la alarma en el panel.": 44,
    "Silnik przenośnika został zatrzymany z powodu przetężenia. Sprawdź pompę chłodzenia, a następnie potwierdź alarm na"
    " panelu.": 60,
}

pytestmark = pytest.mark.field("FC-A01")


def asked(text: str) -> ModelRequest:
    return ModelRequest((Message("user", text),), 16)


@pytest.mark.parametrize(("text", "real"), REAL.items())
def test_a_real_tokenizer_never_counts_more_in_the_languages_we_ship(text: str, real: int) -> None:
    assert real <= TokenCounter().count(text) <= 1.7 * real


@pytest.mark.parametrize(("text", "real"), REAL_OTHER.items())
def test_in_other_languages_it_is_near_until_a_server_has_reported(text: str, real: int) -> None:
    counter = TokenCounter()
    assert 0.65 * real <= counter.count(text) <= 1.5 * real
    counter.learn(asked(text * 8), "schema", real * 8 + TEMPLATE_TOKENS + MESSAGE_TOKENS)
    assert real <= counter.count(text) <= 1.5 * real


def test_more_is_believed_at_once_and_less_slowly() -> None:
    text = "the conveyor stopped because the drive reported overcurrent. " * 40
    counter = TokenCounter()
    before = counter.count(text)
    counter.learn(asked(text), "schema", 2 * before)
    assert 2 * before * 0.97 <= counter.count(text) <= 2 * before * 1.1
    counter.learn(asked(text), "schema", before)
    assert counter.count(text) > 1.8 * before
    for _ in range(100):
        counter.learn(asked(text), "schema", before)
    assert before <= counter.count(text) <= 1.1 * before


def test_prose_that_took_little_leaves_room_for_numbers_and_ids() -> None:
    """The window keeps a third of a prompt free, for the reply and for what is counted too low."""
    counter, prose = TokenCounter(), "the bearing was cleaned and greased yesterday, temperature remains high. " * 30
    for _ in range(100):  # as SmolLM2 counts it
        counter.learn(asked(prose), "schema", round(0.66 * TokenCounter().count(prose)))
    dense = {"DB12.DBW4_T1_SP 0.004 17.993 tr_01KBC9XQW4T7HZ2NVR8MEYP5AD": 48}
    for text, real in (REAL | dense).items():
        assert real <= 1.2 * counter.count(text), text


def test_what_one_script_takes_says_nothing_of_another() -> None:
    counter = TokenCounter()
    chinese, english = "三号电机的温度是多少" * 30, "what is the temperature of motor three " * 30
    before = counter.count(english), counter.count(chinese)
    for _ in range(100):  # a vocabulary that has whole Chinese words
        counter.learn(asked(chinese), "schema", len(chinese) * 6 // 10)
    assert counter.count(english) == before[0]
    assert counter.count(chinese) < 0.6 * before[1]
    held = counter.count(english), counter.count(chinese)
    for _ in range(100):
        counter.learn(asked(chinese[:150] + english[:400]), "schema", 120)
    assert (counter.count(english), counter.count(chinese)) == held  # a mixture proves nothing downwards


def test_reports_are_believed_within_bounds_only() -> None:
    text = "the conveyor stopped " * 100
    counter = TokenCounter()
    before = counter.count(text)
    for reported in (0, 1, 99, 10**9, 10**12):
        counter.learn(asked(text), "schema", reported)
    assert counter.count(text) <= 3 * before + 1
    for _ in range(500):
        counter.learn(asked(text), "schema", 101)
    assert counter.count(text) >= 0.4 * before
    counter.learn(asked("short"), "schema", 500)  # the template's share hides the text's
    counter.learn(asked(""), "schema", 500)


def test_a_request_counts_its_schema_where_the_model_reads_it() -> None:
    counter = TokenCounter()
    schema = {"type": "object", "properties": {f"field_{n}": {"type": "integer"} for n in range(20)}}
    request = ModelRequest((Message("system", "You plan."), Message("user", "hello")), 16, schema=schema)
    grammar, tools, text = (counter.request(request, output) for output in ("schema", "tools", "text"))  # type: ignore[arg-type]
    assert grammar < 60 < 200 < tools == text
    assert counter.request(ModelRequest(request.messages, 16), "tools") == grammar


def test_it_is_never_more_than_the_bytes_by_much_and_never_fails() -> None:
    dice = random.Random(5)
    counter = TokenCounter()
    assert counter.count("") == 0
    for _ in range(300):
        text = "".join(
            chr(dice.choice((dice.randrange(128), dice.randrange(0xD800), dice.randrange(0xE000, 0x110000)))) for _ in range(40)
        )
        assert 0 < counter.count(text) <= len(text.encode()) + 1
