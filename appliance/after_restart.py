"""What is said after a restart: that work goes on, which work does not, and what nobody knows about it (R4, T7)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from appliance.contracts.admission import PRIORITY_RESUME
from appliance.contracts.delivery import PRIORITY_ANSWER
from appliance.contracts.effect import Effect, EffectStatus
from appliance.contracts.errors import Fault, Malformed
from appliance.contracts.plant import Plant
from appliance.contracts.store import Transaction
from appliance.contracts.turn import Turn
from appliance.execution.journal import ANNOUNCED, GIVEN_UP
from appliance.execution.sentences import Sentences
from appliance.execution.work_meant import name_of
from appliance.foundation.supervisor import contained_call
from appliance.store import actions, deliveries, effects, unreadable
from appliance.words import Words


@dataclass(frozen=True, slots=True)
class AfterRestart:
    """Queues the words of a new owner of the ledger."""

    words: Words
    plant: Plant

    def tell(
        self, tx: Transaction, resumed: int, suspended: Sequence[Turn], stopped: Sequence[Turn], broken: Sequence[Fault] = ()
    ) -> list[Fault]:
        """Say that work goes on (once, however many restarts it took), that something is ``broken`` (once), what was put aside,
        and what is unknown of what ended. Return the faults that kept words about single turns from being said."""
        own = self.words.language
        unsaid: list[Fault] = []
        if resumed and not deliveries.is_waiting(tx, self.words.wording.reply("restarted", own)):
            self.words.saying("restarted", None, own, PRIORITY_RESUME)(tx)
        for fault in broken[:1]:
            self.words.saying("tool_failed", None, own, PRIORITY_ANSWER, why=self.words.why(fault, own))(tx)
        for turn in suspended:
            self.words.saying("put_aside", turn, turn.language, PRIORITY_RESUME, work=self._name(turn))(tx)
            unsaid += self._tell_effects(tx, turn, Sentences.effect_still_unknown)
        for turn in stopped:
            unsaid += self._tell_effects(tx, turn, Sentences.effect_stopped)
        return unsaid

    def _tell_effects(self, tx: Transaction, turn: Turn, say: Callable[[Sentences, str, Mapping[str, Any]], str]) -> list[Fault]:
        def tell() -> None:
            self.words.of_done(turn)(tx)
            for effect in _unknown(tx, turn):
                self.words.of_effect(tx, turn, effect, say)

        fault = unreadable.fault_of(tx, tell)
        return [] if fault is None else [fault]  # what is unknown stays listed

    def _name(self, turn: Turn) -> str:
        def name_in(language: str) -> str:
            return contained_call(lambda: name_of(turn, self.plant, self.words.wording, language))

        try:
            name = name_in(turn.language)
        except Malformed:  # a language without phrases
            name = name_in(self.words.language)
        except Fault:  # what its context holds is no name
            name = ""
        return name or turn.intent.replace("_", " ")


def _unknown(tx: Transaction, turn: Turn) -> Iterable[Effect]:
    """Yield the turn's effects that a person has to settle and was not told so yet."""
    for step in actions.of_turn(tx, turn.id):
        effect = effects.of_action(tx, step.id)
        given_up = (step.result or {}).get(ANNOUNCED) == GIVEN_UP
        if effect is not None and effect.status is EffectStatus.UNKNOWN and not given_up:
            yield effect
