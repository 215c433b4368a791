"""What the ears are told, and what they hear: the grammar, whether an answer is expected, utterances on their way to the door.

In: phrases, open questions, utterances from the voice process. Out: admissions, and words for whoever said what is not taken.
Who calls: ``app`` runs the two services.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from appliance.contracts.delivery import PRIORITY_ANSWER
from appliance.contracts.errors import Refused, StorageFullError, Unavailable
from appliance.contracts.ports import Ears
from appliance.contracts.speech import Utterance
from appliance.contracts.store import Ledger, Transaction
from appliance.foundation.lookout import Lookout
from appliance.intake.voice_door import VoiceDoor
from appliance.planning.phrases import Phrasebook
from appliance.planning.planner import Planner
from appliance.store import confirmations, deliveries
from appliance.words import Words

log = logging.getLogger(__name__)

_COMMITS_TOGETHER_S = 0.1  # an alarm is a dozen commits; nobody can answer a question sooner after it was put


class Hearing:
    """The core's side of the ears. :meth:`notify` is to be called after each commit."""

    def __init__(
        self,
        ears: Ears,
        door: VoiceDoor,
        phrasebook: Phrasebook,
        planner: Planner,
        ledger: Ledger,
        words: Words,
        delivered: Callable[[], None],
    ) -> None:
        """``delivered`` is called after words were queued."""
        self._ears = ears
        self._door = door
        self._phrasebook = phrasebook
        self._planner = planner
        self._ledger = ledger
        self._words = words
        self._delivered = delivered
        self._language = words.language
        self._lookout = Lookout(together_s=_COMMITS_TOGETHER_S)

    def notify(self) -> None:
        """Something was committed."""
        self._lookout.notify()

    async def listen(self) -> None:
        """Give the voice process its grammar and admit what it hears, for ever."""
        await self.teach()
        async for utterance in self._ears.utterances():
            try:
                await self._door.admit(utterance)
            except (Refused, Unavailable) as error:  # one sentence is lost; the next may be taken
                log.error("utterance.not_admitted", extra={"utterance": utterance.id, "why": error.message})
                await self._tell_not_taken(utterance, error)

    async def teach(self) -> None:
        """Give the voice process what can be said and what is said the same way each time, as it is now."""
        grammar = await asyncio.to_thread(self._phrasebook.grammar, self._language)
        await self._ears.load_grammar(grammar, self._planner.leads(self._language))

    async def _tell_not_taken(self, utterance: Utterance, error: Refused | Unavailable) -> None:
        """Say, past everything that waits, that a sentence was lost and why; once, however many are lost before it is said."""
        why = "too_much_waits" if isinstance(error, Unavailable) else "not_taken"
        if isinstance(error, StorageFullError):
            why = "not_taken_storage"
        say = self._words.saying(why, None, utterance.language, PRIORITY_ANSWER)
        text, _ = self._words.text(why, utterance.language)

        def queue(tx: Transaction) -> None:
            if not deliveries.is_waiting(tx, text):
                say(tx)

        try:
            await self._ledger.transaction(queue)
        except (Refused, Unavailable) as away:  # nothing can be written: that is said without the ledger
            log.warning("utterance.loss_not_said", extra={"utterance": utterance.id, "why": away.message})
        else:
            self._delivered()

    async def expect_answers(self) -> None:
        """Tell the ears whether a question is open, whenever that changes: a short "no" must not be taken for clatter."""
        told: bool | None = None

        async def look() -> None:
            nonlocal told
            rows = await self._ledger.fetch(confirmations.PENDING_COUNT)
            if told is not (pending := rows[0]["pending"] > 0):
                await self._ears.expect_answer(pending)
                told = pending

        await self._lookout.run(look)
