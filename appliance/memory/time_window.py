"""The stretch of time a question names, in English or Chinese. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime, timedelta

Window = tuple[datetime, datetime]

_COUNTS = {
    "a": 1, "an": 1, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9,
    "ten": 10, "twelve": 12, "couple of": 2, "few": 3,
    "一": 1, "两": 2, "二": 2, "三": 3, "四": 4, "五": 5, "六": 6, "七": 7, "八": 8, "九": 9, "十": 10, "几": 3, "半": 0,
}  # fmt: skip
_UNITS = {
    "minute": timedelta(minutes=1), "hour": timedelta(hours=1), "day": timedelta(days=1), "week": timedelta(weeks=1),
    "month": timedelta(days=30),
    "分钟": timedelta(minutes=1), "小时": timedelta(hours=1), "钟头": timedelta(hours=1), "天": timedelta(days=1),
    "周": timedelta(weeks=1), "星期": timedelta(weeks=1), "月": timedelta(days=30),
}  # fmt: skip
_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_WEEKDAYS_HAN = "一二三四五六日"
_NUMBER = r"(\d{1,3}|an?|one|two|three|four|five|six|seven|eight|nine|ten|twelve|couple of|few)"
_NUMBER_HAN = r"(\d{1,3}|[一二两三四五六七八九十几半])"
_UNIT = r"(minute|hour|day|week|month)s?"
_UNIT_HAN = r"(分钟|小时|钟头|天|周|星期|月)"


def time_window(question: str, now: datetime) -> Window | None:
    """Return [since, until) as far as the question names a time, else None. Days are those of ``now``'s time zone."""
    text = " ".join(question.lower().split())
    for pattern, window in _RULES:
        match = pattern.search(text)
        if match is not None and (found := window(match, now)) is not None:
            return found
    return None


def _midnight(now: datetime, days: int = 0) -> datetime:
    return (now + timedelta(days=days)).replace(hour=0, minute=0, second=0, microsecond=0)


def _days(first: int, after: int) -> Callable[[re.Match[str], datetime], Window]:
    return lambda _, now: (_midnight(now, first), _midnight(now, after))


def _hours(day: int, first: int, after: int) -> Callable[[re.Match[str], datetime], Window]:
    return lambda _, now: (_midnight(now, day) + timedelta(hours=first), _midnight(now, day) + timedelta(hours=after))


def _week(weeks: int) -> Callable[[re.Match[str], datetime], Window]:
    def window(_: re.Match[str], now: datetime) -> Window:
        monday = _midnight(now, -now.weekday() + 7 * weeks)
        return monday, monday + timedelta(weeks=1)

    return window


def _month(months: int) -> Callable[[re.Match[str], datetime], Window]:
    def window(_: re.Match[str], now: datetime) -> Window:
        first = _midnight(now).replace(day=1)
        following = (first + timedelta(days=32)).replace(day=1)
        return (first, following) if months == 0 else ((first - timedelta(days=1)).replace(day=1), first)

    return window


def _span(match: re.Match[str]) -> timedelta:
    count, unit = match[1] or "1", _UNITS[match[2]]
    number = int(count) if count.isdigit() else _COUNTS[count]
    return unit * number if number else unit / 2


def _lately(match: re.Match[str], now: datetime) -> Window:
    return now - _span(match), now + timedelta(seconds=1)


def _ago(match: re.Match[str], now: datetime) -> Window:
    middle, slack = now - _span(match), _UNITS[match[2]] / 2
    if _UNITS[match[2]] >= timedelta(days=1):
        return middle.replace(hour=0, minute=0, second=0, microsecond=0), _midnight(middle, 1)
    return middle - slack, middle + slack


def _weekday(match: re.Match[str], now: datetime) -> Window:
    name = match[1]
    wanted = _WEEKDAYS.index(name) if name in _WEEKDAYS else _WEEKDAYS_HAN.index(name.replace("天", "日"))
    back = (now.weekday() - wanted) % 7
    return _midnight(now, -back), _midnight(now, 1 - back)


def _date(match: re.Match[str], now: datetime) -> Window | None:
    try:
        day = _midnight(now).replace(year=int(match[1]), month=int(match[2]), day=int(match[3]))
    except ValueError:
        return None
    return day, _midnight(day, 1)


def _date_of_year(match: re.Match[str], now: datetime) -> Window | None:
    try:
        day = _midnight(now).replace(month=int(match[1]), day=int(match[2]))
        day = day if day <= now else day.replace(year=day.year - 1)
    except ValueError:
        return None
    return day, _midnight(day, 1)


def _since(match: re.Match[str], now: datetime) -> Window | None:
    hour, minute = int(match[1]), int(match[2] or 0)
    if hour > 23 or minute > 59:
        return None
    start = _midnight(now) + timedelta(hours=hour, minutes=minute)
    return (start if start <= now else start - timedelta(days=1)), now + timedelta(seconds=1)


_RULES: tuple[tuple[re.Pattern[str], Callable[[re.Match[str], datetime], Window | None]], ...] = tuple(
    (re.compile(pattern), window)
    for pattern, window in (
        (r"\b(\d{4})-(\d{1,2})-(\d{1,2})\b", _date),
        (r"(\d{4})年(\d{1,2})月(\d{1,2})[日号]", _date),
        (r"(?<!\d)(\d{1,2})月(\d{1,2})[日号]", _date_of_year),
        (rf"\b(?:last|past|previous)\s+{_NUMBER}\s+{_UNIT}\b", _lately),
        (r"\b(?:last|past)()\s+(minute|hour)\b", _lately),
        (rf"(?:最近|过去|近){_NUMBER_HAN}个?{_UNIT_HAN}", _lately),
        (rf"\b{_NUMBER}\s+{_UNIT}\s+ago\b", _ago),
        (rf"{_NUMBER_HAN}个?{_UNIT_HAN}(?:之|以)?前", _ago),
        (r"\bday before yesterday\b|前天", _days(-2, -1)),
        (r"\blast night\b|昨晚|昨夜", _hours(-1, 18, 30)),
        (r"\byesterday\b|昨天|昨日", _days(-1, 0)),
        (r"\bthis morning\b|今早|今天早上|今天上午", _hours(0, 0, 12)),
        (r"\bthis afternoon\b|今天下午", _hours(0, 12, 18)),
        (r"\b(?:tonight|this evening)\b|今晚|今天晚上", _hours(0, 18, 30)),
        (r"\btoday\b|今天|今日", _days(0, 1)),
        (r"\blast week\b|上个?(?:周|星期)(?![一二三四五六日天])", _week(-1)),
        (r"\bthis week\b|[本这]个?(?:周|星期)(?![一二三四五六日天])", _week(0)),
        (r"\blast month\b|上个?月", _month(-1)),
        (r"\bthis month\b|[本这]个?月", _month(0)),
        (r"\bsince\s+(\d{1,2})(?::(\d{2}))?\b", _since),
        (r"(\d{1,2})点(?:(\d{1,2})分)?(?:以来|之后|以后)", _since),
        (rf"\b(?:on|last|since)\s+({'|'.join(_WEEKDAYS)})\b", _weekday),
        (r"(?:周|星期)([一二三四五六日天])", _weekday),
    )
)
