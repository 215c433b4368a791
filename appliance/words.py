"""What the conductor itself has to say: replies, and what became of effects, queued in the transaction of what they tell of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from appliance.contracts.clock import Clock, IdSource
from appliance.contracts.effect import Effect
from appliance.contracts.errors import FloorhandError, Malformed
from appliance.contracts.ports import Wording
from appliance.contracts.store import Transaction
from appliance.contracts.turn import Turn
from appliance.execution.sentences import Sentences
from appliance.execution.tools.ask import Ask
from appliance.execution.tools.say import Say
from appliance.execution.untold import DELIVERY, untold
from appliance.execution.urgency import urgency_of
from appliance.foundation.untrusted import clean
from appliance.store import actions, deliveries

_SPEAKING = frozenset({Say.contract.name, Ask.contract.name})
_LONGEST_WHY = 160  # characters of what broke a turn; its record has all of it


@dataclass(frozen=True, slots=True)
class Words:
    """Queues replies. ``language`` is the appliance's own."""

    wording: Wording
    clock: Clock
    ids: IdSource
    language: str

    def of_done(self, turn: Turn) -> Callable[[Transaction], None]:
        """Return the work that says what a turn has done that nobody was told of; it is said whatever becomes of the turn."""

        def queue(tx: Transaction) -> None:
            for effect in untold(tx, actions.of_turn(tx, turn.id)):
                self.of_effect(tx, turn, effect, Sentences.effect_done)

        return queue

    def unless_said(self, turn: Turn, text: str) -> Callable[[Transaction], None]:
        """Return the work that says ``text``, as urgent as a turn's first words, unless a step of the turn has said something."""

        def queue(tx: Transaction) -> None:
            steps = [step for step in actions.of_turn(tx, turn.id) if step.tool in _SPEAKING]
            if not any(DELIVERY in (step.result or {}) for step in steps):
                first = urgency_of(turn.context, is_first=True)
                deliveries.queue(tx, self.clock, self.ids, turn_id=turn.id, language=turn.language, text=text, priority=first)

        return queue

    def of_effect(
        self, tx: Transaction, turn: Turn, effect: Effect, say: Callable[[Sentences, str, Mapping[str, Any]], str]
    ) -> None:
        """Queue the last word on what became of an effect."""
        language = turn.language
        try:
            text = say(Sentences(self.wording, language), effect.tool, effect.arguments)
        except Malformed:  # a language without phrases
            language = self.language
            text = say(Sentences(self.wording, language), effect.tool, effect.arguments)
        urgency = urgency_of(turn.context, is_first=False)
        queued = deliveries.queue(tx, self.clock, self.ids, turn_id=turn.id, language=language, text=text, priority=urgency)
        deliveries.keep(tx, queued.id)

    def saying(self, reply: str, turn: Turn | None, language: str, priority: int, **values: str) -> Callable[[Transaction], None]:
        """Return the work that queues one reply, for use inside another transaction."""
        text, language = self.text(reply, language, **values)
        turn_id = turn.id if turn else None

        def queue(tx: Transaction) -> None:
            deliveries.queue(tx, self.clock, self.ids, turn_id=turn_id, language=language, text=text, priority=priority)

        return queue

    def why(self, error: FloorhandError, language: str) -> str:
        """Return the reason that ended a turn outside its plan, as a sentence."""
        if not error.reply:  # its message is for records and may be no sentence of ours
            error.worded("turn_broke", why=clean(error.message, _LONGEST_WHY).rstrip(" ."))
        return Sentences(self.wording, language).why(error)

    def why_unplanned(self, error: FloorhandError, language: str) -> str:
        """Return why there is no plan, as a sentence. A refusal without a reply of its own was worded where it was made."""
        if isinstance(error, Malformed) and not error.reply:
            error.worded("plan_wrong")
        return Sentences(self.wording, language).why(error)

    def text(self, reply: str, language: str, **values: str) -> tuple[str, str]:
        """Return a reply and its language: the appliance's own if ``language`` has no phrases, as that is better than nothing."""
        try:
            return self.wording.reply(reply, language, **values), language
        except Malformed:
            return self.wording.reply(reply, self.language, **values), self.language
