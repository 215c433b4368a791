"""Whether a sentence is about what is being done now, and cannot wait behind it. Asked by the doors, of all they let in."""

from __future__ import annotations

from appliance.contracts.errors import Malformed
from appliance.planning.intents import INTERJECTIONS
from appliance.planning.phrases import Phrasebook

_MOST_REMEMBERED = 256  # sentences; people at one line say the same few


class Interjections:
    """Tells interjections from other talk, and remembers what it told."""

    def __init__(self, phrasebook: Phrasebook) -> None:
        self._phrasebook = phrasebook
        self._told: dict[tuple[str, str], bool] = {}

    def __call__(self, text: str, language: str) -> bool:
        """Return whether ``text`` is one. A language without phrases has none."""
        key = (text, language)
        known = self._told.get(key)
        if known is None:
            if len(self._told) >= _MOST_REMEMBERED:
                del self._told[next(iter(self._told))]
            known = self._told[key] = self._is_one(text, language)
        return known

    def _is_one(self, text: str, language: str) -> bool:
        try:
            intent = self._phrasebook.understand(text, language)
        except Malformed:
            return False
        return intent is not None and (intent.name in INTERJECTIONS or bool(intent.slots.get("that")))
