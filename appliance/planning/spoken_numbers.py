"""Numbers between speech and digits: "ninety five" -> "95", "百分之八十" -> "百分之80", 150 -> "one hundred fifty".

Matching works on digits on both sides (what was heard, and the names of the plant), so "motor three", "motor 3" and
"Motor 3" are one name. Recognisers need the way back: they know words, not digits.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

NUMBER_LANGUAGES = ("en", "zh")
"""Languages with number words here."""

ONES = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
TEENS = ("ten", "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen")
TENS = ("", "", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
ZH_DIGITS = "零一二三四五六七八九"

_UNITS = {word: n for n, word in enumerate(ONES + TEENS)}
_TENS = {word: n * 10 for n, word in enumerate(TENS) if word}
_SCALES = {"hundred": 100, "thousand": 1000}
_ZH_VALUE = {character: n for n, character in enumerate(ZH_DIGITS)} | {"〇": 0, "幺": 1, "两": 2}  # 幺: 1 read digit by digit
_ZH_SCALES = {"十": 10, "百": 100, "千": 1000}
_ZH_RUN = re.compile(  # whole runs only: 20十 and 一万 are no numbers here, and neither is a part of them
    r"(?<![\d零〇一幺二两三四五六七八九十百千])(负)?"
    r"([零〇一幺二两三四五六七八九十][零〇一幺二两三四五六七八九十百千]*+(?:点[零〇一幺二两三四五六七八九]++)*+)(?![\d万亿])"
)
_DIGITS = re.compile(r"\d+(?:\.\d+)?")
HIGHEST = 9999
"""Largest number that is turned into words."""


def to_digits(text: str, language: str) -> str:
    """Return lower-case ``text`` with its number words written as digits; other words stay as they are.

    A language without number words here comes back unchanged, so that its digits still work.
    """
    if language == "zh":
        return _ZH_RUN.sub(_zh_number, text)
    return " ".join(_english_digits(text.split())) if language == "en" else text


def to_words(number: int, language: str) -> str:
    """Return 0..9999 in words, parted by spaces where the language's recogniser wants words parted.

    Raises:
        ValueError: out of that range, or a language without number words here.
    """
    if not 0 <= number <= HIGHEST:
        raise ValueError(f"{number} is not within 0..{HIGHEST}")
    if language == "en":
        return " ".join(_english_words(number))
    if language == "zh":
        return _zh_words(number)
    raise ValueError(f"no number words for {language}")


def digits_to_words(text: str, language: str) -> str:
    """Return ``text`` with whole numbers written as words, as a recogniser's grammar needs it ("Motor 3" -> "Motor three")."""

    def word(run: re.Match[str]) -> str:
        whole, _, tenths = run[0].partition(".")
        if language not in ("en", "zh") or int(whole) > HIGHEST:
            return run[0]
        spoken = to_words(int(whole), language)
        if tenths and language == "en":
            return " ".join([spoken, "point", *(ONES[int(d)] for d in tenths)])
        return spoken + ("点" + "".join(ZH_DIGITS[int(d)] for d in tenths) if tenths else "")

    return _DIGITS.sub(word, text)


# English --------------------------------------------------------------------------------------------------------------
def _english_digits(words: Sequence[str]) -> list[str]:
    written: list[str] = []
    at = 0
    while at < len(words):
        number, used = _english_number(words, at)
        if not used:
            written.append(words[at])
            at += 1
            continue
        fraction, used_by_fraction = _english_fraction(words, at + used)
        if written and written[-1] == "minus":
            written[-1] = f"-{number}{fraction}"
        else:
            written.append(f"{number}{fraction}")
        at += used + used_by_fraction
    return written


