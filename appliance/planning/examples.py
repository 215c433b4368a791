"""Wording nobody foresaw (A1): the nearest labelled example says which of our sentences is meant.

An example means a sentence of the phrases (``examples:`` in the phrase file), so what is understood is always something that can
be said, is shown in those words, and gets the plan that it always gets. Names of the plant are masked on both sides. A label
counts only if it names the same kinds of things, is near enough, and clearly nearer than any other. Likeness does not see a
"not", a "yesterday" or a "who": words that the phrase file lists (``never:``) are looked for as such.

What only reads is done at once, after it was said what was understood. What acts is asked back first, once: by the question its
plan has anyway, after it was said what was understood, else by one that names the sentence; a yes to it is the consent to exactly
that step.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from appliance.contracts.condition import all_of
from appliance.contracts.embedding import Embedder
from appliance.contracts.errors import Corrupt, Unavailable
from appliance.contracts.plan import PLAYBOOK_SOURCE, Intent, Plan, Step
from appliance.contracts.planning import Asked, PlanMaker
from appliance.foundation.sentence import literal
from appliance.planning.name_masks import Masked, NameMasks
from appliance.planning.phrase_file import NOTHING_OF_OURS, barred_words
from appliance.planning.phrases import Phrasebook, Phrases
from appliance.planning.planners import NOT_UNDERSTOOD

log = logging.getLogger(__name__)

# Calibrated on 93 paraphrases and 49 sentences of chatter in English and Chinese that the examples do not hold, and measured on
# 54 others (tests/support/paraphrases.py; tests/unit/test_planning_examples.py states the accuracy). The words of ``never:`` were
# chosen on 80 sentences, of which 56 mean nothing now, and measured on 48 others, of which 32 do not.
NEAR_ENOUGH = 0.60
"""Cosine from which an example is taken."""
NEAR_ENOUGH_ALONE = 0.68
"""The same for an utterance that names nothing of the plant: most chatter names nothing either."""
CLEARLY_NEARER = 0.05
"""By how much the best label has to be nearer than the next."""

_TRY_AGAIN_S = 3600.0  # an encoder that cannot be loaded is tried again every hour, as memory does
_LONGEST = 200  # characters; what is longer is a story and not a request
_ASK, _UNDERSTOOD = "meant", "understood"


@dataclass(frozen=True, slots=True)
class Found:
    """The nearest label: its intent, the sentence it means, how near it is, how near the best other one, whether the utterance
    names something of the plant, and whether it says what this label does not: a word it never has (``never:``), or more."""

    intent: str
    sentence: str
    likeness: float
    next_likeness: float
    names_something: bool
    is_barred: bool = False

    @property
    def is_clear(self) -> bool:
        """Whether it may be taken."""
        if self.is_barred:
            return False
        enough = NEAR_ENOUGH if self.names_something else NEAR_ENOUGH_ALONE
        return self.likeness >= enough and self.likeness - self.next_likeness >= CLEARLY_NEARER


@dataclass(frozen=True, slots=True)
class _Label:
    intent: str
    means: str
    kinds: frozenset[str]


class Router:
    """One language's examples and where they lie. Ready once they were embedded."""

    def __init__(self, phrases: Phrases) -> None:
        self._masks = NameMasks(phrases)
        self._labels: list[_Label] = []
        self._texts: list[str] = []
        for intent, labelled in phrases.file.examples.intents.items():
            for each in labelled:
                for said in each.say:
                    kinds = frozenset(kind for kind in phrases.file.examples.stand_ins if f"{{{kind}}}" in said)
                    self._labels.append(_Label(intent, each.means, kinds))
                    self._texts.append(self._masks.shown(said))
        self._places: Any = None
        self._barred = barred_words(phrases.file)

    async def prepare(self, embedder: Embedder) -> None:
        """Embed the examples.

        Raises:
            Unavailable: the encoder is not loaded.
        """
        self._places = await embedder.embed(self._texts)

    async def nearest(self, text: str, embedder: Embedder) -> Found | None:
        """Return the nearest label of an utterance; None when no example names the same kinds of things, or none is embedded.

        Raises:
            Unavailable: the encoder is not loaded.
        """
        if self._places is None or len(text) > _LONGEST:
            return None
        readings = self._masks.readings(text)
        rows = await embedder.embed([reading.text for reading in readings])
        best: dict[tuple[str, str], tuple[float, Masked]] = {}
        for reading, row in zip(readings, rows, strict=True):
            kinds = frozenset(reading.named)
            for label, likeness in zip(self._labels, (self._places @ row).tolist(), strict=True):
                key = (label.intent, label.means)
                is_comparable = label.kinds == kinds or label.intent == NOTHING_OF_OURS
                if is_comparable and likeness > best.get(key, (-1.0, reading))[0]:
                    best[key] = (likeness, reading)
        if not best:
            return None
        ((intent, means), (likeness, reading)), *others = sorted(best.items(), key=lambda item: -item[1][0])
        sentence = means
        for kind, name in reading.named.items():
            sentence = sentence.replace(f"{{{kind}}}", name)
        next_likeness = others[0][1][0] if others else -1.0
        is_barred = reading.has_more or self._barred.lacks(intent, reading.text)
        is_barred = is_barred or any(self.is_barred(intent, form) for each in readings for form in (each.words, each.text))
        return Found(intent, sentence, likeness, next_likeness, bool(reading.named), is_barred)

    def is_barred(self, intent: str, text: str) -> bool:
        """Return whether an utterance, with stand-ins, has a word that the sentences of an intent never have (``never:``)."""
        return self._barred.bars(intent, text)


