"""What the ears are told, and what they hear: the grammar, whether an answer is expected, utterances on their way to the door.

In: phrases, open questions, utterances from the voice process. Out: admissions. Who calls: ``app`` runs the two services.
"""

from __future__ import annotations

import asyncio
import logging

from appliance.contracts.errors import Refused, Unavailable
from appliance.contracts.ports import Ears
from appliance.contracts.store import Ledger
from appliance.intake.voice_door import VoiceDoor
from appliance.planning.phrases import Phrasebook
from appliance.planning.planner import Planner
from appliance.store import confirmations

log = logging.getLogger(__name__)

_COMMITS_TOGETHER_S = 0.1  # an alarm is a dozen commits; nobody can answer a question sooner after it was put


class Hearing:
    """The core's side of the ears. :meth:`notify` is to be called after each commit."""

    def __init__(
        self, ears: Ears, door: VoiceDoor, phrasebook: Phrasebook, planner: Planner, ledger: Ledger, language: str
    ) -> None:
        self._ears = ears
        self._door = door
        self._phrasebook = phrasebook
        self._planner = planner
        self._ledger = ledger
        self._language = language
        self._written = asyncio.Event()

    def notify(self) -> None:
        """Something was committed."""
        self._written.set()

    async def listen(self) -> None:
        """Give the voice process its grammar and admit what it hears, for ever."""
        grammar = await asyncio.to_thread(self._phrasebook.grammar, self._language)
        await self._ears.load_grammar(grammar, self._planner.leads(self._language))
        async for utterance in self._ears.utterances():
            try:
                await self._door.admit(utterance)
            except (Refused, Unavailable) as error:  # one sentence is lost; the next may be taken
                log.error("utterance.not_admitted", extra={"utterance": utterance.id, "why": error.message})

    async def expect_answers(self) -> None:
        """Tell the ears whether a question is open, whenever that changes: a short "no" must not be taken for clatter."""
        told: bool | None = None
        while True:
            self._written.clear()
            rows = await self._ledger.fetch(confirmations.PENDING_COUNT)
            if told is not (pending := rows[0]["pending"] > 0):
                await self._ears.expect_answer(pending)
                told = pending
            await self._written.wait()
            await asyncio.sleep(_COMMITS_TOGETHER_S)
