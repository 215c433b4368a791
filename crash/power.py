"""Power cuts: the product's ledger is recorded at work and cut off at random points, and the product opens what is left.

Two ways, since each has what the other lacks. A recording through apsw's own SQLite (:mod:`crash.power_shim`) gives thousands of
images of every state that a disk could be in; a file system that forgets what was not synced (:mod:`crash.lossy`) holds the
product's own SQLite, with its shared memory and its threads. What is told by then must be found in either, in an unbroken log.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from appliance.store import migrate
from crash import lossy
from crash.power_check import LEFT
from crash.power_images import Bench, Image, Recorded, Told
from crash.power_peer import Peer
from crash.power_record import LifeOrder

SEED = 4
KEPT = Path("build/power")
_MAKING = 20  # events in which a new file is made and begins its write-ahead log
_RAM = Path("/dev/shm")  # only scratch copies are there, on a medium that is never waited for


@dataclass(frozen=True, slots=True)
class Amount:
    """How much is tried. ``proofs`` are images of a ledger that does not sync, whose losses must be found."""

    lives: int
    images_a_life: int
    second_cuts: int
    images_a_second_cut: int
    images_a_migration: int
    proofs: int
    cycles: int


QUICK = Amount(lives=3, images_a_life=36, second_cuts=6, images_a_second_cut=6, images_a_migration=8, proofs=30, cycles=15)
FULL = Amount(lives=30, images_a_life=80, second_cuts=60, images_a_second_cut=20, images_a_migration=100, proofs=60, cycles=300)


class PowerCuts:
    """One campaign on recorded lives."""

    def __init__(self, folder: Path, amount: Amount, tell: Callable[[str], None], stack: ExitStack, seed: int) -> None:
        self._folder, self._amount, self._tell, self._dice = folder, amount, tell, Random(seed)
        self._recorder = stack.enter_context(Peer("crash.power_record"))
        self._checkers = tuple(stack.enter_context(Peer("crash.power_check")) for _ in range(2))
        self._lives = 0
        self.recorded_by = ""
        self.bench = Bench(folder, self._checkers, KEPT)

    def run(self) -> None:
        """Cut lives, the recoveries from such cuts, and migrations."""
        for number in range(self._amount.lives):
            life = self.record(None, steps=40, checkpoint_pages=(1000, 25, 6)[number % 3])
            few = self._amount.images_a_life // 4
            for within, images in ((None, self._amount.images_a_life), (life.opening, few), (_MAKING, few)):
                for image in life.cuts(self._dice, images, within=within):
                    self.bench.look(image)
            again = self._amount.second_cuts // self._amount.lives
            for image in life.cuts(self._dice, again):
                recovery = self.record(image, steps=2, checkpoint_pages=(1000, 6)[number % 2])
                for second in recovery.cuts(self._dice, self._amount.images_a_second_cut):
                    self.bench.look(second)
        self._tell(f"power: {self.bench.images} images of running ledgers and of recoveries")
        before = self.bench.images
        for schema in list(migrate.steps())[:-1]:
            self._cut_migration(schema)
        self._tell(f"power: {self.bench.images - before} images of migrations from schemas 1 to {len(migrate.steps()) - 1}")
        self.bench.finish()

    def prove(self, synchronous: str) -> dict[str, int]:
        """Return in how many images something is lost, and how many are corrupt, when the ledger does not sync as it does."""
        proof = Bench(self._folder, self._checkers)
        # NORMAL syncs when the log is folded in, so that only a long log has something to lose.
        pages = 25 if synchronous == "OFF" else 1000
        life = self.record(None, steps=40, checkpoint_pages=pages, synchronous=synchronous)
        for image in life.cuts(self._dice, self._amount.proofs):
            proof.look(image)
        proof.finish()
        return {"images": proof.images, "lost": proof.lost, "corrupt": proof.corrupt}

    def _cut_migration(self, schema: int) -> None:
        folder = self._folder / f"schema-{schema}"
        folder.mkdir()
        order = {"folder": str(folder), "make": {"schema": schema, "entries": 60}}
        self.bench.finish()  # the one that makes it must be free
        told = Told(heads=self._checkers[0].ask(json.dumps(order))["heads"])
        left = folder / LEFT
        old = Image(f"schema {schema}", {path.name: path.read_bytes() for path in left.iterdir()}, told)
        shutil.rmtree(folder)
        migration = self.record(old, steps=1)
        for image in migration.cuts(self._dice, self._amount.images_a_migration, within=migration.opening):
            self.bench.look(image)

    def record(self, start: Image | None, *, steps: int, checkpoint_pages: int = 1000, synchronous: str = "FULL") -> Recorded:
        self._lives += 1
        name, out = f"life {self._lives}", self._folder / "recording"
        begin = start or Image("", {}, Told())
        folder = begin.write(self._folder / f"life-{self._lives}")
        order = LifeOrder(str(folder), str(out), name, self._dice.randrange(1 << 30), steps, synchronous, checkpoint_pages)
        self.recorded_by = self._recorder.ask(order.line())["sqlite"]
        shutil.rmtree(folder)
        return Recorded.read(f"{name} from {begin.where}" if start else name, out, begin.told)


def campaign(quick: bool, tell: Callable[[str], None], seed: int = SEED) -> dict[str, Any]:
    """Cut the power many times; return what was found.

    ``ok``; ``images`` looked at; ``lost``, ``corrupt``: how many of them lack something told, or are damaged; ``faults``: which;
    ``proof``: losses found where they must be, by the setting that causes them; ``sqlite``: the versions; ``fuse``: the same for
    the product's own SQLite on a file system that forgets, or why there was none.
    """
    amount = QUICK if quick else FULL
    shutil.rmtree(KEPT, ignore_errors=True)
    with tempfile.TemporaryDirectory(dir=_RAM if _RAM.is_dir() else None) as name, ExitStack() as stack:
        cuts = PowerCuts(Path(name), amount, tell, stack, seed)
        cuts.run()
        proof = {setting: cuts.prove(setting) for setting in ("OFF", "NORMAL")}
    for fault in cuts.bench.faults[:10]:
        tell(f"power: FAULT {fault}")
    fuse = lossy.campaign(amount.cycles, tell, seed)
    bench = cuts.bench
    return {
        "ok": not bench.lost and not bench.corrupt and all(found["lost"] for found in proof.values()) and fuse.get("ok", True),
        "images": bench.images,
        "lost": bench.lost + fuse.get("lost", 0),
        "corrupt": bench.corrupt + fuse.get("corrupt", 0),
        "faults": bench.faults[:10] + fuse.get("faults", [])[:10],
        "proof": proof,
        "sqlite": {"recorded": cuts.recorded_by, "product": bench.sqlite},
        "fuse": fuse,
    }
