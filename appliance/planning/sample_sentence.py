"""One plain sentence that a template says: what a person is told to say."""

from __future__ import annotations

from collections.abc import Mapping

from appliance.planning.expressions import EMPTY, Choice, Expression, Sequence, Use, Word
from appliance.planning.phrases import Phrases


def sample_of(template: str, phrases: Phrases, words: Mapping[str, str]) -> str:
    """Return the shortest way to say a template: without what may be left out, the first of alternatives, each list by ``words``
    or, where it is not in them, by ``...``.

    Raises:
        ConfigError: it cannot be parsed.
    """
    from appliance.planning.templates import parsed

    def said(expression: Expression) -> list[str]:
        match expression:
            case Word(text):
                return [text]
            case Choice(options):
                return [] if EMPTY in options or not options else said(options[0])
            case Sequence(parts):
                return [word for part in parts for word in said(part)]
            case Use(name, is_list=True):
                return [words.get(name, "…")]
            case Use(name):
                return said(parsed(phrases.file.expansion_rules[name], phrases.path, f"expansion_rules.{name}"))

    return (" " if phrases.spaced else "").join(said(parsed(template, phrases.path, "sentence")))
