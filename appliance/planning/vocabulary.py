"""The words of the plant in one language: what assets and tags are called, which go together, what can be set how far."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from appliance.contracts.errors import ConfigError
from appliance.contracts.plant import Plant
from appliance.contracts.tag import DataType, Tag
from appliance.planning.canonical_text import canonical, without_marks
from appliance.planning.phrase_file import Unit
from appliance.planning.spoken_numbers import HIGHEST, digits_to_words

_FILE = "plant.yaml"
_REACH = 2  # numbers up to this many times the highest limit are heard, so that a value beyond it is refused and not misheard


@dataclass(frozen=True, slots=True)
class Name:
    """A spoken name: as written, and as matching sees it."""

    written: str
    canonical: str


@dataclass(frozen=True, slots=True)
class AssetGroup:
    """Assets that have tags of the same names, so that one rule serves them all."""

    assets: tuple[Name, ...]
    tags: tuple[Name, ...]


class Vocabulary:
    """Spoken names of one plant in one language. A tag or asset without a name in it cannot be spoken of in it."""

    def __init__(
        self,
        plant: Plant,
        language: str,
        units: Mapping[str, Unit],
        *,
        spaced: bool,
        playbooks: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        """``playbooks``: what each is called in this language.

        Raises ConfigError: two assets share a name, two tags of one asset do, or a unit that must be said has no words.
        """
        self._plant = plant
        self._language = language
        self._units = units
        self._spaced = spaced
        self.assets: dict[str, tuple[Name, ...]] = {a.id: self._names(a.spoken) for a in plant.assets}
        self.tags: dict[str, tuple[Name, ...]] = {t.key: self._names(t.spoken) for t in plant.tags}
        self.alarms: dict[str, Name] = self._alarm_names()
        self.playbooks: dict[str, tuple[Name, ...]] = {
            playbook: self._names({language: names}) for playbook, names in (playbooks or {}).items()
        }
        self.key_of: dict[tuple[str, str], str] = {}
        self._index_names()
        self._check_units()

    def spoken_asset(self, asset: str) -> str:
        """Return the name to say an asset by."""
        names = self.assets.get(asset)
        return names[0].written if names else asset.replace("_", " ")

    def spoken_playbook(self, playbook: str) -> str:
        """Return the name to say a playbook by."""
        names = self.playbooks.get(playbook)
        return names[0].written if names else playbook.replace("-", " ")

    def spoken_alarm(self, alarm: str) -> str:
        """Return the name to say an alarm by: its text without value and full stop."""
        name = self.alarms.get(alarm)
        return " ".join(name.written.split()).rstrip(".!。！，, ") if name else alarm.replace("_", " ")

    def spoken_tag(self, key: str) -> str:
        """Return the name to say a tag by, without its asset."""
        names = self.tags.get(key)
        return names[0].written if names else key.rpartition(".")[2].replace("_", " ")

    def spoken_number(self, value: float, unit: str, decimals: int) -> str:
        """Return a value with its unit: 100 % -> "100 percent". A unit without words is said as written."""
        number = f"{value:.{decimals}f}"
        if float(number) == 0:
            number = number.removeprefix("-")  # a hair below zero is zero to a listener
        said = self._units.get(unit)
        return said.say.replace("{n}", number) if said else f"{number} {unit}".strip()

    def has_unit(self, unit: str) -> bool:
        """Return whether there are words for a unit."""
        return unit in self._units

    @property
    def settable(self) -> list[Tag]:
        """Writable tags that take a number and have a name."""
        return [t for t in self._plant.tags if t.writable and t.type is not DataType.BOOL and self.tags[t.key]]

    @property
    def amounts(self) -> tuple[int, int]:
        """Lowest and highest whole number worth hearing: well beyond the limits, so that too much is heard as too much."""
        lows = [t.low for t in self.settable if t.low is not None]
        highs = [t.high for t in self.settable if t.high is not None]
        lowest = int(min([0.0, *lows])) * _REACH
        return max(lowest, -HIGHEST), min(int(max([0.0, *highs])) * _REACH, HIGHEST)

    @property
    def has_tenths(self) -> bool:
        """Whether some writable tag is set finer than by whole numbers."""
        return any(t.decimals > 0 for t in self.settable)

    @property
    def unit_words(self) -> list[tuple[str, str]]:
        """(word, unit) of every unit that is known."""
        return [(word, symbol) for symbol, unit in self._units.items() for word in unit.hear]

    @property
    def set_unit_words(self) -> list[str]:
        """Words of the units in which something can be set."""
        used = {t.unit for t in self.settable}
        return [word for symbol, unit in self._units.items() if symbol in used for word in unit.hear]

    def tags_of_kind(self, kind: str) -> list[Tag]:
        """Return the tags a list of that kind is about: ``tags`` measure, ``states`` are on or off, ``writable_tags`` are set."""
        if kind == "writable_tags":
            return self.settable
        return [t for t in self._plant.tags if (t.type is DataType.BOOL) == (kind == "states")]

    def groups(self, kind: str) -> list[AssetGroup]:
        """Return assets grouped by the names of their tags of that kind, in plant order."""
        tags = self.tags_of_kind(kind)
        by_names: dict[tuple[Name, ...], list[Name]] = {}
        for asset in self._plant.assets:
            names = tuple(dict.fromkeys(name for t in tags if t.asset == asset.id for name in self.tags[t.key]))
            if names and self.assets[asset.id]:
                by_names.setdefault(names, []).extend(self.assets[asset.id])
        return [AssetGroup(tuple(assets), names) for names, assets in by_names.items()]

    def said_by_recogniser(self, name: str) -> str:
        """Return a name in the words a recogniser's grammar uses: lower case, no digits, no punctuation."""
        words = digits_to_words(unicodedata.normalize("NFKC", name), self._language).casefold()
        return without_marks(words)

    def _names(self, spoken: Mapping[str, Iterable[str]]) -> tuple[Name, ...]:
        names = {canonical(n, self._language, spaced=self._spaced): n for n in reversed(list(spoken.get(self._language, ())))}
        return tuple(Name(written, form) for form, written in reversed(names.items()) if form)

    def _alarm_names(self) -> dict[str, Name]:
        """An alarm is called by its text. Two of one text cannot be told apart, so neither can be spoken of."""
        texts = {alarm.id: alarm.text.get(self._language, "").replace("{value}", " ") for alarm in self._plant.alarms}
        names = {alarm: found[0] for alarm, text in texts.items() if (found := self._names({self._language: [text]}))}
        known = Counter(name.canonical for name in names.values())
        return {alarm: name for alarm, name in names.items() if known[name.canonical] == 1}

    def _index_names(self) -> None:
        owners: dict[str, str] = {}
        for asset, names in self.assets.items():
            for name in names:
                if (other := owners.setdefault(name.canonical, asset)) != asset:
                    raise self._clash(f"assets.{asset}.spoken.{self._language}", name, other)
        for tag in self._plant.tags:
            for name in self.tags[tag.key]:
                if (known := self.key_of.setdefault((tag.asset, name.canonical), tag.key)) != tag.key:
                    raise self._clash(f"tags.{tag.key}.spoken.{self._language}", name, known)

    def _clash(self, key: str, name: Name, other: str) -> ConfigError:
        return ConfigError(f"{name.written!r} is also a name of {other}", file=_FILE, key=key, cure="Give it another name.")

    def _check_units(self) -> None:
        alarm_tags = {a.tag for a in self._plant.alarms}
        for tag in self._plant.tags:
            if (tag.writable or tag.key in alarm_tags) and tag.unit and tag.unit not in self._units:
                cure = f"Add {tag.unit!r} below `units:` with the words for it, or use one of {', '.join(sorted(self._units))}."
                raise ConfigError(
                    f"the unit {tag.unit!r} of {tag.key} has no words", file=f"{self._language}.yaml", key="units", cure=cure
                )
