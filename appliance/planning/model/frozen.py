"""What a session's model knows of playbooks and pinned notes: as it was when the session first needed a model (L5).

A correction reaches new sessions; running ones keep what they began with, and :meth:`FrozenKnowledge.stale` names them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from appliance.contracts.clock import Clock
from appliance.contracts.principal import AccessLevel
from appliance.contracts.store import Ledger
from appliance.foundation.canonical import digest
from appliance.planning.playbooks.playbooks import Playbooks
from appliance.store import session_snapshots

_MOST_PINNED = 12  # notes; more than a small window's share of them holds


@dataclass(frozen=True, slots=True)
class Knowledge:
    """``playbooks``: ``{name, description, access}``, by name. ``memories``: ``{id, asset, text}``, newest first.
    ``taken_utc`` None: not frozen yet."""

    commit: str
    playbooks: tuple[Mapping[str, str], ...]
    memories: tuple[Mapping[str, str], ...]
    taken_utc: datetime | None = None

    @property
    def content(self) -> dict[str, Any]:
        """The stored form."""
        return {"playbooks": [dict(each) for each in self.playbooks], "memories": [dict(each) for each in self.memories]}

    @property
    def digest(self) -> str:
        """Digest of what it says, whatever commit says it."""
        return digest(self.content)

    def seen_by(self, level: AccessLevel, *, may_search: bool) -> Knowledge:
        """Return what somebody of this level may know: the playbooks they may run, and notes if they may search memories."""
        playbooks = tuple(each for each in self.playbooks if AccessLevel.of_word(each["access"]) <= level)
        return replace(self, playbooks=playbooks, memories=self.memories if may_search else ())


class FrozenKnowledge:
    """Takes and keeps the snapshots. ``scope`` is that of the site's memories."""

    def __init__(self, ledger: Ledger, clock: Clock, playbooks: Playbooks, scope: str) -> None:
        self._ledger = ledger
        self._clock = clock
        self._playbooks = playbooks
        self._scope = scope

    async def of(self, session_id: str, *, keep: bool = True) -> Knowledge:
        """Return what a session's model is shown; what is there now, and that is kept from now on, when it has none yet.

        ``keep`` False only looks.

        Raises:
            Unavailable: the ledger cannot be written.
        """
        stored = await session_snapshots.find(self._ledger, session_id)
        if stored is None:
            now = await self.now()
            if not keep:
                return now
            stored = await self._ledger.transaction(
                lambda tx: session_snapshots.take(
                    tx, self._clock, session_id, playbooks_commit=now.commit, digest=now.digest, content=now.content
                )
            )
        content = stored.content
        return Knowledge(stored.playbooks_commit, tuple(content["playbooks"]), tuple(content["memories"]), stored.taken_utc)

    async def now(self) -> Knowledge:
        """Return what a new session would be shown."""
        books = (self._playbooks[name] for name in self._playbooks.names)
        shown = tuple({"name": each.name, "description": each.description, "access": each.access} for each in books)
        pinned = await session_snapshots.pinned(self._ledger, self._scope, _MOST_PINNED)
        return Knowledge(self._playbooks.commit, shown, tuple(pinned))

    async def stale(self) -> Sequence[Mapping[str, Any]]:
        """Return the running sessions that hold something else than what is there now: ``{session, lane, taken_utc, commit,
        commit_now, changed}``; ``changed`` names playbooks and memories that are new, other or gone."""
        now = await self.now()
        running = await session_snapshots.running(self._ledger)
        return [
            {
                "session": stored.session_id,
                "lane": lane,
                "taken_utc": stored.taken_utc.isoformat(),
                "commit": stored.playbooks_commit,
                "commit_now": now.commit,
                "changed": _changed(stored.content, now.content),
            }
            for lane, stored in running
            if stored.digest != now.digest
        ]


def _changed(held: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    told: list[str] = []
    for part, key, word in (("playbooks", "name", "playbook"), ("memories", "id", "memory")):
        before, after = ({each[key]: each for each in content[part]} for content in (held, now))
        names = sorted(before.keys() | after.keys())
        told += [
            f"{word} {name}: {_how(before.get(name), after.get(name))}" for name in names if before.get(name) != after.get(name)
        ]
    return told


def _how(before: object, after: object) -> str:
    return "new" if before is None else "gone" if after is None else "changed"
