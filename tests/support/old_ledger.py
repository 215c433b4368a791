"""A ledger with a long history, written by the store's own functions, and ways to damage its file."""

from __future__ import annotations

import random
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from appliance.contracts.admission import Outcome
from appliance.contracts.operation import OperationLane
from appliance.contracts.store import Transaction
from appliance.store import admissions, audit, deliveries, operations
from tests.support.ledger import Bench, open_bench, request

PAGE = 4096
_WORDS = ("motor", "line", "three", "was", "too", "hot", "fan", "did", "not", "turn", "cleaned", "tightened", "by", "hand")
_UNCOUNTED = ("salvage", "memory_volume", "sqlite_sequence", "sqlite_stat1", "sqlite_stat4")

Rows = dict[str, set[tuple[Any, ...]]]


def _tell(tx: Transaction, bench: Bench, number: int, random_words: random.Random) -> None:
    asked = request(f"key-{number}", payload={"text": " ".join(random_words.sample(_WORDS, 8)), "language": "en", "by": "voice"})
    admission = admissions.insert(tx, bench.clock, bench.ids, asked, f"digest-{number}")
    run, at = tx.execute, "2026-03-02T08:00:00.000000+00:00"
    session, turn = f"se_{number:05d}", f"tr_{number:05d}"
    run("INSERT INTO session VALUES (?, ?, 'motor_3', 'closed', ?, ?)", (session, f"asset:{number}", at, at))
    run(
        "INSERT INTO turn (id, session_id, admission_id, lane, language, state, intent, plan, context, blocking_reason, failure,"
        " state_hash, lifespan_s, offline, opened_utc, updated_utc)"
        " VALUES (?, ?, ?, 'speaker:floor', 'en', 'idle', 'read_tag', '{}', ?, '', '', 'h', 120.0, 0, ?, ?)",
        (turn, session, admission.id, f'{{"said": "{" ".join(random_words.sample(_WORDS, 6))}"}}', at, at),
    )
    admissions.start(tx, bench.clock, admission.id, bench.epoch, turn)
    for position, tool in enumerate(("read_tags", "write_tag")):
        run(
            "INSERT INTO action (id, turn_id, position, step_id, tool, arguments, condition, optional, state)"
            " VALUES (?, ?, ?, ?, ?, '{}', '', 0, 'done')",
            (f"ac_{number:05d}_{position}", turn, position, f"step{position}", tool),
        )
    run(
        "INSERT INTO effect (action_id, turn_id, tool, arguments, status, settled_by, epoch, intended_utc, ended_utc)"
        " VALUES (?, ?, 'write_tag', '{}', 'applied', 'reply', ?, ?, ?)",
        (f"ac_{number:05d}_1", turn, bench.epoch, at, at),
    )
    deliveries.queue(tx, bench.clock, bench.ids, turn_id=turn, language="en", text=f"Number {number} is done.", priority=5)
    run(
        "INSERT INTO memory (id, key, tier, scope, asset, fault, text, facts, digest, source_session, confidence, verified,"
        " occurred_utc, stored_utc, size_bytes)"
        " VALUES (?, ?, 'episodic', 'works', 'motor_3', 'heat', ?, '{}', 'd', ?, 0.5, 1, ?, ?, 99)",
        (f"me_{number}", f"case-{number}", " ".join(random_words.choices(_WORDS, k=40)), session, at, at),
    )
    run("INSERT INTO memory_text (rowid, body) VALUES (?, ?)", (number, " ".join(random_words.choices(_WORDS, k=30))))
    admissions.settle(tx, bench.clock, admission.id, Outcome.DONE)
    audit.note(tx, bench.clock, "noted", f"thing-{number}", {"number": number})
    operations.append(
        tx, bench.clock, OperationLane.P0, "alarm.raised", f"activation-{number}", {"number": number, "value": 94.2}
    )


async def write_history(folder: Path, conversations: int = 150, *, acknowledge: float = 0.5) -> Path:
    """Write so many conversations and close cleanly; of each lane the part ``acknowledge`` is durable at the coordinator."""
    words = random.Random(7)
    async with open_bench(folder) as bench:
        for start in range(1, conversations + 1, 50):
            upto = min(start + 50, conversations + 1)
            await bench.database.transaction(
                lambda tx, start=start, upto=upto: [_tell(tx, bench, number, words) for number in range(start, upto)] and None
            )
        await bench.database.transaction(
            lambda tx: (
                tx.execute("UPDATE operation_head SET acknowledged_seq = cast(seq * ? AS INTEGER)", (acknowledge,)) and None
            )
        )
        # Something is deleted too, so that there are free pages.
        await bench.database.transaction(lambda tx: tx.execute("DELETE FROM memory WHERE seq % 3 = 0") and None)
    return folder / "ledger.db"


def rows_of(path: Path) -> Rows:
    """Every row of every table that is the appliance's own, as it is read."""
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as db:
        names = [
            name
            for (name,) in db.execute("SELECT name FROM pragma_table_list WHERE schema = 'main' AND type = 'table'").fetchall()
            if name not in _UNCOUNTED and not name.startswith("sqlite_")
        ]
        return {name: set(db.execute(f"SELECT * FROM {name}").fetchall()) for name in names}


def page_count(path: Path) -> int:
    """Pages in the main file."""
    return path.stat().st_size // PAGE


def root_of(path: Path, name: str) -> int:
    """First page of a table or index."""
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as db:
        (root,) = db.execute("SELECT rootpage FROM sqlite_schema WHERE name = ?", (name,)).fetchone()
    return int(root)


def pages_of(path: Path, kinds: tuple[int, ...]) -> list[int]:
    """Pages of these b-tree kinds (their first byte), beyond the first page."""
    content = path.read_bytes()
    return [n for n in range(2, len(content) // PAGE + 1) if content[(n - 1) * PAGE] in kinds]


def spoil(path: Path, pages: list[int], seed: int, *, keep_header: bool = False) -> None:
    """Overwrite pages with noise, of the first one only the 100 bytes of the file's header, or only the rest."""
    noise = random.Random(seed)
    with path.open("r+b") as file:
        for page in pages:
            first, size = (page - 1) * PAGE, PAGE
            if page == 1:
                first, size = (100, PAGE - 100) if keep_header else (0, 100)
            file.seek(first)
            file.write(noise.randbytes(size))


def crashed_copy(path: Path, folder: Path) -> Path:
    """What a process that died now would leave: the file and its log, without the shared memory."""
    folder.mkdir()
    for suffix in ("", "-wal"):
        shutil.copyfile(f"{path}{suffix}", folder / f"{path.name}{suffix}")
    return folder / path.name
