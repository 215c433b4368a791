"""Kills the core at every commit and every effect of the reference story, once and twice, and audits what is left.

In: how much. Out: a :class:`Tally`. A history is a folder: the first life dies at a point; perhaps the second one, which
recovers, dies too; the last one tells the story to its end.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from crash.books import Findings
from crash.kill_switch import Point
from crash.life import LEDGER, Order
from crash.lives import Broke, Lives, open_lives
from crash.old_ledger import write_history
from crash.tally import Tally
from crash.world import EFFECTS, MACHINE

Tell = Callable[[str], None]

HISTORY_ROWS = 100_000
READY_WITHIN_S = 5.0
"""A core that recovers is to be ready by then, with so many rows behind it."""

_AT_ONCE = 2
_REFERENCES = 3  # lives without a kill; the one with the most points is the story
_TELL_EVERY = 100  # histories
_QUICK_SECOND = 60  # histories with a second kill in a quick run
_SECOND = "then in its recovery"


@dataclass(frozen=True, slots=True)
class Case:
    """One history to be made: the points of its kills in order."""

    kills: tuple[str, ...]
    name: str


class Campaign:
    """Makes histories below ``root`` and tallies them."""

    def __init__(self, lives: Lives, root: Path, tell: Tell, sabotage: str = "") -> None:
        self._lives = lives
        self._root = root
        self._tell = tell
        self._sabotage = sabotage
        self._count = 0
        self._turn = threading.Lock()
        self._recoveries: dict[str, tuple[str, list[Point]]] = {}
        self.tally = Tally()

    def reference(self) -> list[Point]:
        """Tell the story without a kill; return its points."""
        longest: list[Point] = []
        for _ in range(_REFERENCES):
            lived = self._lives.live(self._order(self._folder(), 0, ""))
            self.tally.note("no kill", (), lived.findings)
            longest = max(longest, lived.points, key=len)
        self.tally.points = len(longest)
        return longest

    def kill_once(self, points: Sequence[Point]) -> None:
        """Die at each of these points, and be started again."""
        self._make([Case((point.key,), point.name) for point in points])

    def kill_twice(self, most: int | None) -> None:
        """Die again at each point of each recovery seen so far, or at ``most`` of them, evenly spread."""
        cases = [
            Case((first, second.key), f"{name}, {_SECOND}")
            for first, (name, recovery) in sorted(self._recoveries.items())
            for second in recovery
            if not second.name.startswith("before commit")  # the disk is as after the point before it
        ]
        if most is not None:
            cases = [cases[i * len(cases) // most] for i in range(min(most, len(cases)))]
        self._make(cases)

    def recover_history(self, ledger: Path, within_ms: float) -> None:
        """Die in the middle of a write on a ledger with a long history, and see how soon the next start is ready."""
        folder = self._folder()
        shutil.copy(ledger, folder / LEDGER)
        fatal = f"after {MACHINE} 1"
        died = self._lives.live(Order(str(folder), 0, fatal, is_audited=False))  # what is in the history never happened
        last = self._lives.live(Order(str(folder), 1, is_audited=False))
        took_ms = self.tally.history_ready_ms = last.ready_ms or 0.0
        late = [] if died.has_died and took_ms <= within_ms else [f"it was ready after {took_ms} ms, not within {within_ms:g}"]
        self.tally.note("after a long history", (fatal,), Findings(broken=late))
        shutil.rmtree(folder)

    def _make(self, cases: Sequence[Case]) -> None:
        began_s = time.monotonic()
        for done, _ in enumerate(self._lives.each(self._history, cases), start=1):
            if done % _TELL_EVERY == 0 or done == len(cases):
                left_min = (time.monotonic() - began_s) / done * (len(cases) - done) / 60
                more = f"about {left_min:.0f} min more" if left_min >= 1 else "soon done"
                self._tell(f"{done} of {len(cases)} histories, {len(self.tally.faults)} faults, {more}")

    def _history(self, case: Case) -> None:
        folder = self._folder()
        try:
            self._lead(case, folder)
        except Broke as broke:
            self._note(case.name, case, Findings(broken=[f"it did not come to its end: {broke}"]))
        if not self._is_kept(folder):
            shutil.rmtree(folder)

    def _lead(self, case: Case, folder: Path) -> None:
        name = case.name
        for number, deadly in enumerate(case.kills):
            lived = self._lives.live(self._order(folder, number, deadly))
            if not lived.has_died:  # works shared commits, so that it had fewer points: a history with a kill less
                self._note("not reached", case, lived.findings)
                return
            if len(case.kills) == 1:
                name = lived.points[-1].name
            with self._turn:
                self.tally.complain(name, case.kills, lived.findings)
        last = self._lives.live(self._order(folder, len(case.kills), ""))
        if len(case.kills) == 1:
            with self._turn:
                self._recoveries[case.kills[0]] = (name, last.recovery)
        self._note(name, case, last.findings, last.ready_ms)

    def _note(self, name: str, case: Case, findings: Findings, ready_ms: float | None = None) -> None:
        with self._turn:
            self.tally.note(name, case.kills, findings, ready_ms)
            self.tally.lives = self._lives.count

    def _is_kept(self, folder: Path) -> bool:
        """Keep the folder of the first fault."""
        with self._turn:
            if self.tally.faults and not self.tally.kept:
                self.tally.kept = str(folder)
            return self.tally.kept == str(folder)

    def _order(self, folder: Path, number: int, deadly: str) -> Order:
        return Order(str(folder), number, deadly, self._sabotage)

    def _folder(self) -> Path:
        with self._turn:
            self._count += 1
            folder = self._root / f"{self._count:05}"
        folder.mkdir()
        return folder


def story(tell: Tell) -> list[Point]:
    """Tell the story once, without a kill; return its points in order."""
    with _folder() as root, open_lives(1) as lives:
        return Campaign(lives, root, tell).reference()


def campaign(quick: bool, tell: Tell, *, point: int | None = None, sabotage: str = "", keep_in: Path | None = None) -> Tally:
    """Run the campaign. ``point`` picks one point of the story; the folder of the first fault is moved to ``keep_in``."""
    with _folder() as root, open_lives(_AT_ONCE) as lives:
        work = Campaign(lives, root, tell, sabotage)
        points = work.reference()
        tell(f"the story has {len(points)} points")
        if point is None and not sabotage:
            old = root / "old.db"
            work.tally.history_rows = write_history(old, HISTORY_ROWS)
            work.recover_history(old, READY_WITHIN_S * 1e3)
            tell(f"ready after {work.tally.history_ready_ms:.0f} ms with {work.tally.history_rows} rows of history")
        chosen = points if point is None else points[point : point + 1]
        if point is not None:
            tell(f"point {point}: {', '.join(each.name for each in chosen) or 'there is none'}")
        if quick and point is None:
            chosen = _sample(points)
        work.kill_once(chosen)
        work.kill_twice(_QUICK_SECOND if quick else None)
        tally = work.tally
        if tally.kept and keep_in is not None:
            kept = keep_in / Path(tally.kept).name
            shutil.rmtree(kept, ignore_errors=True)
            shutil.move(tally.kept, kept)
            tally.kept = str(kept)
        return tally


def _sample(points: Sequence[Point]) -> list[Point]:
    """Every effect, and the first commit of each kind, before and after."""
    names = set[str]()
    chosen = []
    for each in points:
        if each.name.split()[1] in EFFECTS or each.name not in names:
            chosen.append(each)
        names.add(each.name)
    return chosen


@contextmanager
def _folder() -> Iterator[Path]:
    # SIGKILL loses nothing that was written, so memory tests the same and is fifty times faster.
    memory = Path("/dev/shm")
    usable = memory.is_dir() and os.access(memory, os.W_OK)
    with tempfile.TemporaryDirectory(prefix="floorhand-crash-", dir=memory if usable else None) as folder:
        yield Path(folder)
