"""The form in which planning compares what is said with what is written. Pure."""

from __future__ import annotations

import re
import unicodedata

from appliance.planning.spoken_numbers import to_digits

_PERCENT = {"en": re.compile(r"\s*%"), "zh": re.compile(r"([负-]?\d+(?:\.\d+)?)\s*%")}
_HUNDRED_PERCENT = re.compile("百分之百(?![分零〇一二两三四五六七八九十])")
_MARKS = re.compile(r"(?<!\d)[.,]|[.,](?!\d)|[^\w\s.,'\-]|_|(?<=[^\W\d])-|-(?!\d)")
_SPACES = re.compile(r"\s+")
_THOUSANDS = re.compile(r"(?<![\d.,])\d{1,3}(?:,\d{3})+(?![\d,])")  # 1,000; a full-width comma parts two numbers
_BARE_POINT = re.compile(r"(?<![\da-zA-Z.])\.(?=\d)")  # .5
_MINUS = {"en": ("\u2212", "-"), "zh": (r"\u2212|(?<=[为到成至])[\s:：,，]*-(?=\d)", "负")}
_BELOW_ZERO = re.compile(r"负(?=\d)")


def canonical(text: str, language: str, *, spaced: bool) -> str:
    """Return ``text`` as matching sees it: lower case, no punctuation, numbers as digits; without spaces if not ``spaced``."""
    text = unicodedata.normalize("NFKC", plainly(text, language)).casefold().replace("’", "'")
    if language == "zh":
        text = _HUNDRED_PERCENT.sub("百分之一百", _PERCENT["zh"].sub(r"百分之\1", text))
    else:
        text = _PERCENT["en"].sub(" percent ", text) if language == "en" else text
    text = _MARKS.sub(" ", text).strip()
    form = to_digits(_SPACES.sub(" " if spaced else "", text), language)
    return _BELOW_ZERO.sub("-", form) if language == "zh" else form


def plainly(text: str, language: str) -> str:
    """Return ``text`` with its numbers as they are compared: 1,000 as 1000, .5 as 0.5, a true minus as a plain one."""
    if language not in _MINUS:
        return text
    text = _THOUSANDS.sub(lambda number: number[0].replace(",", ""), _BARE_POINT.sub("0.", text))
    return re.sub(*_MINUS[language], text)


def without_marks(text: str) -> str:
    """Return ``text`` with a space for every mark, and for every gap."""
    return _SPACES.sub(" ", _MARKS.sub(" ", text)).strip()
