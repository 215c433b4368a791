"""The gate behind every door: an input is a row on disk before anybody is told that it came in (R1)."""

from __future__ import annotations

from collections.abc import Callable

from appliance.admission.turned_away import TurnedAway
from appliance.contracts import lane as lanes
from appliance.contracts.admission import PRIORITY_ALARM, Admission, Admitted, Request, RequestKind
from appliance.contracts.clock import Clock, IdSource
from appliance.contracts.errors import FloorhandError, Refused, StorageFullError, Unavailable
from appliance.contracts.principal import without_principal
from appliance.contracts.store import Ledger, Transaction
from appliance.foundation.canonical import digest
from appliance.store import admissions, audit, sessions

QUEUE_LIMIT = 256  # inputs waiting; people at one line make a few a minute, so more than this is a fault upstream
LANE_LIMIT = 32  # of them in one lane, an eighth: one user who does not stop leaves room for the others
INTERJECTION_LIMIT = 32  # each is led at once, so a few wait at most; more is a fault upstream
INTERJECTION_LANE_LIMIT = 4  # of them in one lane: nobody says "stop that" five times before the first is led
SESSION_LIMIT = 800  # requirements S9
QUESTION_LIMIT_S = 1800.0  # requirements S7: after it an unanswered question, and its conversation, may be closed
_LANE_DRAINS_PER_S = 1.0  # one turn at a time in a lane, of about a second
_QUEUE_DRAINS_PER_S = 16.0  # and by default so many lanes at once


