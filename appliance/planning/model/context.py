"""What a model is shown for one request, in three tiers that fit its window (A3).

*Stable*: who the appliance is, rules, tools that read, names of the plant. The same bytes in every prompt of a session, so that
a server finds what it has read before. *Context*: what the session's snapshot holds. *Volatile*: earlier turns, memories, what
this request may need besides, results so far, the request. Nothing above the asker's level is in any of them (T3): no memory for
who may not search them, no turn of somebody who may do more, no result of a tool that is not there for them.

In: what is asked, and whose tokens count. Out: the messages, and the tiers as ``floorhand context`` shows them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from appliance.contracts.clock import Clock
from appliance.contracts.errors import Corrupt, Unavailable
from appliance.contracts.memory import Recollection, Tier
from appliance.contracts.model import ContextOverflow, Message
from appliance.contracts.planning import Asked
from appliance.contracts.plant import Plant
from appliance.contracts.ports import Recaller
from appliance.contracts.store import Ledger
from appliance.planning.model import plant_names, prompt
from appliance.planning.model.compaction import Block, fit
from appliance.planning.model.frozen import FrozenKnowledge, Knowledge
from appliance.planning.model.prefix import Prefixes, TierShown, TokenScale, whole_lines
from appliance.planning.model.tool_choice import Offer, choose
from appliance.planning.phrases import Phrasebook
from appliance.planning.tongue import Tongue
from appliance.store import conversations

log = logging.getLogger(__name__)

SEARCH = "search_memory"
"""The tool that gives memories: who may not call it is shown none, recalled or pinned."""
SCALES = (1.0, 0.75, 0.5, 0.35)
"""Shares of the room that are tried one after the other when a request turned out too long; then there is none."""

_RESULTS_SHARE, _MEMORY_SHARE = 0.45, 0.25  # of the volatile tier at most; what is left of it is for earlier turns
_REPLY_SHARE, _FEWEST_REPLY, _MOST_REPLY = 6, 200, 800  # a sixth of the window: a plan of eight steps takes some 400 tokens
_FRAME_TOKENS = 80  # what servers write round two to four messages
_CORRECTION_SHARE = 0.08  # of the window, for what is added when the first answer was no plan
_MOST_TURNS = 24
_MOST_MEMORIES = 4
_LEAST_LIKENESS = 0.2  # cosine below which a memory is about something else, whatever else there is
_RECALL_MS = 300.0
_LONGEST_TOKEN = 10  # characters


@dataclass(frozen=True, slots=True)
class ModelContext:
    """A prompt that fits. ``names``: argument -> what it may be, for the schema. ``reply_tokens`` are left for the answer."""

    tiers: tuple[TierShown, ...]
    offer: Offer
    names: Mapping[str, Sequence[str]]
    context_tokens: int
    reply_tokens: int
    knowledge: Knowledge

    @property
    def tokens(self) -> int:
        """Tokens of the prompt, with what servers write round messages."""
        return sum(tier.tokens for tier in self.tiers) + _FRAME_TOKENS

    @property
    def messages(self) -> tuple[Message, ...]:
        """The stable tier and the session's are one message, so that the prefix is one; the rest is another."""
        stable, context, volatile = (tier.text for tier in self.tiers)
        return Message("system", "\n".join(part for part in (stable, context) if part)), Message("user", volatile)


