"""Phase two of a write: may this be remembered, and is it new? Pure; no I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from appliance.contracts.memory import MemoryDraft, Tier
from appliance.foundation.canonical import canonical_json
from appliance.memory.settings import MemorySettings
from appliance.memory.words import contains_quote, folded, overlap, polarity

_DUPLICATE_OVERLAP = 0.8  # without vectors: share of common words from which two reports say the same
_QUOTED_SHARE = 0.6  # a text that is mostly an old one tells nothing new; a case report may open with the alarm it is about


def objection(draft: MemoryDraft, *, now: datetime, is_clock_synced: bool, settings: MemorySettings) -> str:
    """Return why a draft may not be stored, or an empty string.

    Write permission, form and freshness. Freshness is not judged while the clock is not synchronised: a source with the
    right time would look like the future to an appliance that woke up in the past.
    """
    return _permission(draft, settings) or _form(draft, settings) or _freshness(draft, now, is_clock_synced, settings)


def with_earned_verdict(draft: MemoryDraft) -> MemoryDraft:
    """Return the draft with ``verified`` only where it says by whom: a person or a read-back, in ``facts.verified_by``.

    A diagnosis nobody checked stays a guess, whatever the draft claims.
    """
    return draft if not draft.verified or draft.facts.get("verified_by") else replace(draft, verified=False)


def says_the_same(one: str, other: str, cosine: float | None, duplicate_cosine: float) -> bool:
    """Tell whether two texts about one asset, fault and time window are one report.

    Losing a fact is worse than keeping a repeat: texts that differ in a word that turns them round are never merged.
    ``cosine`` is None when there is no vector; then the words decide.
    """
    if polarity(one) != polarity(other):
        return False
    return overlap(one, other) >= _DUPLICATE_OVERLAP if cosine is None else cosine >= duplicate_cosine


def event_of(facts: Mapping[str, Any]) -> str:
    """Return the identity of the observed event a memory is about: its alarm activation or ``event``, else empty."""
    return str(facts.get("activation") or facts.get("event") or "")


def is_recalled_text(draft: MemoryDraft, asset: str, fault: str, text: str, *, lately: bool) -> bool:
    """Tell whether a draft hands back a memory (its ``asset``, ``fault`` and ``text``) instead of telling something.

    It does when it holds the whole text under another asset or fault, or with little around it. An observation of the same
    case that names its event may use the words of an earlier one: a plant repeats itself. The very same words about the same
    case are left to the duplicate check, unless they were handed out ``lately``.
    """
    if not contains_quote(draft.text, text):
        return False
    if (draft.asset, draft.fault) != (asset, fault):
        return True
    if event_of(draft.facts):
        return False
    mine, theirs = folded(draft.text), folded(text)
    if mine == theirs:
        return lately and draft.tier is Tier.EPISODIC
    return len(theirs) >= _QUOTED_SHARE * len(mine)


def _permission(draft: MemoryDraft, settings: MemorySettings) -> str:
    if not draft.scope:
        return "a memory needs a scope"
    if not draft.source_session:
        return "a memory needs a source session"
    if draft.tier is Tier.PROCEDURAL:
        return "procedures are committed to their repository, not remembered"
    if draft.tier is Tier.SEMANTIC and draft.confidence < settings.semantic_confidence:
        return f"confidence {draft.confidence:g} is too low for a permanent memory ({settings.semantic_confidence:g})"
    if draft.facts.get("recalled"):
        return "recalled text is never stored again"
    return ""


def _form(draft: MemoryDraft, settings: MemorySettings) -> str:
    if not folded(draft.text):
        return "a memory without words"
    if len(draft.text) > settings.text_chars:
        return f"{len(draft.text)} characters are more than the {settings.text_chars} of one memory"
    if not 0 <= draft.confidence <= 1:
        return f"confidence {draft.confidence:g} is not between 0 and 1"
    if draft.occurred_utc.tzinfo is None:
        return "the time of the event has no time zone"
    try:
        written = canonical_json([draft.text, draft.asset, draft.fault, draft.facts]).encode()
    except (TypeError, ValueError):
        return "its facts cannot be written down"
    if len(written) > 8 * settings.text_chars:
        return "its facts are larger than its text may be"
    return ""


def _freshness(draft: MemoryDraft, now: datetime, is_clock_synced: bool, settings: MemorySettings) -> str:
    if not is_clock_synced:
        return ""
    if draft.occurred_utc > now + timedelta(seconds=settings.future_tolerance_s):
        return "the event lies in the future"
    if draft.tier is Tier.EPISODIC and draft.occurred_utc < now - timedelta(days=settings.retention_days):
        return f"the event is older than the {settings.retention_days} days an episode is kept"
    return ""
