"""The soak (``make soak``): the real core with broker, plant and coordinator, 200 lanes, killed and started again all the time.

Measured all along: memory, descriptors, threads, the length of the write-ahead log. At the end, with the core gone, the ledger is
compared with what the broker and the console were told and with what the plant was written. The last line is JSON, and the exit
code says the same.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import shutil
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from typing import Any

import httpx

from crash.soak_books import Books, Findings, writes_of
from crash.soak_load import Console, Gateway
from crash.soak_site import SoakSite
from crash.soak_watch import Life, Sample, Watch, sparkline

RESULT = Path("build/soak/soak.json")
_QUIET_WITHIN_S = 120.0
_RSS_MOST_MB = 400.0  # a core with all its rooms takes 235 MB under this load
_WAL_LIMIT_MB = 24.0  # 16 MiB is its bound; a burst may pass that until the next commit
_FD_SLOPE_SHORT_LIMIT = 120.0  # in a run of short lives: two connections within four seconds are thirty a minute
_FD_SLOPE_LIMIT = 4.0  # descriptors a minute: a leak of one a turn would be hundreds; connections that come and go are one
# The broker is not killed: mosquitto writes down what it acknowledged a message or two later, and nobody could tell its loss
# from the core's.
_TROUBLE = {"broker": ("stop", "pause"), "coordinator": ("kill", "stop"), "shell": ("read", "write")}


@dataclass(frozen=True, slots=True)
class Pace:
    """How hard. Lives last between ``life_s``; every ``steady_every``-th lasts ``steady_s``, long enough to see a leak.

    ``rss_limit_mb``: growth a minute in a steady life, after ``warm_up_s``, that is called a leak; None in a run whose lives are
    too short to tell one from what a core takes up once.
    """

    run_s: float
    life_s: tuple[float, float]
    steady_every: int
    steady_s: float
    warm_up_s: float
    least_s: float
    rss_limit_mb: float | None
    neighbour_every_s: float
    ready_within_s: float
    alarms_a_second: float = 8.0
    console_pause_s: float = 0.3


def pace(minutes: float, quick: bool) -> Pace:
    """Return the pace of a short run for every day, or of a long one."""
    if quick:
        return Pace(25, (2.0, 4.0), 4, 10, warm_up_s=5, least_s=4, rss_limit_mb=None, neighbour_every_s=9, ready_within_s=10)
    return Pace(
        minutes * 60,
        (3.0, 15.0),
        4,
        75,
        warm_up_s=25,
        least_s=40,
        rss_limit_mb=4,
        neighbour_every_s=25,
        ready_within_s=5,  # requirement R4
    )


class Soak:
    """One run."""

    def __init__(self, site: SoakSite, pace: Pace, seed: int, tell: Callable[[str], None]) -> None:
        self._site, self._pace, self._tell = site, pace, tell
        self._dice, self._seed = Random(seed), seed
        self.watch = Watch(site.write_ahead_log, self._count_waiting)
        self.kills = 0
        self.wrong: list[str] = []
        self.neighbours: dict[str, int] = {}
        self._ready = asyncio.Event()
        self._over = asyncio.Event()
        self.console = Console(self._post, Random(seed + 1), is_ending=lambda: not self._ready.is_set())

    async def run(self) -> Findings:
        """Load, kill, start again; then let everything come to rest and look into the books."""
        site = self._site
        await site.open()
        await site.start_coordinator()
        # The broker keeps what is published for a session that it knows: there must have been one.
        async with self._life() as first:
            await site.client.until(
                "/v1/status", lambda status: status["mqtt_connected"], what="a session at the broker", within_s=_QUIET_WITHIN_S
            )
            await self._end_life(first, is_kill=True)
        self.gateway = Gateway(site.broker.port, site.gateway_password, Random(self._seed + 2), self._pace.alarms_a_second)
        load = asyncio.gather(
            self.gateway.run(self._over),
            self.console.set_things(self._over, self._pace.console_pause_s),
            self.console.ask_things(self._over, self._pace.console_pause_s),
            self._trouble_neighbours(),
        )
        try:
            await self._live_and_die(load)
            async with self._life() as last:
                self._over.set()
                await load
                await self._until_quiet()
                await self._end_life(last, is_kill=False)
        finally:
            load.cancel()
            await asyncio.gather(load, return_exceptions=True)
        await asyncio.sleep(0)
        books = Books(site.database)
        return books.check(self.gateway.acknowledged, self.console.answered, writes_of(site.plant.reports))

    async def _live_and_die(self, load: asyncio.Future[Any]) -> None:
        ends_s = time.monotonic() + self._pace.run_s
        while time.monotonic() < ends_s:
            if load.done():
                await load  # it raises what ended it
            if self._dice.random() < 0.2:
                await self._die_while_starting()
            async with self._life() as life:
                is_steady = life.number % self._pace.steady_every == 0
                lasts_s = self._pace.steady_s if is_steady else self._dice.uniform(*self._pace.life_s)
                await asyncio.sleep(min(lasts_s, max(0.0, ends_s - time.monotonic())))
                await self._end_life(life, is_kill=self._dice.random() < 0.75)
            if is_steady:
                events, questions = len(self.gateway.acknowledged), len(self.console.answered)
                self._tell(f"soak: {self.kills} kills, {events} alarm events, {questions} questions")

    async def _end_life(self, life: Life, *, is_kill: bool) -> None:
        self._ready.clear()
        life.ended_by = "kill" if is_kill else "stop"
        if is_kill:
            self.kills += 1
            await self._site.core.kill()
        elif (code := await self._site.core.stop()) != 0:
            self.wrong.append(f"life {life.number} was asked to end and ended with {code}")

    async def _die_while_starting(self) -> None:
        self._site.core = self._site.make_core()
        await self._site.core.start()
        await asyncio.sleep(self._dice.uniform(0.2, 2.5))
        self.kills += 1
        await self._site.core.kill()

    @contextlib.asynccontextmanager
    async def _life(self) -> AsyncIterator[Life]:
        began_s = time.monotonic()
        await self._site.start_core(until_whole=False)
        life = Life(len(self.watch.lives) + 1, round(time.monotonic() - began_s, 2))
        following = asyncio.create_task(self.watch.follow(life, self._site.core.pid))
        self._ready.set()
        try:
            yield life
        finally:
            self._ready.clear()
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)

    async def _trouble_neighbours(self) -> None:
        """Stop and kill broker and coordinator, and hold the ledger in a shell; the core is to mind none of it."""
        while not self._over.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._dice.uniform(0.5, 1.5) * self._pace.neighbour_every_s):
                    await self._over.wait()
                    return
            which, lasts_s = self._dice.choice(tuple(_TROUBLE)), self._dice.uniform(0.2, 2.0)
            how = self._dice.choice(_TROUBLE[which])
            self.neighbours[f"{which} {how}"] = self.neighbours.get(f"{which} {how}", 0) + 1
            if which == "shell":
                await self._hold(how, lasts_s)
                continue
            if how == "pause":
                self._site.broker.pause()
                await asyncio.sleep(lasts_s)
                self._site.broker.resume()
                continue
            neighbour = getattr(self._site, which)
            await getattr(neighbour, how)()
            await asyncio.sleep(lasts_s)
            await (self._site.start_coordinator() if which == "coordinator" else neighbour.start())

    async def _hold(self, how: str, lasts_s: float) -> None:
        """Hold the ledger as a technician's shell does, who reads it or is about to write."""
        command = (sys.executable, "-m", "crash.soak_shell", str(self._site.database), how, f"{lasts_s:.1f}")
        await (await asyncio.create_subprocess_exec(*command, stderr=asyncio.subprocess.DEVNULL)).wait()

    async def _post(self, path: str, body: dict[str, Any]) -> Any:
        await self._ready.wait()
        try:
            return await self._site.client.post(path, body)
        except RuntimeError as error:  # the client was closed under it, as its core was
            raise httpx.TransportError(str(error)) from error

    async def _count_waiting(self) -> int:
        with contextlib.suppress(httpx.HTTPError, RuntimeError):  # it is being ended, or was
            return len(await self._site.client.get("/v1/admissions?status=queued&limit=1000"))
        return 0

    async def _until_quiet(self) -> None:
        """Wait until what the broker holds for us has come in, and nothing is queued, running or to be told. What a question
        waits for is ended by a person who says no."""
        books = Books(self._site.database)
        with contextlib.suppress(TimeoutError):  # what is lost is named by the books
            async with asyncio.timeout(_QUIET_WITHIN_S):
                while books.missing(self.gateway.acknowledged):  # noqa: ASYNC110 - it is looked at in the ledger of another process
                    await asyncio.sleep(0.05)
        for path in ("/v1/admissions?status=queued", "/v1/admissions?status=started"):
            await self._site.client.until(path, lambda rows: not rows, what=f"{path} empty", within_s=_QUIET_WITHIN_S)
        for channel in ("speech", "mqtt"):
            for status in ("pending", "attempting"):
                path = f"/v1/deliveries?channel={channel}&status={status}"
                await self._site.client.until(path, lambda rows: not rows, what=f"{path} empty", within_s=_QUIET_WITHIN_S)


