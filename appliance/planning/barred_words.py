"""Words that keep an utterance from an example it is like: likeness does not see a "not", a "could" or a "yesterday". Pure.

They are the phrase file's (``examples: never, never_an_order, never_in``), and so are those of which an intent has one always
(``always_in``): "10 percent more" is like "to 10 percent". A word may be several, name ``{asset}`` and what else
has a stand-in, and hold ``…`` for whatever stands between: ``how hot … can {asset}``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

GAP = "…"
"""In a word: anything, or nothing."""

_NOT_BARRED = frozenset(
    {"list_alarms", "list_playbooks", "list_checks", "status", "vitals", "help", "repeat", "report_work", "what_pending"}
)
"""Intents of talk about the appliance itself and its alarms: "why is it beeping" is one, and a wrong one costs nothing."""
_QUESTIONS = frozenset({"read_tag", "run_playbook"})
"""Intents of questions about now. All that are neither are orders."""


@dataclass(frozen=True, slots=True)
class _Listed:
    """Words of one list. ``key`` is where they stand in the phrase file."""

    key: str
    words: Sequence[str]
    any_of: re.Pattern[str]


class BarredWords:
    """One language's words."""

    def __init__(
        self,
        never: Sequence[str],
        never_an_order: Sequence[str],
        never_in: Mapping[str, Sequence[str]],
        always_in: Mapping[str, Sequence[str]],
        form: Callable[[str], str],
        *,
        spaced: bool,
    ) -> None:
        """``form`` gives the form in which utterances are looked at, with stand-ins for names. ``spaced``: only whole words
        count."""
        self._form = form
        self._spaced = spaced
        self._never = self._listed("never", never)
        self._never_an_order = self._listed("never_an_order", never_an_order)
        self._never_in = {intent: self._listed(f"never_in.{intent}", words) for intent, words in never_in.items()}
        self._always_in = {intent: self._any_of(words) for intent, words in always_in.items()}

    def bars(self, intent: str, text: str) -> bool:
        """Return whether a text, in its form, has a word that the sentences of an intent never have."""
        return any(listed.any_of.search(text) for listed in self._about(intent))

    def lacks(self, intent: str, text: str) -> bool:
        """Return whether a text, in its form, has none of the words of which sentences of an intent always have one."""
        return intent in self._always_in and self._always_in[intent].search(text) is None

    def found(self, intent: str, text: str) -> tuple[str, str] | None:
        """Return (key of the list, word as it is written there) of the first word that bars a text; None if none does."""
        for listed in self._about(intent):
            if listed.any_of.search(text):
                return listed.key, next(word for word in listed.words if self._any_of([word]).search(text))
        return None

    def _about(self, intent: str) -> Iterable[_Listed]:
        if intent in self._never_in:
            yield self._never_in[intent]
        if intent not in _NOT_BARRED:
            yield self._never
            if intent not in _QUESTIONS:
                yield self._never_an_order

    def _listed(self, key: str, words: Sequence[str]) -> _Listed:
        return _Listed(key, words, self._any_of(words))

    def _any_of(self, words: Iterable[str]) -> re.Pattern[str]:
        parts = [[re.escape(form) for part in word.split(GAP) if (form := self._form(part))] for word in words]
        between = r"\b.*\b" if self._spaced else ".*"
        any_of = "|".join(between.join(each) for each in parts if each) or "(?!)"
        return re.compile(rf"(?<!\w)(?:{any_of})(?:'s)?(?!\w)" if self._spaced else any_of)
