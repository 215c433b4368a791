"""The part of a prompt that stays the same within a session: the stable tier, and what the session's snapshot holds (A3, L5).

Made once and kept, so that its bytes do not change while a count of tokens is corrected, and so that it costs nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from appliance.contracts.plant import Plant
from appliance.contracts.tool import ToolContract
from appliance.planning.model import plant_names, prompt
from appliance.planning.model.frozen import Knowledge
from appliance.planning.model.model_plan import MOST_STEPS
from appliance.planning.tongue import Tongue

_STABLE_SHARE, _CONTEXT_SHARE = 0.55, 0.15  # of the room at most; what they leave is for the volatile tier
_LONGEST_TOKEN = 10  # characters; a text with more than so many for each token there is room for does not fit
_MOST_KEPT = 64


class TokenScale(Protocol):
    """Whose tokens count: the model used next, or an estimate."""

    @property
    def context_tokens(self) -> int:
        """Tokens of request and reply together."""
        ...

    def count_tokens(self, text: str) -> int:
        """Return how many tokens a text is."""
        ...


@dataclass(frozen=True, slots=True)
class TierShown:
    """One tier: its text and what it takes; ``shortened`` and ``left_out`` count pieces for which there was no room."""

    name: str
    text: str
    tokens: int
    shortened: int = 0
    left_out: int = 0


@dataclass(frozen=True, slots=True)
class Prefix:
    """Both tiers. ``tags`` are the keys that the stable one names; its text is empty when there is no room even for the rules."""

    stable: TierShown
    context: TierShown
    tags: tuple[str, ...]


class Prefixes:
    """Makes them and keeps those made last."""

    def __init__(self, plant: Plant) -> None:
        self._plant = plant
        self._kept: dict[Any, Prefix] = {}

    def of(
        self,
        reading: Sequence[ToolContract],
        tongue: Tongue,
        knowledge: Knowledge,
        room: int,
        scale: TokenScale,
    ) -> Prefix:
        """Return the prefix for an asker's tools, and what they may know, in a room of so many tokens."""
        key = (tuple(each.name for each in reading), tongue.language, knowledge.digest, room)
        known = self._kept.get(key)
        if known is None:
            if len(self._kept) >= _MOST_KEPT:
                self._kept.clear()
            stable, tags = self._stable(reading, tongue, scale, int(room * _STABLE_SHARE))
            shown = prompt.frozen(knowledge.playbooks, knowledge.memories)
            known = Prefix(stable, whole_lines("context", shown, int(room * _CONTEXT_SHARE), scale), tags)
            if stable.text:  # there may be room when less is counted
                self._kept[key] = known
        return known

    def _stable(
        self, reading: Sequence[ToolContract], tongue: Tongue, scale: TokenScale, budget: int
    ) -> tuple[TierShown, tuple[str, ...]]:
        """Return the tier and the keys of the tags it names: all or none, so that it is the same for every sentence."""
        rules = prompt.rules(self._plant.site, MOST_STEPS)
        tags = [plant_names.tag_line(tag, tongue) for tag in self._plant.tags]
        assets = [plant_names.asset_line(asset.id, tongue) for asset in self._plant.assets]
        ways: list[tuple[int, list[str], list[str]]] = [(len(reading), tags, []), (len(reading), [], assets)]
        ways += [(most, [], []) for most in range(len(reading), 0, -1)]
        for most, named, machines in ways:
            text = prompt.stable(rules, reading[:most], named, machines)
            if len(text) <= budget * _LONGEST_TOKEN and (tokens := scale.count_tokens(text)) <= budget:
                left_out = (0 if named else len(tags)) + len(reading) - most
                return TierShown("stable", text, tokens, left_out=left_out), tuple(t.key for t in self._plant.tags if named)
        return TierShown("stable", "", 0), ()


def whole_lines(name: str, lines: Sequence[str], budget: int, scale: TokenScale) -> TierShown:
    """Return as many whole lines as fit, the first ones."""
    kept: list[str] = []
    tokens = 0
    for line in lines:
        taken = scale.count_tokens(line) + 1
        if tokens + taken > budget:
            break
        kept.append(line)
        tokens += taken
    text = "\n".join(kept)
    return TierShown(name, text, scale.count_tokens(text) if text else 0, left_out=len(lines) - len(kept))
