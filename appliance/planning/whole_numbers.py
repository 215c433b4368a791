"""Whether a number that was understood stands whole in what was said, or is only a piece of it: 50 does in "to 50 percent", but
neither 10 nor 1020 in "to 10/20". Matching looks at text without its marks, and some of them change a number. Pure."""

from __future__ import annotations

import re
import unicodedata

from appliance.planning.canonical_text import canonical, plainly

_KEPT = "ж"
"""Stands for what changes the number beside it: a letter, which canonical text keeps, and of no language here."""

_SMALL = re.compile(r"(?<=\d)\s*[\u00b2\u00b3\u00b9\u2070-\u209c]|[\u00bc-\u00be\u2150-\u215f\u2189]")  # 5², ½
_NUMERAL = r"[\d零〇一二两三四五六七八九十百千]"
_CHANGING = re.compile(
    r"\s*[/\\|~^*×÷=<>≤≥≈±+$€£¥°‰‱]\s*"  # before or behind a number
    r"|\s*[\u2013-\u2015]\s*(?=\d)"
    rf"|(?<={_NUMERAL})(?:\s*[^\w\s.%'-]+\s*|_|\s*%\s*|\s+-\s*|-\s+)(?={_NUMERAL})"  # two numbers, and not one
    r"|(?<!\d)\.(?=\d)|[.,-]{2,}(?=\d)"
)
_GAP = re.compile(r"(?<=\d)\.?\s+(?=\d)")  # where words are not parted
_WHOLE = r"(?<![\w.,'-])-?\d+(?:\.\d+)?(?![\w']|[.,-]\d)"
_WHOLE_ZH = (
    rf"(?<![\da-z.,'{_KEPT}点零〇一二两三四五六七八九十百千万几-])(?<![^百]分之)(?<!负百分之)(?<!{_KEPT}百分之)-?\d+(?:\.\d+)?"
    rf"(?![\da-z'{_KEPT}零〇一二两三四五六七八九十百万亿几多半成倍]|[.,-]\d|千(?![瓦帕米克伏安赫])|点\d|分之)"
)


def whole_number(language: str) -> str:
    """Return a pattern of a number in canonical text that is not a piece of another: of 1e2, 1.2.3 or 10-20 it finds nothing."""
    return _WHOLE_ZH if language == "zh" else _WHOLE


def stands_whole(number: float, text: str, language: str, *, spaced: bool) -> bool:
    """Return whether ``number`` was said, and no mark that changes it stands beside it."""
    marked = unicodedata.normalize("NFKC", _SMALL.sub(_KEPT, plainly(text, language)))
    marked = _CHANGING.sub(_KEPT, marked)
    marked = marked if spaced else _GAP.sub(_KEPT, marked)

    def count(said: str) -> int:
        found = re.findall(whole_number(language), canonical(said, language, spaced=spaced))
        return sum(float(each) == number for each in found)

    return 0 < count(text) == count(marked)
