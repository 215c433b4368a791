"""L1: what a session has in hand. In this process only, bounded, gone with the session."""

from __future__ import annotations

import logging
from collections import OrderedDict, deque
from dataclasses import dataclass, field
from datetime import datetime

from appliance.contracts.clock import Clock, IdSource
from appliance.contracts.errors import Refused
from appliance.memory.settings import MemorySettings

log = logging.getLogger(__name__)

DRAFT_KIND = "draft"
"""Notes of this kind are memories being written, not something to recall."""

_NOTE_OVERHEAD_BYTES = 400  # measured: object, id, time and deque slot of one note in CPython 3.11, rounded up


@dataclass(frozen=True, slots=True)
class Note:
    """One thing in hand. ``kind`` says what it is: ``edit``, ``said``, ``draft``, ``note`` …"""

    id: str
    session: str
    scope: str
    kind: str
    text: str
    asset: str
    fault: str
    at_utc: datetime
    key: str = ""
    confidence: float = 1.0

    @property
    def size_bytes(self) -> int:
        """What it counts against the bound."""
        texts = (self.session, self.scope, self.kind, self.text, self.asset, self.fault)
        return _NOTE_OVERHEAD_BYTES + sum(len(t.encode("utf-8", "surrogatepass")) for t in texts)


@dataclass(slots=True, eq=False)
class _Desk:
    scope: str
    notes: deque[Note] = field(default_factory=deque)
    bytes: int = 0
    evicted: int = 0


class WorkingMemory:
    """Notes by session. A session past its bound loses its oldest notes, and says how many."""

    def __init__(self, clock: Clock, ids: IdSource, settings: MemorySettings) -> None:
        self._clock = clock
        self._ids = ids
        self._settings = settings
        self._desks: OrderedDict[str, _Desk] = OrderedDict()

    def note(
        self,
        session: str,
        scope: str,
        text: str,
        *,
        kind: str = "note",
        asset: str = "",
        fault: str = "",
        key: str = "",
        confidence: float = 1.0,
    ) -> Note:
        """Keep something for as long as the session lasts. A ``key`` makes a repeat the same note.

        Raises:
            Refused: no session, no scope, another scope than the session's, or larger than the whole bound.
        """
        if not session or not scope:
            raise Refused("working memory belongs to a session and a scope")
        desk = self._desk(session, scope)
        if key:
            for known in desk.notes:
                if known.key == key and known.kind == kind:
                    return known
        note = Note(self._ids.mint("note"), session, scope, kind, text, asset, fault, self._clock.utc(), key, confidence)
        if note.size_bytes > self._settings.working_bytes:
            raise Refused(f"{note.size_bytes} bytes do not fit into the {self._settings.working_bytes} of working memory")
        desk.notes.append(note)
        desk.bytes += note.size_bytes
        while desk.bytes > self._settings.working_bytes:
            desk.bytes -= desk.notes.popleft().size_bytes
            desk.evicted += 1
        return note

    def drop(self, note: Note) -> None:
        """Take a note back; harmless when it is gone."""
        desk = self._desks.get(note.session)
        if desk is not None and note in desk.notes:
            desk.notes.remove(note)
            desk.bytes -= note.size_bytes
            if not desk.notes and not desk.evicted:
                del self._desks[note.session]

    def notes(self, scope: str, session: str = "") -> list[Note]:
        """Return the notes of a scope, newest first; of one session if it is named. Drafts in the making are not notes."""
        desks = [d for s, d in self._desks.items() if d.scope == scope and session in ("", s)]
        found = [n for d in desks for n in d.notes if n.kind != DRAFT_KIND]
        return sorted(found, key=lambda n: n.id, reverse=True)

    def evicted(self, scope: str, session: str = "") -> int:
        """Return how many notes were lost to the bound."""
        return sum(d.evicted for s, d in self._desks.items() if d.scope == scope and session in ("", s))

    def size_bytes(self, session: str) -> int:
        """Return what a session holds."""
        desk = self._desks.get(session)
        return 0 if desk is None else desk.bytes

    @property
    def sessions(self) -> int:
        """Sessions that hold anything."""
        return len(self._desks)

    def close(self, session: str) -> None:
        """Forget everything of a session."""
        self._desks.pop(session, None)

    def _desk(self, session: str, scope: str) -> _Desk:
        desk = self._desks.get(session)
        if desk is None:
            desk = self._desks[session] = _Desk(scope)
            while len(self._desks) > self._settings.working_sessions:
                lost, _ = self._desks.popitem(last=False)
                log.warning("memory.working_session_dropped", extra={"session": lost, "bound": self._settings.working_sessions})
        elif desk.scope != scope:
            raise Refused(f"session {session} works in another scope")
        self._desks.move_to_end(session)
        return desk
