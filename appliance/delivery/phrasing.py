"""Facts into words: numbers, units, qualities, durations, lists and names, as people say them. Pure.

Implements ``Wording``. Digits stay digits, because synthesisers read "94.2" and "80" well; signs, units and exponents, which
they read badly, become words. What has no words in a language is refused here rather than mumbled at the machine.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from appliance.contracts.errors import Malformed
from appliance.contracts.plant import Plant
from appliance.contracts.reading import Quality
from appliance.delivery.chinese import CHINESE
from appliance.delivery.english import ENGLISH
from appliance.delivery.tongue import Tongue
from appliance.foundation.untrusted import clean

TONGUES: Mapping[str, Tongue] = {"en": ENGLISH, "zh": CHINESE}

_PLACE = re.compile(r"\{(\w+)\}")
_MOST_DECIMALS = 3  # of a number nobody gave decimals for; more digits are not followed by a listener
_LARGEST_IN_DIGITS = 1e12  # beyond, digits are not followed by a listener and are said as a power of ten
_LONGEST_SPOKEN = 4_000  # characters of a text among the words; what is to be said at once may be no longer
_SPOKEN_AS_DURATION_S = 120  # from here on seconds are said as minutes and seconds


class Phrasing:
    """Words for facts, in every language that has a table and replies."""

    def __init__(self, replies: Mapping[str, Mapping[str, str]], plant: Plant) -> None:
        """``replies``: language -> name -> sentence with ``{places}``. ``plant`` gives tags and assets their spoken names."""
        self._replies = replies
        self._names: dict[str, Mapping[str, Sequence[str]]] = {tag.key: tag.spoken for tag in plant.tags}
        self._names |= {asset.id: asset.spoken for asset in plant.assets}
        self._bare = {key: key.rpartition(".")[2].replace("_", " ") for key in self._names}  # of what has no spoken name

    def spoken(self, value: Any, language: str) -> str:
        """Say a value: text, number, truth, quantity, list, or the key of a tag or asset.

        Raises:
            Malformed: the language has no table, a unit has no words, or it is nothing that can be said.
        """
        tongue = _tongue(language)
        match value:
            case None:
                return tongue.unknown
            case bool():
                return tongue.yes if value else tongue.no
            case int() | float():
                return said_number(value, None, tongue)
            case str():
                return self._named(value, language)
            case Mapping() if "value" in value:
                return said_quantity(value, tongue)
            case list() | tuple():
                return _list([self.spoken(item, language) for item in value], tongue)
            case _:
                raise Malformed(f"a {type(value).__name__} cannot be said", language=language)

    def reply(self, name: str, language: str, **values: Any) -> str:
        """Return the sentence ``name`` with its places filled by spoken values. Braces in a value stay what they are.

        Raises:
            Malformed: no such sentence in this language, or it has a place nothing was given for.
        """
        sentence = self._replies.get(language, {}).get(name)
        if sentence is None:
            raise Malformed(f"there is no reply {name} in {language}", name=name, language=language)

        def fill(place: re.Match[str]) -> str:
            if place[1] not in values:
                raise Malformed(f"reply {name} has a place {{{place[1]}}} that nothing was given for", name=name)
            return self.spoken(values[place[1]], language)

        return _PLACE.sub(fill, sentence)

    def _named(self, text: str, language: str) -> str:
        names = self._names.get(text, {}).get(language)
        return names[0] if names else self._bare.get(text) or _one_line(text)


def said_quantity(quantity: Mapping[str, Any], tongue: Tongue) -> str:
    """Say ``{value, unit, decimals, quality, age_s}``; only ``value`` must be there.

    A stale value is said to be one, with its age; a bad one is never a number.

    Raises:
        Malformed: the unit has no words.
    """
    value, quality = quantity["value"], quantity.get("quality", Quality.GOOD)
    if value is None or quality == Quality.BAD or (isinstance(value, float) and not math.isfinite(value)):
        return tongue.bad
    said = _said_measure(value, str(quantity.get("unit") or ""), quantity.get("decimals"), tongue)
    if quality != Quality.STALE:
        return said
    age_s = quantity.get("age_s")
    if age_s is None:
        return tongue.stale_ageless.format(value=said)
    return tongue.stale.format(value=said, age=said_duration(age_s, tongue))


def said_duration(seconds: float, tongue: Tongue) -> str:
    """Say a duration with its two largest parts: 14 seconds; 2 minutes 5 seconds; 3 hours 10 minutes; 2 days 4 hours."""
    whole = max(0, round(seconds))
    minutes, rest_s = divmod(whole, 60)
    hours, rest_min = divmod(minutes, 60)
    days, rest_h = divmod(hours, 24)
    parts = [("d", days), ("h", rest_h), ("min", rest_min), ("s", rest_s)]
    first = next((i for i, (_, count) in enumerate(parts) if count), len(parts) - 1)
    told = [(unit, count) for unit, count in parts[first : first + 2] if count] or [("s", 0)]
    return tongue.between_durations.join(_with_unit(str(count), tongue.durations[unit]) for unit, count in told)


def said_number(value: float, decimals: int | None, tongue: Tongue) -> str:
    """Say a number with ``decimals`` digits after the point, or with as many as it needs, at most three."""
    if isinstance(value, float) and not math.isfinite(value):
        return tongue.bad
    if abs(value) >= _LARGEST_IN_DIGITS:
        power = math.floor(math.log10(abs(value)))
        return tongue.power.format(said_number(round(value / 10.0**power, 1), None, tongue), power)
    if decimals is None:
        text = str(value) if isinstance(value, int) else f"{value:.{_MOST_DECIMALS}f}".rstrip("0").rstrip(".")
        if value and float(text) == 0:
            return tongue.nearly_zero
    else:
        text = f"{value:.{decimals}f}"
    if not text.startswith("-"):
        return text
    return text[1:] if float(text) == 0 else tongue.minus + text[1:]


def _said_measure(value: Any, unit: str, decimals: int | None, tongue: Tongue) -> str:
    if isinstance(value, bool):
        return tongue.on if value else tongue.off
    if isinstance(value, str):
        return _one_line(value)
    patterns = tongue.units.get(unit)
    if patterns is None:
        raise Malformed(f"the unit {unit} has no words", unit=unit)
    if unit == "s" and abs(value) >= _SPOKEN_AS_DURATION_S and not decimals:
        return (tongue.minus if value < 0 else "") + said_duration(abs(value), tongue)
    return _with_unit(said_number(value, decimals, tongue), patterns)


def _with_unit(number: str, patterns: tuple[str, str]) -> str:
    one, many = patterns
    return (one if number == "1" else many).format(number)


def _list(words: Sequence[str], tongue: Tongue) -> str:
    if len(words) < 2:
        return "".join(words)
    return tongue.comma.join(words[:-1]) + tongue.final_and + words[-1]


def _one_line(text: str) -> str:
    """Return the text without what cannot be seen: synthesisers choke on it, and others may have written the text."""
    return clean(text, _LONGEST_SPOKEN)


def _tongue(language: str) -> Tongue:
    tongue = TONGUES.get(language)
    if tongue is None:
        raise Malformed(f"there are no words for numbers in {language}", language=language)
    return tongue