def _english_number(words: Sequence[str], start: int) -> tuple[str, int]:
    """Read one number from ``start``; return its digits and how many words it took (0 when there is none).

    "one fifty" stays two numbers: what is ambiguous is not guessed.
    """
    first = words[start]
    if _DIGITS.fullmatch(first):
        return first, 1
    at = start
    total = group = 0
    room = 1000  # the next part must be smaller than this
    while at < len(words):
        word = words[at]
        if word in ("a", "and"):
            follows = words[at + 1] if at + 1 < len(words) else ""
            is_article = word == "a" and at == start and follows in _SCALES
            is_joint = word == "and" and at > start and words[at - 1] in _SCALES and (follows in _UNITS or follows in _TENS)
            if not (is_article or is_joint):
                break
        elif word in _UNITS and _UNITS[word] < room and (at == start or word != "zero"):
            group += _UNITS[word]
            room = 0 if _UNITS[word] == 0 or _UNITS[word] > 9 or group % 100 > 9 else 1
        elif word in _TENS and room > 10:
            group += _TENS[word]
            room = 10
        elif word == "hundred" and group < 10 and (at == start or words[at - 1] in _UNITS or words[at - 1] == "a"):
            group = max(group, 1) * 100
            room = 100
        elif word == "thousand" and not total and (at == start or group or words[at - 1] == "a"):
            total, group = max(group, 1) * 1000, 0
            room = 1000
        else:
            break
        at += 1
    return str(total + group), at - start


def _english_fraction(words: Sequence[str], start: int) -> tuple[str, int]:
    """Read "point five" after a number."""
    if start >= len(words) or words[start] != "point":
        return "", 0
    digits = ""
    for word in words[start + 1 :]:
        if word not in ONES:
            break
        digits += str(ONES.index(word))
    return (f".{digits}", 1 + len(digits)) if digits else ("", 0)


def _english_words(number: int) -> list[str]:
    thousands, rest = divmod(number, 1000)
    words = [ONES[thousands], "thousand"] if thousands else []
    hundreds, rest = divmod(rest, 100)
    words += [ONES[hundreds], "hundred"] if hundreds else []
    if rest >= 20:
        words.append(TENS[rest // 10])
        rest %= 10
    elif rest >= 10:
        words.append(TEENS[rest - 10])
        rest = 0
    return [*words, ONES[rest]] if rest or not words else words


# Chinese --------------------------------------------------------------------------------------------------------------
def _zh_number(run: re.Match[str]) -> str:
    """Return a run in digits; as it stands if it is no one number (五十五十), since part of a number is another number."""
    whole, *fractions = run[2].split("点")
    number = _zh_whole(whole)
    if number is None or len(fractions) > 1:
        return run[0]
    fraction = "." + "".join(str(_ZH_VALUE[c]) for c in fractions[0]) if fractions else ""
    return f"{'-' if run[1] else ''}{number}{fraction}"


def _zh_whole(run: str) -> str | None:
    """Return the digits of a whole number, None if its parts do not make one: each scale is below the one before it."""
    if not any(c in _ZH_SCALES for c in run):
        return "".join(str(_ZH_VALUE[c]) for c in run)  # read digit by digit
    total, last = 0, HIGHEST + 1  # the scale before
    digit, after_zero = 0, False
    for character in run:
        if scale := _ZH_SCALES.get(character, 0):
            if (not digit and scale != 10) or scale * (10 if after_zero else 1) >= last:
                return None
            total, last = total + (digit or 1) * scale, scale
            digit, after_zero = 0, False
        elif digit or (after_zero and not _ZH_VALUE[character]):
            return None
        elif value := _ZH_VALUE[character]:
            digit = value
        elif last > HIGHEST:
            return None
        else:
            after_zero = True
    if after_zero and (not digit or last == 10):
        return None
    # "一百五" is 150, "一百零五" is 105
    return str(total + digit * (1 if after_zero else last // 10))


def _zh_words(number: int) -> str:
    if number < 10:
        return ZH_DIGITS[number]
    words = ""
    gap = False
    for scale, name in ((1000, "千"), (100, "百"), (10, "十"), (1, "")):
        digit = number // scale % 10
        if digit:
            words += ("零" if gap and words else "") + ZH_DIGITS[digit] + name
        gap = not digit
    return words.removeprefix("一") if 10 <= number < 20 else words
