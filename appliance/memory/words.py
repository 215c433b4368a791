"""Text as the memory room compares it: words, pairs of Han characters, codes, polarity."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from appliance.foundation.untrusted import clean

_HAN = "\u3400-\u4dbf\u4e00-\u9fff"
_WORD = re.compile(rf"[{_HAN}]+|[^\W_{_HAN}]+")
_CODE = re.compile(r"(?<![a-z0-9])([a-z]{1,4})-?(\d{2,5})(?![a-z0-9])")
_NUMBER = re.compile(r"\d+")
_TRAILING_NUMBER = re.compile(r"[\W_]*\d+$")
_SEARCHED_FACTS = ("cause", "remedy")
_LONGEST_RECALLED = 100_000  # characters: the longest text a memory may be configured to hold
_QUOTE_HAN_CHARS, _QUOTE_CHARS = 12, 32  # shorter texts recur by themselves in a plant that speaks in templates

_STOP_WORDS = """
a an and are as at be by can could did do does for from had has have he her his how i if in is it its me my no not of on or our
please she should show tell than that the their them then there they this to us was we were what when where which who why will
with would you your
"""
STOP_WORDS = frozenset(_STOP_WORDS.split())
"""English words that say nothing about which memory is meant."""

_POLAR_WORDS = """
accepted answered cleared closed confirmed decreased denied disabled enabled failed falling fell high increased lost low no
normal not off offline online open opened raised refused rejected restored resumed rising rose started stopped succeeded yes
"""
_POLAR = frozenset(_POLAR_WORDS.split())
_POLAR_HAN = (
    "不",
    "未",
    "没",
    "无",
    "高",
    "低",
    "升",
    "降",
    "正常",
    "异常",
    "解除",
    "恢复",
    "启动",
    "停止",
    "打开",
    "关闭",
    "确认",
    "拒绝",
    "取消",
)


def words(text: str) -> list[str]:
    """Return the words of a text, folded: NFKC, lower case, runs of Han characters as overlapping pairs."""
    found: list[str] = []
    for run in _WORD.findall(unicodedata.normalize("NFKC", text).lower()):
        if run[0] >= "\u3400" and len(run) > 1 and re.match(rf"[{_HAN}]", run):
            found.extend(run[i : i + 2] for i in range(len(run) - 1))
        else:
            found.append(run)
    return found


def full_text(text: str, asset: str, fault: str) -> str:
    """Return what the full-text index holds of a memory."""
    return " ".join(words(f"{text} {asset} {fault}"))


def searchable(text: str, facts: Mapping[str, Any]) -> str:
    """Return the text a memory is found by: its own and the cause and remedy among its facts."""
    parts = [text, *(str(facts[name]) for name in _SEARCHED_FACTS if facts.get(name))]
    return " ".join(parts)


def codes(text: str) -> frozenset[str]:
    """Return fault codes like ``E-104`` or ``F0021``, folded to ``e104``. They name one thing exactly."""
    return frozenset(a + b for a, b in _CODE.findall(unicodedata.normalize("NFKC", text).lower()))


@lru_cache(maxsize=1024)
def folded(text: str) -> str:
    """Return the text with everything but its words gone, for comparison."""
    return " ".join(_WORD.findall(unicodedata.normalize("NFKC", text).lower()))


def words_digest(text: str) -> str:
    """Return SHA-256 (hex) of the folded text."""
    return hashlib.sha256(folded(text).encode()).hexdigest()


def polarity(text: str) -> frozenset[str]:
    """Return the words that turn a statement round. Texts that differ in one never say the same, however close they look:
    "alarm raised" and "alarm cleared" have cosine 0.97 in the default encoder."""
    low = text.lower()
    return frozenset(w for w in words(text) if w in _POLAR) | frozenset(w for w in _POLAR_HAN if w in low)


def overlap(one: str, other: str) -> float:
    """Return the share of common words (Jaccard), numbers left out: 0..1."""
    a = {w for w in words(one) if not _NUMBER.fullmatch(w)}
    b = {w for w in words(other) if not _NUMBER.fullmatch(w)}
    return len(a & b) / len(a | b) if a | b else 1.0


def contains_quote(text: str, quoted: str) -> bool:
    """Tell whether ``text`` holds the whole of ``quoted``, which is long enough not to recur by chance."""
    inner = folded(quoted)
    shortest = _QUOTE_HAN_CHARS if re.search(rf"[{_HAN}]", inner) else _QUOTE_CHARS
    return len(inner) >= shortest and inner in folded(text)


def asset_kind(asset: str) -> str:
    """Return the kind of machine an asset id names: ``motor_3`` is a ``motor``."""
    return _TRAILING_NUMBER.sub("", asset) or asset


def plain(text: str) -> str:
    """Return recalled text as data: one line, no control and no invisible characters, so nothing hides in it."""
    return clean(text, _LONGEST_RECALLED)
