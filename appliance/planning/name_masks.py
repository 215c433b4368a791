"""Finds the plant's names in an utterance and puts stand-ins in their place, so that likeness is about what is wanted and not
about which machine. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from appliance.planning.canonical_text import canonical
from appliance.planning.phrase_file import shown
from appliance.planning.phrases import Phrases
from appliance.planning.whole_numbers import whole_number


@dataclass(frozen=True, slots=True)
class Masked:
    """An utterance with stand-ins. ``named``: kind -> what stood there, as matching sees it. ``words``: the same with its numbers
    left, since "no one" has one. ``has_more``: it names another machine or value, or another number, or that number is only a
    piece of what stands there, so that a part would be lost."""

    text: str
    named: Mapping[str, str]
    words: str
    has_more: bool = False


class NameMasks:
    """One language's names of one plant."""

    def __init__(self, phrases: Phrases) -> None:
        words = phrases.vocabulary
        self._phrases = phrases
        self._stand_ins = phrases.file.examples.stand_ins
        self._asset_of = {name.canonical: asset for asset, names in words.assets.items() for name in names}
        self._assets = self._any_of(self._asset_of)
        self._alarms = self._any_of(name.canonical for name in words.alarms.values())
        by_asset: dict[str, list[str]] = {}
        for (asset, name), _ in words.key_of.items():
            by_asset.setdefault(asset, []).append(name)
        self._tags = {asset: self._any_of(names) for asset, names in by_asset.items()}
        units = sorted((self._canonical(word) for word, _ in words.unit_words), key=len, reverse=True)
        ahead = "百分之" if phrases.language == "zh" else ""
        number = whole_number(phrases.language)
        unit = "|".join(map(re.escape, units)) or "(?!)"
        with_unit = rf"{ahead}{number}|{number}(?:{unit})" if ahead else rf"{number}\s(?:{unit})(?!\w)"
        self._amounts = re.compile(with_unit)
        pronoun = r"1(?=[\u3400-\u9fff])" if ahead else r"(?<!\S)1(?!\S)"  # 一下, 一旦, no one: no number is meant
        self._numbers = re.compile(rf"(?!{pronoun}){number}" if ahead else number)
        self._digits = re.compile(rf"(?!{pronoun})\d")

    def readings(self, text: str) -> list[Masked]:
        """Return the ways to read an utterance: with all names masked, and with a value's name left as a word, since "running" or
        "load" may be meant as such."""
        form = self._canonical(text)
        named: dict[str, str] = {}
        form = self._masked(self._alarms, "alarm", form, named)
        if "alarm" not in named:
            form = self._masked(self._assets, "asset", form, named)
        left = self._with_amount(form, named, text)
        tags = self._tags.get(self._asset_of.get(named.get("asset", ""), ""))
        if tags is None or not tags.search(form):
            return [left]
        with_tag = dict(named)
        form = self._masked(tags, "tag", form, with_tag)
        return [self._with_amount(form, with_tag, text, tags), left]

    def shown(self, example: str) -> str:
        """Return an example as the likeness of utterances is looked at: its ``{asset}`` as the stand-in."""
        return shown(example, self._phrases.file)

    def _with_amount(self, form: str, named: Mapping[str, str], text: str, tags: re.Pattern[str] | None = None) -> Masked:
        found = dict(named)
        amounts = self._amounts if self._amounts.search(form) else self._numbers
        masked = self._masked(amounts, "amount", form, found)
        rest = masked
        for kind in found:
            rest = rest.replace(self._stand_ins.get(kind, kind), " ", 1)
        has_more = any(each.search(rest) for each in (self._assets, self._digits, tags) if each is not None)
        number = re.search(r"-?\d+(?:\.\d+)?", found.get("amount", ""))
        has_more = has_more or (number is not None and not self._phrases.says(float(number[0]), text))
        return Masked(self._canonical(masked), found, self._canonical(form), has_more)

    def _masked(self, names: re.Pattern[str], kind: str, form: str, named: dict[str, str]) -> str:
        """Replace the first name of a kind; more of the same stay, and make the utterance unlike every example."""
        found = names.search(form)
        if found is None:
            return form
        named[kind] = found[0].removesuffix("'s")
        return form[: found.start()] + self._stand_ins.get(kind, kind) + form[found.end() :]

    def _canonical(self, text: str) -> str:
        return canonical(text, self._phrases.language, spaced=self._phrases.spaced)

    def _any_of(self, names: Iterable[str]) -> re.Pattern[str]:
        """A pattern of any of these names, the longest first."""
        longest_first = "|".join(map(re.escape, sorted(set(names), key=len, reverse=True))) or "(?!)"
        return re.compile(rf"(?<!\w)(?:{longest_first})(?:'s)?(?!\w)" if self._phrases.spaced else longest_first)
