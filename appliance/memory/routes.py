"""Which tier a question goes to, what that is expected to cost, and what is cheaper. Pure."""

from __future__ import annotations

import re
from datetime import datetime
from enum import StrEnum

from appliance.memory.time_window import Window, time_window


class Route(StrEnum):
    """Ways to find memories, dearest first."""

    PROCEDURE = "procedures"  # L4: log and content of the Git tree
    LIKENESS = "likeness"  # L3: vectors with gated words
    TIME = "time"  # L2: SQL over a window
    WORDS = "words"  # L3 by full text alone
    WORKING = "working memory"  # L1


CHEAPER: dict[Route, tuple[Route, ...]] = {
    Route.PROCEDURE: (Route.LIKENESS, Route.WORDS, Route.WORKING),
    Route.LIKENESS: (Route.WORDS, Route.WORKING),
    Route.TIME: (Route.WORKING,),
    Route.WORDS: (Route.WORKING,),
    Route.WORKING: (),
}
"""What a route is given up for, in this order."""

_FIRST_GUESS_MS = {  # measured at 1,000 memories on two x86 cores; replaced by what is measured here
    Route.PROCEDURE: 40.0,
    Route.LIKENESS: 8.0,
    Route.TIME: 2.0,
    Route.WORDS: 4.0,
    Route.WORKING: 0.1,
}
_NEWEST_WEIGHT = 0.2  # of the newest measurement in the moving mean: five of them make two thirds of it
_FORGIVENESS = 0.9  # an estimate shrinks each time its route is passed over, or one slow moment would close it for good

_HOW = re.compile(
    r"\bhow (?:do|can|should|must|would) (?:i|we|you|one)\b|\bhow to\b|\bwhat(?:'s| is) the procedure\b|\bprocedure for\b"
    r"|怎么(?:样才能|[^了回样]|$)|如何|怎样|步骤|流程是"
)
_MINE = re.compile(
    r"\b(?:last|latest|most recent)\b.{0,60}\bi(?:'ve| have)? ?(?:just )?"
    r"(?:edit|chang|wrote|writ|said|say|set|ask|creat|touch|note|did)|\bwhat did i (?:just|last)\b"
    r"|我(?:最近|刚才?|上次|最后)(?:一次)?(?:编辑|修改|改|写|说|设|问|做)|(?:最近|上次|最后).{0,20}我.{0,6}(?:编辑|修改|改|写|说|设|问|做)"
)


def choose_route(question: str, now: datetime) -> tuple[Route, Window | None]:
    """Return where a question goes: "how do I" to procedures, a named time to episodes, "the last … I edited" to working
    memory, all else to likeness; and the window if a time is named."""
    text = " ".join(question.lower().split())
    if _HOW.search(text):
        return Route.PROCEDURE, None
    if (window := time_window(text, now)) is not None:
        return Route.TIME, window
    return (Route.WORKING if _MINE.search(text) else Route.LIKENESS), None


class RouteCosts:
    """A moving mean of what each route cost, in ms."""

    def __init__(self) -> None:
        self._expected_ms = dict(_FIRST_GUESS_MS)

    def expected_ms(self, route: Route) -> float:
        """What the next use is expected to cost."""
        return self._expected_ms[route]

    def measured(self, route: Route, cost_ms: float) -> None:
        """Take in what a use cost."""
        self._expected_ms[route] += _NEWEST_WEIGHT * (cost_ms - self._expected_ms[route])

    def passed_over(self, route: Route) -> None:
        """A route was given up for its cost: expect a little less next time, so that it is tried again."""
        self._expected_ms[route] *= _FORGIVENESS

    def to_json(self) -> dict[str, float]:
        """Route -> expected ms, for status."""
        return {route.value: round(ms, 2) for route, ms in self._expected_ms.items()}
