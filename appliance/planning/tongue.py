"""What planning says in one language about one plant: replies and names, values and units."""

from __future__ import annotations

from dataclasses import dataclass

from appliance.contracts.alarm_definition import AlarmDefinition
from appliance.contracts.errors import Malformed
from appliance.contracts.plant import Plant
from appliance.contracts.tag import Tag
from appliance.planning.phrases import Phrases

_ENDS = (".", "!", "?", "。", "！", "？")


@dataclass(frozen=True, slots=True)
class Tongue:
    """One language's phrases with the plant they are about."""

    phrases: Phrases
    plant: Plant

    @property
    def language(self) -> str:
        """Language code."""
        return self.phrases.language

    def reply(self, name: str, **values: str) -> str:
        """Return a reply with its placeholders filled.

        Raises:
            Malformed: no such reply, or a placeholder without a value.
        """
        return self.phrases.reply(name, **values)

    def asset(self, asset: str) -> str:
        """Return the spoken name of an asset."""
        return self.phrases.vocabulary.spoken_asset(asset)

    def tag(self, key: str) -> str:
        """Return the spoken name of a tag, without its asset."""
        return self.phrases.vocabulary.spoken_tag(key)

    def value(self, value: float, tag: Tag, unit: str = "") -> str:
        """Return a value in words, with the tag's decimals and its unit (or the one given)."""
        return self.phrases.vocabulary.spoken_number(value, unit or tag.unit, tag.decimals)

    def unit(self, unit: str) -> str:
        """Return the first word for a unit."""
        return next((word for word, symbol in self.phrases.vocabulary.unit_words if symbol == unit), unit)

    def definition(self, alarm_id: str) -> AlarmDefinition:
        """Return an alarm's definition.

        Raises:
            Malformed: the plant model has no such alarm.
        """
        found = self.plant.alarm_by_id.get(alarm_id)
        if found is None:
            raise Malformed(f"no alarm {alarm_id!r} in the plant model", alarm=alarm_id)
        return found

    def alarm_text(self, alarm: AlarmDefinition) -> str:
        """Return the alarm's text in this language, or in its first one if it has none in this."""
        return alarm.text.get(self.language) or next(iter(alarm.text.values()), alarm.id)

    def sentence(self, text: str) -> str:
        """Return ``text`` ended by the language's full stop."""
        text = text.strip()
        return text if text.endswith(_ENDS) else text + self.phrases.file.full_stop
