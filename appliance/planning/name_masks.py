"""Finds the plant's names in an utterance and puts stand-ins in their place, so that likeness is about what is wanted and not
about which machine. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from appliance.planning.phrases import Phrases
from appliance.planning.vocabulary import canonical

_NUMBER = r"(?<![\d.])-?\d+(?:\.\d+)?(?![\d.])"


@dataclass(frozen=True, slots=True)
class Masked:
    """An utterance with stand-ins. ``named``: kind -> what stood there, as matching sees it."""

    text: str
    named: Mapping[str, str]


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
        unit = "|".join(map(re.escape, units)) or "(?!)"
        self._amounts = re.compile(rf"(?:{ahead})?{_NUMBER}(?:\s*(?:{unit}))?" if ahead else rf"{_NUMBER}(?:\s(?:{unit})(?!\w))?")

    def readings(self, text: str) -> list[Masked]:
        """Return the ways to read an utterance: with all names masked, and with a value's name left as a word, since "running" or
        "load" may be meant as such."""
        form = self._canonical(text)
        named: dict[str, str] = {}
        form = self._masked(self._alarms, "alarm", form, named)
        if "alarm" not in named:
            form = self._masked(self._assets, "asset", form, named)
        left = self._with_amount(form, named)
        tags = self._tags.get(self._asset_of.get(named.get("asset", ""), ""))
        if tags is None or not tags.search(form):
            return [left]
        with_tag = dict(named)
        form = self._masked(tags, "tag", form, with_tag)
        return [self._with_amount(form, with_tag), left]

    def shown(self, example: str) -> str:
        """Return an example as the likeness of utterances is looked at: its ``{asset}`` as the stand-in."""
        plain = example
        for kind, stand_in in self._stand_ins.items():
            plain = plain.replace(f"{{{kind}}}", stand_in)
        return self._canonical(plain)

    def any_of_words(self, words: Iterable[str]) -> re.Pattern[str]:
        """Return a pattern that finds any of these words in what :meth:`readings` return: whole words, where there are spaces."""
        return self._any_of(self._canonical(word) for word in words)

    def _with_amount(self, form: str, named: Mapping[str, str]) -> Masked:
        found = dict(named)
        return Masked(self._canonical(self._masked(self._amounts, "amount", form, found)), found)

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