class ExamplePlanner:
    """Makes plans of utterances that are near an example. Without an encoder it has nothing to say."""

    def __init__(self, phrasebook: Phrasebook, phrases: PlanMaker, embedder: Embedder | None) -> None:
        """``phrases`` makes the plan of a sentence we know. ``embedder`` is memory's: its weights are in memory once."""
        self._phrasebook = phrasebook
        self._phrases = phrases
        self._embedder = embedder
        self._routers = {language: Router(phrasebook.phrases(language)) for language in phrasebook.languages}
        self._is_prepared = False

    async def run(self) -> None:
        """Embed the examples as soon as the encoder is there. Ends only by cancellation."""
        while True:
            await self.prepare()
            await asyncio.sleep(_TRY_AGAIN_S)

    async def prepare(self) -> bool:
        """Load the encoder if nobody has, and embed the examples; return whether that can be done. It is an option: what is wrong
        with the encoder is memory's to tell."""
        if self._embedder is None or self._is_prepared:
            return self._is_prepared
        try:
            await self._embedder.load()
            for router in self._routers.values():
                await router.prepare(self._embedder)
        except (Unavailable, Corrupt) as error:
            log.info("examples.without_encoder", extra={"why": error.message})
            return False
        self._is_prepared = True
        return True

    async def plan(self, asked: Asked) -> Plan | None:
        """Return the plan of the sentence that is meant; None when no example is clearly near.

        Raises:
            Refused: what is meant will not be done; the message is the sentence to say.
        """
        intent = asked.intent
        if intent.name != NOT_UNDERSTOOD or asked.earlier or self._embedder is None or not self._is_prepared:
            return None
        try:
            found = await self._routers[intent.language].nearest(intent.text, self._embedder)
        except Unavailable:  # it was closed meanwhile: the appliance stops
            return None
        if found is None or not found.is_clear or found.intent == NOTHING_OF_OURS:
            return None
        meant = self._phrasebook.understand(found.sentence, intent.language)
        if meant is None or meant.name != found.intent:  # this plant has no such value
            return None
        log.debug("example.taken", extra={"intent": meant.name, "likeness": round(found.likeness, 3)})
        plan = await self._phrases.plan(replace(asked, intent=replace(meant, text=intent.text)))
        return None if plan is None else self._told(plan, meant, found.sentence, asked)

    def _told(self, plan: Plan, meant: Intent, sentence: str, asked: Asked) -> Plan:
        """Put before a plan what was understood, or the question whether it was meant."""
        said = {"sentence": literal(sentence)}
        told = Step(_UNDERSTOOD, "say", {"text": self._phrasebook.reply("understood_as", meant.language, **said)})
        acting = [step for step in plan.steps if step.tool not in asked.tools or asked.tools[step.tool].changes_something]
        consented = {str(step.arguments.get("approves")) for step in plan.steps if step.tool == "ask"}
        unasked = [step for step in acting if step.id not in consented]
        reply = self._phrasebook.reply
        if unasked:
            question = reply("did_you_mean", meant.language, **said)
            ask = {"question": question, "requires_keyword": False, "approves": unasked[0].id}
            cancelled = Step("not_meant", "say", {"text": reply("cancelled", meant.language)}, f"not {_ASK}")
            on_yes = [replace(step, when=all_of([_ASK, step.when])) for step in plan.steps]
            steps: Sequence[Step] = (Step(_ASK, "ask", ask), *on_yes, cancelled)
        else:  # what acts has its own question, which says exactly what will happen
            steps = (told, *plan.steps)
        is_playbooks = plan.source.startswith(PLAYBOOK_SOURCE)  # its steps are
        return replace(plan, source=plan.source if is_playbooks else f"example:{meant.name}", steps=tuple(steps))