@dataclass(frozen=True, slots=True)
class _Room:
    whole: int
    reply: int

    @staticmethod
    def of(context_tokens: int, scale: float) -> _Room:
        reply = min(max(context_tokens // _REPLY_SHARE, _FEWEST_REPLY), _MOST_REPLY)
        whole = context_tokens - reply - _FRAME_TOKENS - int(context_tokens * _CORRECTION_SHARE)
        return _Room(int(whole * scale), reply)


@dataclass(frozen=True, slots=True)
class _Parts:
    asked: Asked
    offer: Offer
    tongue: Tongue
    knowledge: Knowledge
    memories: Sequence[Recollection]
    past: Sequence[conversations.PastTurn]
    has_older: bool
    is_last: bool


class Contexts:
    """Makes them."""

    def __init__(
        self, ledger: Ledger, clock: Clock, phrasebook: Phrasebook, plant: Plant, recaller: Recaller, knowledge: FrozenKnowledge
    ) -> None:
        self._ledger = ledger
        self._clock = clock
        self._phrasebook = phrasebook
        self._plant = plant
        self._recaller = recaller
        self._knowledge = knowledge
        self._prefixes = Prefixes(plant)

    @property
    def knowledge(self) -> FrozenKnowledge:
        """The snapshots."""
        return self._knowledge

    async def of(
        self, asked: Asked, scale: TokenScale, *, smaller: int = 0, is_last: bool = False, keep: bool = True
    ) -> ModelContext:
        """Return the prompt for a request, ``smaller`` steps shorter than what should fit. ``keep``: as in FrozenKnowledge.

        Raises:
            ContextOverflow: there is no way to make it fit.
            Malformed: a language without phrases.
            Unavailable: the ledger does not answer.
        """
        tongue = Tongue(self._phrasebook.phrases(asked.intent.language), self._plant)
        knowledge = await self._knowledge.of(asked.session_id, keep=keep)
        memories = await self._recalled(asked.intent.text, tongue) if SEARCH in asked.tools else []
        past = await conversations.earlier(self._ledger, asked.session_id, asked.turn_id, _MOST_TURNS)
        has_older = len(past) == _MOST_TURNS
        past = [_as_seen(turn, asked) for turn in past if turn.level <= asked.principal.level]
        window = scale.context_tokens  # looked at once: which model is next may change meanwhile
        offer = choose(asked.tools, asked.intent.text, window)
        parts = _Parts(asked, offer, tongue, knowledge, memories, past, has_older, is_last)
        for share in SCALES[smaller:]:
            made = await asyncio.to_thread(self._within, _Room.of(window, share), window, parts, scale)
            if made is not None:
                return made
        raise ContextOverflow(
            f"the request does not fit {window} tokens, however short it is made",
            context_tokens=window,
        )

    def _within(self, room: _Room, window: int, parts: _Parts, scale: TokenScale) -> ModelContext | None:
        """Return the prompt within a room, None if it does not fit. Takes tens of milliseconds: not for the event loop."""
        asked, tongue = parts.asked, parts.tongue
        knowledge = parts.knowledge.seen_by(asked.principal.level, may_search=SEARCH in asked.tools)
        prefix = self._prefixes.of(parts.offer.reading, tongue, knowledge, room.whole, scale)
        if not prefix.stable.text:
            return None
        # Counted anew: the prefix is kept while servers report more or less than was thought.
        stable, context = (replace(tier, tokens=scale.count_tokens(tier.text)) for tier in (prefix.stable, prefix.context))
        left = room.whole - stable.tokens - context.tokens
        volatile, about = _volatile(parts, left, scale, prefix.tags)
        names = _names(self._plant, [*prefix.tags, *about])
        made = ModelContext((stable, context, volatile), parts.offer, names, window, room.reply, parts.knowledge)
        return made if volatile.tokens <= left and made.tokens + room.reply <= window else None

    async def _recalled(self, said: str, tongue: Tongue) -> list[Recollection]:
        """Return memories that have to do with the sentence, within the site; without them it is answered all the same."""
        assets = plant_names.assets_in(said, tongue)
        try:
            recall = await self._recaller.recall(
                said,
                scope=self._plant.site,
                asset=assets[0] if len(assets) == 1 else "",
                fault="",
                now=self._clock.utc(),
                budget_ms=_RECALL_MS,
            )
        except (Unavailable, Corrupt) as error:
            log.warning("context.without_memories", extra={"why": error.message})
            return []
        return [each for each in recall.found if _is_relevant(each, assets)][:_MOST_MEMORIES]


def _as_seen(turn: conversations.PastTurn, asked: Asked) -> conversations.PastTurn:
    """Return an earlier turn without what came of tools that the asker may not call."""
    return replace(turn, steps=tuple(step for step in turn.steps if step.tool in asked.tools))


def _is_relevant(found: Recollection, assets: Sequence[str]) -> bool:
    """Whether a memory may be shown for a sentence about these machines. What is only in hand is shown as an earlier turn."""
    if found.tier is Tier.WORKING or (assets and found.asset and found.asset not in assets):
        return False
    return found.score >= _LEAST_LIKENESS


def _volatile(parts: _Parts, budget: int, scale: TokenScale, named: Sequence[str]) -> tuple[TierShown, list[str]]:
    """Return the tier, and the keys of the tags named for this request. The request comes first in the room, last in the text."""
    asked, offer, tongue = parts.asked, parts.offer, parts.tongue
    count = scale.count_tokens
    about = [tag for tag in plant_names.tags_about(asked.intent.text, tongue) if tag.key not in named]
    request = prompt.request(asked.intent.text, asked.intent.language, is_last=parts.is_last)
    besides = prompt.more([*offer.besides, *offer.acting], [plant_names.tag_line(tag, tongue) for tag in about])
    left = budget - count(request) - count(besides)
    shown, shortened, left_out = [request], 0, 0
    if besides:
        shown.insert(0, besides)
    if asked.earlier:
        results = fit([prompt.result_block(step) for step in asked.earlier], int(budget * _RESULTS_SHARE), count)
        shown.insert(-1, prompt.results(results.texts, results.left_out))
        left -= results.tokens + count(prompt.results((), results.left_out))
        shortened, left_out = results.shortened, results.left_out
    lines = [prompt.memory_line(each) for each in parts.memories]
    recalled = whole_lines("", lines, min(int(budget * _MEMORY_SHARE), left), scale)
    if recalled.text:
        shown.insert(0, prompt.memories([recalled.text]))
        left -= count(shown[0])
    left -= count(prompt.before((), 999))
    blocks = _newest_blocks(parts.past, left)
    told = fit(blocks, left, count)
    missing = len(parts.past) - len(told.texts)
    if told.texts:
        shown.insert(0, prompt.before(told.texts, missing, at_least=parts.has_older and missing > 0))
    text = "\n".join(shown)
    left_out += missing + recalled.left_out
    return TierShown("volatile", text, count(text), shortened + told.shortened, left_out), [tag.key for tag in about]


def _newest_blocks(past: Sequence[conversations.PastTurn], budget: int) -> list[Block]:
    """Return the newest turns, oldest first, as far as they may fit at all: most of a long history need not be worded."""
    blocks: list[Block] = []
    for turn in reversed(past):
        blocks.insert(0, prompt.block_of(turn))
        if sum(len(block.short) for block in blocks) > budget * _LONGEST_TOKEN:
            break
    return blocks


def _names(plant: Plant, keys: Sequence[str]) -> dict[str, Sequence[str]]:
    """Return what arguments may be called by; none for a plant too large to name, whose names are checked afterwards."""
    shown = list(dict.fromkeys(keys))
    assets = [asset.id for asset in plant.assets]
    return {
        "key": shown,
        "keys": shown,
        "asset": assets if len(assets) <= plant_names.MOST_NAMED * 2 else [],
    }