class Gate:
    """Admits requests; implements ``Admitter``. ``notify`` is called after each new admission, to wake the queue."""

    def __init__(
        self,
        ledger: Ledger,
        clock: Clock,
        ids: IdSource,
        limit: int = QUEUE_LIMIT,
        notify: Callable[[], None] = lambda: None,
        *,
        lane_limit: int = LANE_LIMIT,
        session_limit: int = SESSION_LIMIT,
        question_limit_s: float = QUESTION_LIMIT_S,
        refuses_talk: Callable[[], str] = lambda: "",
    ) -> None:
        """``refuses_talk`` says why nothing below alarms is taken at present, and nothing while it is. It is asked in a
        transaction, by the thread that writes."""
        self._ledger = ledger
        self._clock = clock
        self._ids = ids
        self._limit = limit
        self._notify = notify
        self._lane_limit = lane_limit
        self._session_limit = session_limit
        self._question_limit_s = question_limit_s
        self._turned_away = TurnedAway(clock)
        self._refuses_talk = refuses_talk

    async def admit(self, request: Request, also: Callable[[Transaction, Admission], None] | None = None) -> Admitted:
        """Return once the request is on disk. ``also`` runs in the same transaction, for new admissions only.

        The same key with the same payload and arrival is the same admission, whatever has become of it, and never finds the
        queue full. Who asks is not compared: a door's keys belong to whoever asks. Alarms may fill a second queue length, so that
        talk cannot keep them out.

        Raises:
            Refused: the duplicate key is known with other content; it is in the audit log, unless the storage is full.
            Unavailable: the queue, the lane or the house is full; whoever sent it keeps it and offers it again. It is in the
                audit log, once a minute for each lane.
            StorageFullError: only alarms are taken, because the storage is full.
        """
        payload_digest = digest(without_principal(request.payload))

        def work(tx: Transaction) -> Admitted | FloorhandError:
            known = admissions.by_key(tx, request.dedupe_key)
            if known is not None:
                return self._again(tx, request, payload_digest, *known)
            try:
                admission = self.enter(tx, request, payload_digest)
            except StorageFullError:  # what room is left is for alarms; that the storage is full is told anyhow
                raise
            except Unavailable as full:
                self._turned_away.note(tx, request, full.message)
                return full
            if also is not None:
                also(tx, admission)
            return Admitted(admission, is_duplicate=False)

        answer = await self._ledger.transaction(work)
        if isinstance(answer, FloorhandError):
            raise answer
        if not answer.is_duplicate:
            self._notify()
        return answer

    def enter(self, tx: Transaction, request: Request, payload_digest: str = "") -> Admission:
        """Store a request whose key is known to be new, in the caller's own transaction; :meth:`wake` once it is on disk.

        Raises:
            Unavailable: there is no room for it now; ``retry_after_s`` grows with what waits before it.
            StorageFullError: only alarms are taken, because the storage is full.
        """
        if request.kind is RequestKind.INTERJECTION:
            self._require_room_beside(tx, request.lane)
        elif request.priority >= PRIORITY_ALARM:
            self._require_room_in_queue(tx, self._limit * 2)
        else:
            self._require_room_for_talk(tx, request.lane)
        payload_digest = payload_digest or digest(without_principal(request.payload))
        return admissions.insert(tx, self._clock, self._ids, request, payload_digest)

    def wake(self) -> None:
        """Say that something was entered, and is on disk."""
        self._notify()

    def _again(self, tx: Transaction, request: Request, offered: str, admission: Admission, known: str) -> Admitted | Refused:
        """A known key. How it wants to join its lane is content too: a repeat does not turn what was asked into a redirect."""
        if known == offered and admission.arrival is request.arrival:
            return Admitted(admission, is_duplicate=True)
        facts = {"key": request.dedupe_key, "known": known, "offered": offered}
        arrivals = {"known_arrival": str(admission.arrival), "offered_arrival": str(request.arrival)}
        if not self._refuses_talk():  # what room is left is for alarms, and somebody may ask without end
            audit.note(tx, self._clock, "admission_conflict", admission.id, facts | arrivals)
        differs = "arrival" if known == offered else "content"
        message = f"{request.dedupe_key} was admitted before with other {differs}"
        return Refused(message, admission=admission.id, differs=differs, arrival=str(admission.arrival))

    # room -----------------------------------------------------------------------------------------------------------
    def _require_room_in_queue(self, tx: Transaction, limit: int) -> None:
        if (waiting := admissions.count_queued(tx)) >= limit:
            raise _full(f"{_counted(waiting, 'input')} already", waiting, _QUEUE_DRAINS_PER_S)

    def _require_room_beside(self, tx: Transaction, lane: str) -> None:
        """Interjections have a row of their own: "stop that" gets in however much waits, or whatever the card holds.

        Each lane has room for a few. Those whose speaker has work under way find it however many others interject.
        """
        if (own := admissions.count_queued_in(tx, lane)) >= INTERJECTION_LANE_LIMIT:
            raise _full(f"{_counted(own, 'interjection')} already in lane {lane}", own, _LANE_DRAINS_PER_S)
        if admissions.has_work(tx, lanes.own(lane)):
            return
        if (waiting := admissions.count_queued_of(tx, RequestKind.INTERJECTION)) >= INTERJECTION_LIMIT:
            raise _full(f"{_counted(waiting, 'interjection')} already", waiting, _QUEUE_DRAINS_PER_S)

    def _require_room_for_talk(self, tx: Transaction, lane: str) -> None:
        if why := self._refuses_talk():
            raise StorageFullError(why)
        self._require_room_in_queue(tx, self._limit)
        if (waiting := admissions.count_queued_in(tx, lane)) >= self._lane_limit:
            raise _full(f"{_counted(waiting, 'input')} already in lane {lane}", waiting, _LANE_DRAINS_PER_S)
        if not waiting and sessions.open_id(tx, lane) is None:
            self._require_room_for_conversation(tx)

    def _require_room_for_conversation(self, tx: Transaction) -> None:
        """Nobody new is kept out by conversations that nobody goes on with: the one that has rested longest makes room.

        Those of alarms and interjections do not count: there are only so many assets and speakers to have one.
        """
        taken = sessions.count_talk(tx)
        if taken < self._session_limit or sessions.close_longest_idle(tx, self._clock) is not None:
            return
        are = "conversation is" if taken == 1 else "conversations are"
        message = f"{taken} {are} open already, as many as there may be, and in each something waits, runs or is asked"
        wait_s = sessions.may_end_in_s(tx, self._clock, self._question_limit_s)
        raise Unavailable(message, retry_after_s=max(1.0, wait_s), open=taken)


def _full(message: str, waiting: int, drains_per_s: float) -> Unavailable:
    return Unavailable(message, retry_after_s=max(1.0, waiting / drains_per_s), waiting=waiting)


def _counted(count: int, what: str) -> str:
    return f"{count} {what} waits" if count == 1 else f"{count} {what}s wait"
