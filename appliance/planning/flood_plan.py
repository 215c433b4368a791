"""What is told of a flood: its number, the first-out, priorities from the most urgent down, areas. Never over 15 s of speech.

Nobody remembers more than that beside a machine. What does not fit is left out, areas first.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping

from appliance.contracts.alarm import Alarm
from appliance.contracts.alarm_definition import Priority
from appliance.contracts.flood import FloodNews, FloodSummary
from appliance.contracts.plan import Plan
from appliance.planning.alarm_plan import text_of
from appliance.planning.answers import say
from appliance.planning.replies import REPLIES
from appliance.planning.spoken_numbers import digits_to_words, to_digits
from appliance.planning.tongue import Tongue

LONGEST_S = 15.0  # what a worker still takes in; the summary of 500 alarms must be shorter
_RESERVE_S = 0.5
_MOST_AREAS = 3
_LONGEST_FIRST_S = 4.5  # of the first-out's own text; a longer one is told by its machine alone,
_SHORTEST_FIRST_S = 2.0  # whose name is cut to this if nothing else helps
_URGENT_FIRST = (Priority.CRITICAL, Priority.HIGH, Priority.MEDIUM, Priority.LOW)

# espeak-ng as it is run here is the slowest: Mandarin, and letters of other languages once numbers are words. Piper is quicker.
_CHARACTERS_PER_S = {"zh": 2.8}
_LATIN_PER_S = 14.0
_STOP_S = 0.3  # pause at the end of a sentence
_STOPS = ".!?。！？"


def plan_for(news: FloodNews, flood: FloodSummary, tongue: Tongue) -> Plan:
    """Return the plan that says it: one step."""
    text = said_of(news, flood, tongue).replace("{", "{{").replace("}", "}}")
    return Plan("alarm_flood", f"phrase:flood_{news}", (say(text, id="announce"),))


def said_of(news: FloodNews, flood: FloodSummary, tongue: Tongue) -> str:
    """Return the words, as many as fit."""
    return next(text for text in _versions(news, flood, tongue) if said_s(text, tongue.language) <= LONGEST_S - _RESERVE_S)


def said_s(text: str, language: str) -> float:
    """Return for how long a text is spoken, in s, rather too long than too short."""
    words = digits_to_words(text, language)
    wide = sum(ord(character) > 0x2E80 for character in words)
    stops = sum(character in _STOPS for character in words)
    wide += sum(character.isdigit() for character in words) * 2  # a number beyond words
    return wide / _CHARACTERS_PER_S.get(language, 4.0) + (len(words) - wide) / _LATIN_PER_S + stops * _STOP_S


def _versions(news: FloodNews, flood: FloodSummary, tongue: Tongue) -> Iterator[str]:
    """Yield what could be said, the fullest first. The last one is short whatever the plant calls its machines."""
    counts = {"count": str(flood.count), "active": str(flood.active), "unacknowledged": str(flood.unacknowledged)}
    is_now = news in (FloodNews.OVER, FloodNews.AGAIN)
    by_priority = flood.active_by_priority if is_now else flood.by_priority
    by_asset = flood.active_by_asset if is_now else flood.by_asset
    reply = f"flood_{news}"
    if news is FloodNews.OVER and not flood.active:
        reply = "flood_over_calm"
    elif news is FloodNews.OPENED and flood.is_found:
        reply = "flood_found"  # in which order they came nobody knows: there is no first-out
    takes = REPLIES[reply]
    tails = [(area, _priorities(by_priority, tongue)) for area in _areas(by_asset, tongue)]
    tails += [("", _priorities(by_priority, tongue, most=1)), ("", "")]
    for first, (area, priority) in itertools.product(_firsts(flood.first, tongue), tails):
        parts = counts | {"first": first, "areas": area, "priorities": priority}
        yield _whole(tongue.reply(reply, **{name: value for name, value in parts.items() if name in takes}), tongue)


def _whole(told: str, tongue: Tongue) -> str:
    """Take out the full stops of parts that were left out."""
    stop = tongue.sentence("")
    for lone in (f"{stop} {stop}", stop * 2):
        while lone in told:
            told = told.replace(lone, stop)
    return told


def _priorities(counts: Mapping[str, int], tongue: Tongue, most: int = 2) -> str:
    """Say the ``most`` most urgent priorities there are, and the others together; a single other one by its name."""
    there = [(priority, counts[priority]) for priority in _URGENT_FIRST if counts.get(priority)]
    shown = there if len(there) <= most + 1 else there[:most]
    parts = [tongue.reply(f"flood_{priority}", count=str(number)) for priority, number in shown]
    lower = sum(number for _, number in there[len(shown) :])
    return _list([*parts, tongue.reply("flood_lower", count=str(lower))] if lower else parts, tongue)


def _areas(by_asset: Mapping[str, int], tongue: Tongue) -> Iterator[str]:
    """Yield the areas with the most alarms, fewer each time, at last none."""
    counts: Counter[str] = Counter()
    for asset, number in by_asset.items():
        known = tongue.plant.asset_by_id.get(asset)
        counts[known.area if known else asset] += number
    names = [area.replace("_", " ") for area, _ in counts.most_common()]
    for most in range(min(_MOST_AREAS, len(names)), 0, -1):
        others = len(names) - most
        told = _list(names[:most], tongue)
        more = tongue.reply("flood_more_areas", areas=told, count=str(others))
        yield more if others else tongue.reply("flood_areas", areas=told)
    yield ""


def _firsts(first: Alarm, tongue: Tongue) -> Iterator[str]:
    """Yield how the first-out can be told: its text with its machine, the machine alone, at last the beginning of its name."""
    asset = tongue.asset(first.asset) if first.asset in tongue.plant.asset_by_id else first.asset.replace("_", " ")
    text = text_of(first, tongue)
    is_named = to_digits(asset.lower(), tongue.language) in to_digits(text.lower(), tongue.language)
    whole = text if is_named else _list([text, asset], tongue)
    if said_s(whole, tongue.language) <= _LONGEST_FIRST_S:
        yield whole
    yield asset
    yield next(cut for end in range(len(asset), 0, -1) if said_s(cut := asset[:end], tongue.language) <= _SHORTEST_FIRST_S)


def _list(parts: list[str], tongue: Tongue) -> str:
    return ("，" if tongue.language == "zh" else ", ").join(parts)
