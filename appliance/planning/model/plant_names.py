"""The plant's names for a model: what it may call things by. All of them when they are few, else those a sentence is about."""

from __future__ import annotations

from collections.abc import Sequence

from appliance.contracts.tag import DataType, Tag
from appliance.foundation.untrusted import unmarked
from appliance.planning.canonical_text import canonical
from appliance.planning.tongue import Tongue
from appliance.planning.vocabulary import Name

MOST_NAMED = 16
"""Tags named for one sentence about a large plant."""

_LONGEST_LINE = 160


def tag_line(tag: Tag, tongue: Tongue) -> str:
    """Return one tag as a line: its key, what people call it if they have a name for it, unit, limits if it can be set."""
    name = tongue.tag(tag.key) if tongue.phrases.vocabulary.tags[tag.key] else "-"
    named = f"{tongue.asset(tag.asset)} {name}"
    unit = f", {tag.unit}" if tag.unit else ""
    can_be_set = tag.writable and tag.type is not DataType.BOOL and tag.low is not None and tag.high is not None
    limits = f", can be set from {tag.low:g} to {tag.high:g}" if can_be_set else ""
    return unmarked(f"{tag.key}: {named}{unit}{limits}", _LONGEST_LINE)


def asset_line(asset: str, tongue: Tongue) -> str:
    """Return one machine as a line."""
    return unmarked(f"{asset}: {tongue.asset(asset)}", _LONGEST_LINE)


def assets_in(said: str, tongue: Tongue) -> list[str]:
    """Return the machines a sentence names, in plant order."""
    form = _form(said, tongue)
    return [asset.id for asset in tongue.plant.assets if _longest(tongue.phrases.vocabulary.assets[asset.id], form)]


def tags_about(said: str, tongue: Tongue) -> list[Tag]:
    """Return the tags a sentence may be about, likeliest first: of a machine it names, or of a quantity it names."""
    form, vocabulary = _form(said, tongue), tongue.phrases.vocabulary
    machine = {asset.id: _longest(vocabulary.assets[asset.id], form) for asset in tongue.plant.assets}
    machines_named = any(machine.values())
    ranked: list[tuple[int, int, Tag]] = []
    for position, tag in enumerate(tongue.plant.tags):
        quantity = _longest(vocabulary.tags[tag.key], form)
        if machine[tag.asset] or (quantity and not machines_named):
            ranked.append((-(machine[tag.asset] + quantity), position, tag))
    return [tag for _, _, tag in sorted(ranked, key=lambda each: each[:2])][:MOST_NAMED]


def _form(said: str, tongue: Tongue) -> str:
    form = canonical(said, tongue.language, spaced=tongue.phrases.spaced)
    return f" {form} " if tongue.phrases.spaced else form


def _longest(names: Sequence[Name], form: str) -> int:
    """Return the length of the longest name the sentence holds, 0 if it holds none. Where words are parted, whole words only."""
    spaced = form.startswith(" ")
    return max((len(n.canonical) for n in names if (f" {n.canonical} " if spaced else n.canonical) in form), default=0)
