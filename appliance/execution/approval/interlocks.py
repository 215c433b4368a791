"""Interlocks: what has to hold of the machine this very moment, by live tags, before one of its tags is written (X5, F4).

A value that is not good, older than the rule allows, or a number that an enumeration has no name for permits nothing: what is not
known to hold does not hold.
In: a tag's key and the field. Out: nothing, or Refused with the sentence to say. This is no safety system: emergency stops and
guards stay hard-wired.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from appliance.contracts.clock import Clock
from appliance.contracts.errors import Malformed, Refused
from appliance.contracts.interlock import holds, tags_in
from appliance.contracts.named_value import states_of
from appliance.contracts.plant import Plant
from appliance.contracts.ports import FieldBus, Wording
from appliance.contracts.reading import Quality, Reading
from appliance.execution.approval.settings import ApprovalSettings, InterlockRule, named
from appliance.execution.quantity import quantity_of
from appliance.foundation.sentence import capital


@dataclass(frozen=True, slots=True)
class Interlocks:
    """Judges the interlocks of tags by what the field shows now."""

    settings: ApprovalSettings
    plant: Plant
    bus: FieldBus
    wording: Wording
    clock: Clock

    def of(self, key: str) -> list[InterlockRule]:
        """Return the interlocks of a tag, of all rules that match it."""
        return [interlock for rule in self.settings.writes_of(key) for interlock in rule.interlocks]

    async def require(self, key: str, language: str) -> None:
        """Check every interlock of a tag with values read now.

        Raises:
            Refused: one does not hold, or cannot be judged since a value is not readable or too old; facts ``interlock`` and
                ``tags``.
        """
        rules = self.of(key)
        if not rules:
            return
        readings = await self._read(rules)
        for rule in rules:
            why = self._why_not(rule, readings, language)
            if why:
                raise Refused(why, tag=key, interlock=rule.require, tags=sorted(tags_in(rule.expression)))

    async def standing(self, key: str, language: str) -> list[Mapping[str, Any]]:
        """Return each interlock of a tag as it stands now: ``{require, holds, why}``."""
        rules = self.of(key)
        readings = await self._read(rules)
        whys = [self._why_not(rule, readings, language) for rule in rules]
        return [{"require": rule.require, "holds": not why, "why": why} for rule, why in zip(rules, whys, strict=True)]

    async def _read(self, rules: Sequence[InterlockRule]) -> Mapping[str, Reading]:
        keys = sorted({key for rule in rules for key in tags_in(rule.expression)})
        return await self.bus.read(keys) if keys else {}

    def _why_not(self, rule: InterlockRule, readings: Mapping[str, Reading], language: str) -> str:
        """Return why a rule does not permit a write, as a sentence; empty when it does."""
        keys = sorted(tags_in(rule.expression))
        for key in keys:
            if not self._is_fresh(readings[key], rule.fresh_s):
                return self._unknown(key, readings[key], language)
        values = {key: value for key in keys if (value := readings[key].value) is not None}
        tags = self.plant.tag_by_key
        for key, value in values.items():
            if states_of(tags[key], value) == ():
                told = self.wording.reply("interlock_no_state", language, asset=tags[key].asset, quantity=key, value=str(value))
                return capital(told)
        try:
            if holds(rule.expression, values, tags):
                return ""
        except Malformed as error:
            return self.wording.reply("interlock_unjudged", language, why=error.message)
        if rule.why:
            return named(rule.why, language)
        shown = [self._shown(key, readings[key], language) for key in keys]
        return self.wording.reply("interlock_not_met", language, state=" ".join(shown))

    def _is_fresh(self, reading: Reading, fresh_s: float) -> bool:
        if reading.quality is not Quality.GOOD or reading.value is None:
            return False
        if isinstance(reading.value, float) and not math.isfinite(reading.value):
            return False
        age_s = reading.age_s(self.clock)
        return age_s is not None and age_s <= fresh_s

    def _unknown(self, key: str, reading: Reading, language: str) -> str:
        """Say which tag is not known well enough, and how old what is known of it is."""
        names = {"asset": self.plant.tag_by_key[key].asset, "quantity": key}
        age_s = reading.age_s(self.clock)
        if reading.quality is Quality.BAD or reading.value is None or age_s is None:
            return capital(self.wording.reply("interlock_unreadable", language, **names))
        age = {"value": round(age_s), "unit": "s", "decimals": 0}
        return capital(self.wording.reply("interlock_stale", language, **names, age=age))

    def _shown(self, key: str, reading: Reading, language: str) -> str:
        tag = self.plant.tag_by_key[key]
        value = quantity_of(reading, tag, self.clock).model_dump(mode="json")
        return capital(self.wording.reply("tag_value", language, asset=tag.asset, quantity=key, value=value))