def verdict(soak: Soak, findings: Findings, pace: Pace) -> tuple[dict[str, Any], list[str]]:
    """Return the last line, and every reason why it is not ``ok``."""
    lives, samples = soak.watch.lives, soak.watch.samples()
    rss = _worst(lives, lambda sample: sample.rss_mb, pace)
    fds = _worst(lives, lambda sample: float(sample.fds), pace)
    rss_mb = max((sample.rss_mb for sample in samples), default=0.0)
    wal_mb = max((sample.wal_mb for sample in samples), default=0.0)
    slowest_s = max(life.ready_s for life in lives)
    fds_most = _FD_SLOPE_SHORT_LIMIT if pace.rss_limit_mb is None else _FD_SLOPE_LIMIT
    faults = [*findings.lost, *findings.doubled, *findings.wrong, *soak.wrong, *soak.console.doubled]
    limits = (
        (rss_mb > _RSS_MOST_MB, f"the core took {rss_mb} MB of memory"),
        (rss is not None and pace.rss_limit_mb is not None and rss > pace.rss_limit_mb, f"memory grows by {rss} MB a minute"),
        (fds is not None and fds > fds_most, f"descriptors grow by {fds} a minute"),
        (wal_mb > _WAL_LIMIT_MB, f"the write-ahead log was {wal_mb} MB long"),
        (slowest_s > pace.ready_within_s, f"READY took {slowest_s} s"),
        (any(status >= 500 for status in soak.console.refused), f"people were answered {soak.console.refused}"),
    )
    faults += [why for is_broken, why in limits if is_broken]
    return {
        "ok": not faults,
        "minutes": round(pace.run_s / 60, 1),
        "kills": soak.kills,
        "admissions": findings.admissions,
        "lanes": findings.lanes,
        "lost": len(findings.lost),
        "doubled": len(findings.doubled) + len(soak.console.doubled),
        "rss_max": rss_mb,
        "rss_slope": None if pace.rss_limit_mb is None else rss,
        "fd_slope": fds,
        "wal_max": wal_mb,
        "ready_max_s": slowest_s,
        "waiting_max": max((sample.waiting for sample in samples), default=0),
        "unknown": findings.unknown,
    }, faults


