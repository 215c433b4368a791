"""The last look at a text before it is rendered: sentences an engine can say, or a refusal.

The core words numbers and units; this is the net under it, for texts that come from elsewhere (``floorhand speak``, playbooks).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from decimal import Decimal

from appliance.contracts.errors import Malformed

_LONGEST = 2_000  # characters: two minutes of speech
_LONGEST_SENTENCE = 250  # characters: longer ones take so long to render that there is a gap
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|(?<=[。！？；])|\n+")
_CLAUSE_END = re.compile(r"(?<=[,;:])\s+|(?<=[，、：])")
_SCIENTIFIC = re.compile(r"(?<![\w.])([+-]?\d+(?:\.\d+)?)[eE]([+-]?\d{1,2})(?!\w)")
_ISO_DATE = re.compile(r"\b(\d{4})-(\d{2})-(\d{2})\b")
_MONEY = re.compile(r"([$€£¥])\s?(\d[\d,]*(?:\.\d+)?)")

_UNITS: Mapping[str, Mapping[str, str]] = {
    "en": {
        "°C": "degrees Celsius", "°F": "degrees Fahrenheit", "kPa": "kilopascals", "MPa": "megapascals", "kW": "kilowatts",
        "kWh": "kilowatt hours", "Hz": "hertz", "rpm": "revolutions per minute", "mm/s": "millimeters per second",
        "m/s": "meters per second", "l/min": "liters per minute", "m3/h": "cubic meters per hour", "%": "percent",
        "mm": "millimeters", "mA": "milliamperes",
    },
    "zh": {
        "°C": "摄氏度", "kPa": "千帕", "MPa": "兆帕", "kW": "千瓦", "kWh": "千瓦时", "Hz": "赫兹", "rpm": "转每分",
        "mm/s": "毫米每秒", "m/s": "米每秒", "l/min": "升每分", "m3/h": "立方米每小时", "mm": "毫米", "mA": "毫安",
    },
}  # fmt: skip
_CURRENCY: Mapping[str, str] = {"$": "dollars", "€": "euros", "£": "pounds", "¥": "yuan"}
_MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December",
)  # fmt: skip
_OWN_SCRIPTS: Mapping[str, tuple[str, ...]] = {
    "zh": ("CJK", "LATIN"),
    "ko": ("HANGUL", "CJK", "LATIN"),
    "ja": ("HIRAGANA", "KATAKANA", "CJK", "LATIN"),
    "ru": ("CYRILLIC", "LATIN"),
}
_LATIN_ONLY = ("LATIN",)


def sentences(text: str, language: str) -> list[str]:
    """Return what to render, sentence by sentence; empty when there is nothing in it to say ("", "...", NUL).

    Raises:
        Malformed: too long, or all of it is in a script that a voice of this language cannot read.
    """
    if len(text) > _LONGEST:
        raise Malformed(f"{len(text)} characters are too many to say; {_LONGEST} is the most")
    plain = unicodedata.normalize("NFC", text)
    plain = "".join(" " if unicodedata.category(c) in ("Cc", "Cf", "Zl", "Zp") and c != "\n" else c for c in plain)
    if not _is_sayable(plain):
        return []
    readable = _in_own_script(plain, language)
    if any(map(str.isalpha, plain)) and not any(map(str.isalpha, readable)):
        raise Malformed(f"a voice of {language} cannot read this script")
    worded = _worded(readable, language)
    return [part for sentence in _SENTENCE_END.split(worded) for part in _parts(sentence.strip()) if _is_sayable(part)]


def _is_sayable(text: str) -> bool:
    return any(c.isalnum() for c in text)


def _in_own_script(text: str, language: str) -> str:
    """Leave out letters the voice would spell as “Chinese letter, Chinese letter”."""
    own = _OWN_SCRIPTS.get(language, _LATIN_ONLY)
    return "".join(
        c if not c.isalpha() or unicodedata.name(c, "").startswith((*own, "FULLWIDTH", "GREEK")) else " " for c in text
    )


def _worded(text: str, language: str) -> str:
    text = _SCIENTIFIC.sub(lambda m: f"{Decimal(m[0]):f}", text)
    if language == "en":
        text = _ISO_DATE.sub(lambda m: _english_date(m[1], m[2], m[3], m[0]), text)
        text = _MONEY.sub(lambda m: f"{m[2].replace(',', '')} {_CURRENCY[m[1]]}", text)
    for unit, words in sorted(_UNITS.get(language, {}).items(), key=lambda pair: -len(pair[0])):
        text = re.sub(rf"(?<=\d)\s?{re.escape(unit)}(?![\w/])", f" {words}", text)
    return re.sub(r"[ \t]+", " ", text)


def _english_date(year: str, month: str, day: str, as_written: str) -> str:
    return f"{_MONTHS[int(month) - 1]} {int(day)}, {year}" if 1 <= int(month) <= 12 else as_written


def _parts(sentence: str) -> list[str]:
    """Cut a sentence that is too long at its clauses, and at words when it has none."""
    if len(sentence) <= _LONGEST_SENTENCE:
        return [sentence]
    parts = [""]
    for clause in _CLAUSE_END.split(sentence):
        for piece in [clause] if len(clause) <= _LONGEST_SENTENCE else clause.split():
            if len(parts[-1]) + len(piece) >= _LONGEST_SENTENCE:
                parts.append("")
            parts[-1] = f"{parts[-1]} {piece[:_LONGEST_SENTENCE]}".strip()
    return parts
