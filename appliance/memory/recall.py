"""The one way to find a memory: routed by what is asked, within a budget, always inside a scope.

A route that is expected to take longer than what is left of the budget, that cannot run now, or that does not finish in time is
given up for a cheaper one, and the answer says so. What is found is evidence with its source, never an instruction: it is
cleaned of invisible characters, names where it comes from, and is left out when it has nothing to do with the question.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from zoneinfo import ZoneInfo

from appliance.contracts.clock import Clock
from appliance.contracts.errors import Refused, Unavailable
from appliance.contracts.memory import Recall, Recollection, Tier
from appliance.memory.episodic import EpisodicMemory
from appliance.memory.procedural import ProcedureHit, ProcedureRepository
from appliance.memory.recalled import RecalledTexts
from appliance.memory.routes import CHEAPER, Route, RouteCosts, choose_route
from appliance.memory.semantic import Found, SemanticMemory
from appliance.memory.settings import MemorySettings
from appliance.memory.time_window import Window
from appliance.memory.words import STOP_WORDS, plain, words
from appliance.memory.working import Note, WorkingMemory
from appliance.store.memories import StoredMemory

log = logging.getLogger(__name__)

_TIER = {
    Route.PROCEDURE: Tier.PROCEDURAL,
    Route.LIKENESS: Tier.SEMANTIC,
    Route.WORDS: Tier.SEMANTIC,
    Route.TIME: Tier.EPISODIC,
    Route.WORKING: Tier.WORKING,
}
_LEAST_SHARE = 0.34  # of a question's words a procedure must hold: two of five, or it is about something else


@dataclass(frozen=True, slots=True)
class _Question:
    text: str
    scope: str
    asset: str
    fault: str
    session: str
    window: Window | None
    limit: int


class BudgetedRecall:
    """Implements :class:`appliance.contracts.ports.Recaller`."""

    def __init__(
        self,
        clock: Clock,
        settings: MemorySettings,
        working: WorkingMemory,
        episodic: EpisodicMemory,
        semantic: SemanticMemory,
        procedures: ProcedureRepository | None,
        recalled: RecalledTexts,
    ) -> None:
        self._clock = clock
        self._settings = settings
        self._working = working
        self._episodic = episodic
        self._semantic = semantic
        self._procedures = procedures
        self._recalled = recalled
        self.costs = RouteCosts()

    async def recall(
        self,
        question: str,
        *,
        scope: str,
        asset: str,
        fault: str,
        now: datetime,
        budget_ms: float = 0.0,
        session: str = "",
        limit: int = 0,
    ) -> Recall:
        """Find memories. A budget or limit of 0 is that of the settings; ``session`` narrows working memory to one.

        Raises:
            Refused: no scope. There is no way to ask across scopes.
        """
        if not scope.strip():
            raise Refused("a recall needs a scope")
        started_ns = self._clock.monotonic_ns()
        budget_ms = budget_ms or self._settings.budget_ms
        local = now.astimezone(ZoneInfo(self._settings.timezone)) if self._settings.timezone else now
        first, window = choose_route(question, local)
        asked = _Question(question, scope, asset, fault, session, window, limit or self._settings.results)
        given_up: list[str] = []
        found: list[Recollection] = []
        route = first
        for route in (first, *CHEAPER[first]):
            left_ms = budget_ms - self._spent_ms(started_ns)
            why, found = await self._attempt(route, asked, left_ms, is_last=not CHEAPER[route])
            if not why:
                break
            given_up.append(why)
        elapsed_ms = self._spent_ms(started_ns)
        degraded = "; ".join(given_up) + f": {route} used instead" if given_up else ""
        log.info(
            "memory.recalled",
            extra={"route": route, "found": len(found), "elapsed_ms": round(elapsed_ms, 2), "degraded": degraded},
        )
        return Recall(tuple(found), _TIER[route], elapsed_ms, budget_ms, degraded)

    async def _attempt(self, route: Route, asked: _Question, left_ms: float, *, is_last: bool) -> tuple[str, list[Recollection]]:
        """Try a route within what is left; return why it was given up, empty when it was not, and what it found."""
        if why := self._unavailable(route):
            return why, []
        expected_ms = self.costs.expected_ms(route)
        if expected_ms > left_ms and not is_last:
            self.costs.passed_over(route)
            return f"{route} expected to take {expected_ms:.0f} ms of {max(0.0, left_ms):.0f}", []
        started_ns = self._clock.monotonic_ns()
        try:
            async with asyncio.timeout(None if is_last else left_ms / 1000):
                found = await self._run(route, asked)
        except TimeoutError:
            self.costs.measured(route, max(expected_ms, self._spent_ms(started_ns)))
            return f"{route} did not finish within {left_ms:.0f} ms", []
        except Unavailable as error:
            log.warning("memory.route_failed", extra={"route": route, "why": error.message})
            return f"{route} failed ({error.message})", []
        self.costs.measured(route, self._spent_ms(started_ns))
        if not found and route is Route.PROCEDURE:
            return f"no {route} found", []
        return "", found

    def _unavailable(self, route: Route) -> str:
        if route is Route.LIKENESS and not self._semantic.is_ready:
            return "no sentence encoder is loaded"
        if route is Route.PROCEDURE and self._procedures is None:
            return "there is no procedure repository"
        return ""

    async def _run(self, route: Route, asked: _Question) -> list[Recollection]:
        narrowed = {"scope": asked.scope, "asset": asked.asset, "fault": asked.fault, "limit": asked.limit}
        match route:
            case Route.PROCEDURE:
                return await self._procedural(asked)
            case Route.LIKENESS:
                return self._handed_out(await self._semantic.similar(asked.text, **narrowed))  # type: ignore[arg-type]
            case Route.WORDS:
                return self._handed_out(await self._semantic.by_words(asked.text, **narrowed))  # type: ignore[arg-type]
            case Route.TIME:
                return await self._of_time(asked)
            case Route.WORKING:
                return self._in_hand(asked)

    async def _of_time(self, asked: _Question) -> list[Recollection]:
        assert asked.window is not None  # the route is chosen by it
        since, until = asked.window
        rows = await self._episodic.between(
            since, until, scope=asked.scope, asset=asked.asset, fault=asked.fault, limit=asked.limit
        )
        return self._handed_out([Found(row, 1 / (1 + n), "in the time asked about") for n, row in enumerate(rows)])

    async def _procedural(self, asked: _Question) -> list[Recollection]:
        assert self._procedures is not None  # asked about before
        terms = [_root(w) for w in words(asked.text) if w not in STOP_WORDS]
        hits = await self._procedures.search(terms, asked.limit)
        return [_from_procedure(h) for h in hits if h.share >= _LEAST_SHARE]

    def _in_hand(self, asked: _Question) -> list[Recollection]:
        notes = self._working.notes(asked.scope, asked.session)
        wanted = set(words(asked.text)) - STOP_WORDS
        inside = [n for n in notes if asked.asset in ("", n.asset) and asked.fault in ("", n.fault)]
        about = [n for n in inside if wanted & {*words(n.text), n.kind}] or inside
        return [_from_note(n, 1 / (1 + place)) for place, n in enumerate(about[: asked.limit])]

    def _handed_out(self, found: Sequence[Found]) -> list[Recollection]:
        self._recalled.add(f.memory for f in found)
        return [_from_memory(f.memory, f.score, f.match) for f in found]

    def _spent_ms(self, since_ns: int) -> float:
        return (self._clock.monotonic_ns() - since_ns) / 1e6


def _from_memory(memory: StoredMemory, score: float, match: str) -> Recollection:
    return Recollection(
        tier=memory.tier,
        id=memory.id,
        text=plain(memory.text),
        asset=memory.asset,
        fault=memory.fault,
        score=score,
        occurred_utc=memory.occurred_utc,
        verified=memory.verified,
        cite=f"{memory.tier}:{memory.id}",
        facts={**{k: plain(v) if isinstance(v, str) else v for k, v in memory.facts.items()}, "match": match},
    )


def _from_note(note: Note, score: float) -> Recollection:
    return Recollection(
        tier=Tier.WORKING,
        id=note.id,
        text=plain(note.text),
        asset=note.asset,
        fault=note.fault,
        score=score,
        occurred_utc=note.at_utc,
        verified=False,
        cite=f"working:{note.session}/{note.id}",
        facts={"kind": note.kind},
    )


def _from_procedure(hit: ProcedureHit) -> Recollection:
    return Recollection(
        tier=Tier.PROCEDURAL,
        id=hit.path,
        text=plain(hit.excerpt),
        asset="",
        fault="",
        score=hit.share,
        occurred_utc=None,
        verified=hit.is_approved,
        cite=f"{hit.path}@{hit.commit[:12]}",
    )


def _root(word: str) -> str:
    """The part of a word its forms share, roughly: ``overheating`` and ``overheats`` are found as ``overheat``."""
    for ending in ("ings", "ing", "edly", "ed", "es", "s"):
        if word.isascii() and word.endswith(ending) and len(word) - len(ending) >= 4:
            return word.removesuffix(ending)
    return word