def _worst(lives: list[Life], of: Callable[[Sample], float], pace: Pace) -> float | None:
    slopes = [slope for life in lives if (slope := life.slope(of, pace.warm_up_s, pace.least_s)) is not None]
    return round(max(slopes), 3) if slopes else None


def show(soak: Soak, findings: Findings, pace: Pace) -> None:
    """Print the table and the pictures."""
    print("life  ready s  lasted s  rss MB  MB/min  fds threads  wal MB  ended by")
    for life in soak.watch.lives:
        if life.samples:
            last = life.samples[-1]
            grows = life.slope(lambda sample: sample.rss_mb, pace.warm_up_s, pace.least_s)
            shown = "-" if grows is None else f"{grows:.2f}"
            wal_mb = max(sample.wal_mb for sample in life.samples)
            print(f"{life.number:>4} {life.ready_s:>8.2f} {last.age_s:>9.1f} {last.rss_mb:>7.1f} {shown:>7} {last.fds:>4}"
                  f" {last.threads:>7} {wal_mb:>7.2f}  {life.ended_by}")  # fmt: skip
    samples = soak.watch.samples()
    for name, values in (
        ("rss", [sample.rss_mb for sample in samples]), ("fds", [float(sample.fds) for sample in samples]),
        ("wal", [sample.wal_mb for sample in samples]), ("queue", [float(sample.waiting) for sample in samples]),
    ):  # fmt: skip
        print(f"{name:>5} {sparkline(values)} {min(values, default=0):g}..{max(values, default=0):g}")
    print(f"effects {findings.effects}, neighbours {soak.neighbours}")
    print(f"put off {soak.console.put_off}, broken off {soak.console.broken_off}, refused {soak.console.refused}")
    print(f"turns that failed: {findings.failures}")


async def run_once(pace: Pace, seed: int, folder: Path, tell: Callable[[str], None]) -> tuple[Soak, Findings]:
    """Soak once in ``folder``."""
    site = SoakSite(folder)
    soak = Soak(site, pace, seed, tell)
    try:
        return soak, await soak.run()
    finally:
        await site.close()


def main() -> int:
    """Soak, print, write the JSON."""
    parser = argparse.ArgumentParser(prog="python -m crash.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--quick", action="store_true", help="half a minute of load; too short to see a leak of memory")
    parser.add_argument("--seed", type=int, default=4)
    options = parser.parse_args()
    chosen = pace(options.minutes, options.quick)
    kept = RESULT.parent / "site"
    shutil.rmtree(kept, ignore_errors=True)
    kept.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name:  # its path is short, as that of a socket must be
        site = Path(name) / "site"
        try:
            soak, findings = asyncio.run(run_once(chosen, options.seed, site, print))
            said, faults = verdict(soak, findings, chosen)
        except BaseException:
            faults = ["it did not come to its end"]
            raise
        finally:
            if faults:
                shutil.copytree(site, kept, ignore=shutil.ignore_patterns("*.sock", "models"))
                print(f"what is left of the site is in {kept}")
    show(soak, findings, chosen)
    for fault in faults[:20]:
        print(f"FAULT: {fault}")
    lives = [asdict(life) for life in soak.watch.lives]
    RESULT.write_text(json.dumps(said | {"seed": options.seed, "faults": faults, "lives": lives}, indent=1), "utf-8")
    print(json.dumps(said))
    return 0 if said["ok"] else 1


if __name__ == "__main__":
    sys.exit(main())
