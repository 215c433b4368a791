"""Where sessions run (S9). One mode an appliance: a setting with one value, for all of them."""

from __future__ import annotations

from enum import StrEnum
from typing import Protocol

from appliance.contracts.admission import Admission


class SessionIsolation(StrEnum):
    """COROUTINE: all in the core, told apart by context variables. PROCESS: each in one of its own; not built."""

    COROUTINE = "coroutine"
    PROCESS = "process"


class SessionHost(Protocol):
    """What a mode of isolation has to offer: the conductor hands it an admission and waits."""

    async def lead(self, admission: Admission) -> None:
        """Lead an admission to its terminal record. Cancellation interrupts it; the ledger knows how far it is.

        Raises:
            OwnedElsewhere: another process took the ledger over.
        """
        ...
