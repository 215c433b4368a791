"""The gate behind every door: an input is a row on disk before anybody is told that it came in (R1)."""

from __future__ import annotations

from collections.abc import Callable

from appliance.contracts.admission import PRIORITY_ALARM, Admission, Admitted, Request
from appliance.contracts.clock import Clock, IdSource
from appliance.contracts.errors import Refused, Unavailable
from appliance.contracts.store import Ledger, Transaction
from appliance.foundation.canonical import digest
from appliance.store import admissions, audit

QUEUE_LIMIT = 256  # inputs waiting; people at one line make a few a minute, so more than this is a fault upstream


class Gate:
    """Admits requests; implements ``Admitter``. ``notify`` is called after each new admission, to wake the queue."""

    def __init__(
        self,
        ledger: Ledger,
        clock: Clock,
        ids: IdSource,
        limit: int = QUEUE_LIMIT,
        notify: Callable[[], None] = lambda: None,
    ) -> None:
        self._ledger = ledger
        self._clock = clock
        self._ids = ids
        self._limit = limit
        self._notify = notify

    async def admit(self, request: Request, also: Callable[[Transaction, Admission], None] | None = None) -> Admitted:
        """Return once the request is on disk. ``also`` runs in the same transaction, for new admissions only.

        The same key with the same payload is the same admission, whatever has become of it, and never finds the queue full.
        Alarms may fill a second queue length, so that talk cannot keep them out.

        Raises:
            Refused: the duplicate key is known with other content; it is in the audit log.
            Unavailable: the queue is full; whoever sent it keeps it and offers it again.
        """
        payload_digest = digest(request.payload)

        def work(tx: Transaction) -> Admitted | Refused:
            known = admissions.by_key(tx, request.dedupe_key)
            if known is not None:
                admission, known_digest = known
                if known_digest == payload_digest:
                    return Admitted(admission, is_duplicate=True)
                facts = {"key": request.dedupe_key, "known": known_digest, "offered": payload_digest}
                audit.note(tx, self._clock, "admission_conflict", admission.id, facts)
                return Refused(f"{request.dedupe_key} was admitted before with other content", admission=admission.id)
            admission = self.enter(tx, request, payload_digest)
            if also is not None:
                also(tx, admission)
            return Admitted(admission, is_duplicate=False)

        answer = await self._ledger.transaction(work)
        if isinstance(answer, Refused):
            raise answer
        if not answer.is_duplicate:
            self._notify()
        return answer

    def enter(self, tx: Transaction, request: Request, payload_digest: str = "") -> Admission:
        """Store a request whose key is known to be new, in the caller's own transaction; :meth:`wake` once it is on disk.

        Raises:
            Unavailable: the queue is full.
        """
        waiting = admissions.count_queued(tx)
        if waiting >= self._limit * (2 if request.priority >= PRIORITY_ALARM else 1):
            raise Unavailable(f"{waiting} inputs wait already", retry_after_s=2.0, waiting=waiting)
        return admissions.insert(tx, self._clock, self._ids, request, payload_digest or digest(request.payload))

    def wake(self) -> None:
        """Say that something was entered, and is on disk."""
        self._notify()
