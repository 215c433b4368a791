"""How the ledger stands: what is wrong with its storage, whether it may be a copy, what was lost of it, and who is told.

In: the ledger's own word of trouble, and the rows of salvages and of signs that it may be a copy. Out: the degraded parts
``ledger`` and ``identity``, last words without the ledger, and the answers of :class:`LedgerActs`. A loss stays named until a
person has taken note of it, a sign until a person has adopted the ledger.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from appliance.contracts.clock import Clock
from appliance.contracts.errors import OwnedElsewhere, Unavailable
from appliance.delivery.last_words import LastWords, Trouble
from appliance.foundation.supervisor import Degraded
from appliance.store import head_witness, identities, salvages
from appliance.store.database import Database
from appliance.store.faults import StorageFault

LEDGER, IDENTITY = "ledger", "identity"

REPLIES: Mapping[StorageFault, str] = {
    StorageFault.FULL: "storage_full",
    StorageFault.USED_UP: "storage_used_up",
    StorageFault.HELD: "storage_held",
    StorageFault.UNWRITABLE: "storage_unwritable",
    StorageFault.ENDED: "ledger_damaged",
}
"""What is said of each fault. A log that is too long is shown, not said: nobody at the machine can do anything about it."""


class LedgerStanding:
    """Implements ``contracts.ledger_acts.LedgerActs``. Used from the event loop."""

    def __init__(self, ledger: Database, clock: Clock, degraded: Degraded, machine: str) -> None:
        """``machine``: fingerprint of the hardware. Listens to the ledger from now on."""
        self._ledger = ledger
        self._clock = clock
        self._degraded = degraded
        self._machine = machine
        self._lost = ""
        self._own = asyncio.Event()
        self._words: LastWords | None = None
        ledger.on_trouble = self._trouble

    async def load(self) -> None:
        """Show what is open in the ledger."""
        self._lost = salvages.named(await self._ledger.fetch(salvages.OPEN))
        self._show()
        copy = identities.named(await self._ledger.fetch(identities.OPEN))
        if copy:
            self._degraded.mark(IDENTITY, copy)
        else:
            self._degraded.clear(IDENTITY)
            self._own.set()

    def speak_through(self, words: LastWords) -> None:
        """Have storage trouble told by ``words`` from now on."""
        self._words = words
        self._trouble(self._ledger.trouble)

    async def when_own(self, run: Callable[[], Awaitable[None]]) -> None:
        """Run a service that goes on with this ledger's history (sync) once nothing says that it is a copy."""
        await self._own.wait()
        await run()

    # LedgerActs -------------------------------------------------------------------------------------------------------
    async def look(self) -> Mapping[str, Any]:
        """See ``contracts.ledger_acts.LedgerActs``."""
        signs = [dict(row) for row in await self._ledger.fetch(identities.OPEN)]
        losses = [salvages.to_facts(row) for row in await self._ledger.fetch(salvages.LIST)]
        return {"trouble": self._ledger.trouble, "machine": self._machine, "identity": signs, "salvages": losses}

    async def adopt(self, by: str, note: str) -> Mapping[str, Any]:
        """See ``contracts.ledger_acts.LedgerActs``."""
        adopted = await self._ledger.transaction(lambda tx: identities.adopt(tx, self._clock, self._machine, by=by, note=note))
        await self._begin_witness_anew()
        return {"adopted": [fault["detail"] for fault in adopted]}

    async def settle_salvage(self, number: int, by: str, note: str) -> Mapping[str, Any]:
        """See ``contracts.ledger_acts.LedgerActs``."""
        settled = await self._ledger.transaction(lambda tx: salvages.settle(tx, self._clock, number, by=by, note=note))
        await self._begin_witness_anew()
        return settled

    async def _begin_witness_anew(self) -> None:
        """A person takes the ledger as it is: that its log may end before where it had been is said and on record."""
        await asyncio.to_thread(head_witness.forget, self._ledger.path)
        await self.load()

    # telling ----------------------------------------------------------------------------------------------------------
    def _trouble(self, why: str) -> None:
        self._show()
        if self._words is not None:
            reply = "" if self._ledger.fault is None else REPLIES.get(self._ledger.fault, "")
            match self._ledger.fatal:
                case OwnedElsewhere():
                    reply = ""  # the other core speaks
                case Unavailable():
                    reply = "ledger_lost"
            self._words.tell(Trouble(reply, why) if reply else None)

    def _show(self) -> None:
        if why := "; ".join(filter(None, (self._ledger.trouble, self._lost))):
            self._degraded.mark(LEDGER, why)
        else:
            self._degraded.clear(LEDGER)
