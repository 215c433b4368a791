"""What is said after a restart: that work goes on, which work does not, and what nobody knows about it (R4, T7)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from appliance.contracts.admission import PRIORITY_RESUME
from appliance.contracts.effect import Effect, EffectStatus
from appliance.contracts.errors import Malformed
from appliance.contracts.plant import Plant
from appliance.contracts.store import Transaction
from appliance.contracts.turn import Turn
from appliance.execution.journal import ANNOUNCED, GIVEN_UP
from appliance.execution.sentences import Sentences
from appliance.execution.work_meant import name_of
from appliance.store import actions, deliveries, effects
from appliance.words import Words


@dataclass(frozen=True, slots=True)
class AfterRestart:
    """Queues the words of a new owner of the ledger."""

    words: Words
    plant: Plant

    def tell(self, tx: Transaction, resumed: int, suspended: Sequence[Turn], stopped: Sequence[Turn]) -> None:
        """Say that work goes on (once, however many restarts it took), what was put aside, and what is unknown of what ended."""
        own = self.words.language
        if resumed and not deliveries.is_waiting(tx, self.words.wording.reply("restarted", own)):
            self.words.saying("restarted", None, own, PRIORITY_RESUME)(tx)
        for turn in suspended:
            self.words.saying("put_aside", turn, turn.language, PRIORITY_RESUME, work=self._name(turn))(tx)
            self._tell_effects(tx, turn, Sentences.effect_still_unknown)
        for turn in stopped:
            self._tell_effects(tx, turn, Sentences.effect_stopped)

    def _tell_effects(self, tx: Transaction, turn: Turn, say: Callable[[Sentences, str, Mapping[str, Any]], str]) -> None:
        self.words.of_done(turn)(tx)
        for effect in _unknown(tx, turn):
            self.words.of_effect(tx, turn, effect, say)

    def _name(self, turn: Turn) -> str:
        try:
            name = name_of(turn, self.plant, self.words.wording, turn.language)
        except Malformed:  # a language without phrases
            name = name_of(turn, self.plant, self.words.wording, self.words.language)
        return name or turn.intent.replace("_", " ")


def _unknown(tx: Transaction, turn: Turn) -> Iterable[Effect]:
    """Yield the turn's effects that a person has to settle and was not told so yet."""
    for step in actions.of_turn(tx, turn.id):
        effect = effects.of_action(tx, step.id)
        given_up = (step.result or {}).get(ANNOUNCED) == GIVEN_UP
        if effect is not None and effect.status is EffectStatus.UNKNOWN and not given_up:
            yield effect
