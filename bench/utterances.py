"""Sentences people could say: the phrase set's own templates, said in every way they allow, about a plant's own names."""

from __future__ import annotations

import random
from collections.abc import Iterator

from appliance.contracts.plant import Plant
from appliance.planning.expressions import Choice, Expression, Sequence, Use, Word
from appliance.planning.phrases import Phrasebook, Phrases
from appliance.planning.templates import parsed

_UNKNOWN = {  # one in so many is nothing the phrases know, as on any floor
    "en": "would you mind bringing me a cup of coffee from the kitchen",
    "zh": "请你给我从厨房拿一杯咖啡来",
}
_UNKNOWN_EVERY = 20


def utterances(book: Phrasebook, plant: Plant, count: int, seed: int) -> Iterator[tuple[str, str]]:
    """Yield ``(sentence, language)``, languages in turn, intents evenly; the same ones for the same seed."""
    chance = random.Random(seed)
    sayers = [_Sayer(book.phrases(language), plant, chance) for language in book.languages]
    for number in range(count):
        sayer = sayers[number % len(sayers)]
        is_unknown = number % _UNKNOWN_EVERY == 0
        yield _UNKNOWN[sayer.language] if is_unknown else sayer.sentence(), sayer.language


class _Sayer:
    """Says templates of one language, each about one tag of the plant and its asset."""

    def __init__(self, phrases: Phrases, plant: Plant, chance: random.Random) -> None:
        self.language = phrases.language
        self._phrases = phrases
        self._chance = chance
        self._tags = plant.tags
        self._settable = [tag for tag in plant.tags if tag.writable]

    def sentence(self) -> str:
        """Return a sentence of an intent that is taken at random, as are the words where there is a choice."""
        chance, file = self._chance, self._phrases.file
        intent = chance.choice(sorted(file.intents))
        template = chance.choice([text for block in file.intents[intent].data for text in block.sentences])
        is_setting = "setting" in template or "setpoint" in template
        tag = chance.choice(self._settable if is_setting else self._tags)
        vocabulary = self._phrases.vocabulary
        names = {"asset": vocabulary.spoken_asset(tag.asset), "amount": str(chance.randint(0, 100))}
        names |= dict.fromkeys(("quantity", "setting"), vocabulary.spoken_tag(tag.key))
        names["unit"] = vocabulary.set_unit_words[0]
        return (" " if self._phrases.spaced else "").join(self._said(self._parsed(template), names))

    def _parsed(self, template: str) -> Expression:
        return parsed(template, self._phrases.path, "sentence")

    def _said(self, expression: Expression, names: dict[str, str]) -> list[str]:
        match expression:
            case Word(text):
                return [text]
            case Choice(options):
                return self._said(self._chance.choice(options), names)
            case Sequence(parts):
                return [word for part in parts for word in self._said(part, names)]
            case Use(name, is_list=True):
                return [names[name]] if name in names else self._of_list(name, names)
            case Use(name):
                return self._said(self._parsed(self._phrases.file.expansion_rules[name]), names)

    def _of_list(self, name: str, names: dict[str, str]) -> list[str]:
        source, chance = self._phrases.file.lists[name], self._chance
        if source.range is not None:
            return [str(chance.randint(source.range.lowest, source.range.highest))]
        if source.values is None:  # a plant has none of these, or they go with other tags
            return ["…"]
        value = chance.choice(source.values)
        return self._said(self._parsed(value if isinstance(value, str) else value.heard), names)
