"""Durable steps a second: ours beside DBOS, LangGraph, bare SQLite, and our own transactions without the runtime.

Everybody takes a small round in turn, again and again, so that whatever else machine and disk do meets all. A ratio is the median
of what the rounds say one by one; a rate is the median of the rounds' rates; percentiles are over all steps of all rounds.

``vs_raw_pair`` is against the same transactions, their reads and their writes; ``vs_raw_writes`` is against their writes alone,
less than any program needs that has to look before it writes.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from bench.contestant import Contestant, Taken, contestant, made
from bench.figures import Findings
from bench.fsync import Disk
from bench.quantiles import quantiles

LEAST_VS_DBOS = 1.5
LEAST_VS_RAW_PAIR = 0.6
STEPS = 20  # of one conversation; the longest playbooks have about as many
CROWD = 32
_CROWDED_PEER_STEPS = 3  # the others commit one by one: enough to tell their rate
_PROBES = 20
_PEERS = ("dbos_wal", "dbos_shipped", "langgraph")


@dataclass(slots=True)
class Entry:
    """Who takes which rounds, and how they went."""

    who: str
    kind: str = ""
    sessions: int = 1
    steps: int = STEPS
    rounds: list[Taken] = field(default_factory=list)

    @property
    def steps_s(self) -> float:
        """Median of the rounds' steps a second."""
        return median(each.steps_s for each in self.rounds)

    def against(self, other: Entry) -> float:
        """Return how many times as fast as ``other`` this is, as the median of the rounds."""
        return median(mine.steps_s / theirs.steps_s for mine, theirs in zip(self.rounds, other.rounds, strict=True))


def entries(*, is_quick: bool) -> dict[str, Entry]:
    """Return the line-up. Names end in the number of sessions."""
    line_up = {
        "ours_1": Entry("ours", "runner"),
        "ours_32": Entry("ours", "runner", CROWD),
        "raw_pair_1": Entry("ours", "replay"),
        "raw_pair_32": Entry("ours", "replay", CROWD),
        "raw_writes_32": Entry("ours", "replay_writes", CROWD),
        "raw_commits_1": Entry("raw", "commits"),
        "raw_groups_32": Entry("raw", "groups", CROWD),
        "dbos_wal_1": Entry("dbos_wal"),
        "dbos_shipped_1": Entry("dbos_shipped"),
        "langgraph_1": Entry("langgraph"),
    }
    if not is_quick:
        for who in _PEERS:
            line_up[f"{who}_32"] = Entry(who, sessions=CROWD, steps=_CROWDED_PEER_STEPS)
    return line_up


async def measure_steps(findings: Findings, folder: Path, disk: Disk, *, rounds: int, is_quick: bool) -> None:
    """Fill in ``steps_s_1``, ``steps_s_32``, ``p99_ms_32`` and the ratios; each contestant's own beside them."""
    line_up = entries(is_quick=is_quick)
    async with _contestants(folder) as who:
        for entry in line_up.values():
            await who[entry.who].take(entry.kind, entry.sessions, entry.steps)  # warms up
        for _ in range(rounds):
            disk.probe(_PROBES)
            for entry in line_up.values():
                entry.rounds.append(await who[entry.who].take(entry.kind, entry.sessions, entry.steps))
        findings.figures["peers"] = {name: who[name].about["mode"] for name in _PEERS}
    note(findings, line_up)


@asynccontextmanager
async def _contestants(folder: Path) -> AsyncIterator[Mapping[str, Contestant]]:
    async with AsyncExitStack() as stack:

        async def start(name: str, module: str, *arguments: str, needs: str = "") -> Contestant:
            return await stack.enter_async_context(contestant(module, made(folder / name), *arguments, needs=needs))

        yield {
            "ours": await start("ours", "ledger_ours"),
            "raw": await start("raw", "ledger_raw"),
            "dbos_wal": await start("dbos_wal", "ledger_dbos", "wal", needs="dbos"),
            "dbos_shipped": await start("dbos_shipped", "ledger_dbos", "shipped", needs="dbos"),
            "langgraph": await start("langgraph", "ledger_langgraph", needs="langgraph"),
        }


def note(findings: Findings, line_up: Mapping[str, Entry]) -> None:
    """Turn rounds into figures, ratios and reaches."""
    figures = findings.figures
    ours_1, ours_32 = line_up["ours_1"], line_up["ours_32"]
    figures["steps_s_1"], figures["steps_s_32"] = round(ours_1.steps_s), round(ours_32.steps_s)
    for name, entry in (("1", ours_1), ("32", ours_32)):
        for percentile, value in _steps_ms(entry).items():
            figures[f"{percentile}_ms_{name}"] = value
    figures["conversation_around_ms_1"] = round(median(each.around_s for each in ours_1.rounds) * 1000, 2)
    figures["steps_s"] = {name: round(entry.steps_s) for name, entry in line_up.items()}
    figures["step_ms"] = {name: _steps_ms(entry) for name, entry in line_up.items()}
    figures["cpu_us_a_step"] = {
        name: round(median(each.cpu_s / each.steps for each in entry.rounds) * 1e6) for name, entry in line_up.items()
    }
    for name, mine, other in (
        ("vs_dbos", ours_1, "dbos_wal_1"),
        ("vs_dbos_shipped", ours_1, "dbos_shipped_1"),
        ("vs_langgraph", ours_1, "langgraph_1"),
        ("vs_raw_commits", ours_1, "raw_commits_1"),
        ("vs_raw_pair_1", ours_1, "raw_pair_1"),
        ("vs_raw_pair", ours_32, "raw_pair_32"),
        ("vs_raw_writes", ours_32, "raw_writes_32"),
        ("vs_dbos_32", ours_32, "dbos_wal_32"),
        ("vs_langgraph_32", ours_32, "langgraph_32"),
    ):
        if other in line_up:
            figures[name] = findings.compare(name, mine.against(line_up[other]), 1.0)
    says = f"one session at least {LEAST_VS_DBOS:g} x DBOS on WAL + FULL"
    findings.reach_least("vs_dbos", figures["vs_dbos"], LEAST_VS_DBOS, says)
    says = f"{CROWD} sessions at least {LEAST_VS_RAW_PAIR:g} x the same transactions without the runtime"
    findings.reach_least("vs_raw_pair", figures["vs_raw_pair"], LEAST_VS_RAW_PAIR, says)


def _steps_ms(entry: Entry) -> dict[str, float]:
    return quantiles([each for taken in entry.rounds for each in taken.steps_ms], 50, 99)
