"""The product's own SQLite, its writer thread and its shared memory, on a file system that forgets what was not synced."""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from crash.lossy_mend import Mending
from crash.power_images import Told
from crash.power_peer import Peer

_MOUNT_WITHIN_S = 10.0
_STEPS = 40
_CUTS_WITHIN = (100, 600, 2500)  # events: while the file is opened, or made and migrated, or in the middle of work
_PLENTY_BYTES = 512 * 1024 * 1024
_SCARCE_BYTES = 1024 * 1024
_LIES = 6  # cycles on a disk that does not sync, in which something must be lost


@dataclass
class Chain:
    """Lives one after the other, each on what the cut of the one before left."""

    folder: Path
    mount: Path
    disk: Peer
    product: Peer
    checker: Peer
    dice: Random
    lies: bool = False
    cycles: int = 0
    lost: int = 0
    corrupt: int = 0
    events: int = 0
    fell: int = 0
    full: int = 0
    faults: list[str] = field(default_factory=list)
    told: Told = field(default_factory=Told)

    def cycle(self) -> None:
        """Live, be cut, look; begin anew with an empty disk after a fault, and now and then."""
        name = f"{'lies' if self.lies else 'cycle'}-{self.cycles}"
        start, left = self.folder / f"{name}-start", self.folder / f"{name}-left"
        former = self.folder / "left"
        if former.exists() and self.dice.random() < 0.9:
            former.rename(start)
        else:
            shutil.rmtree(former, ignore_errors=True)
            start.mkdir()
            self.told = Told()
        left.mkdir()
        cut_after = self.dice.randint(1, self.dice.choice(_CUTS_WITHIN)) if not self.lies else _CUTS_WITHIN[-1] // 2
        # In every third cycle or so the disk fills up: the reserve is spent, and only alarms are taken.
        spare_bytes = _PLENTY_BYTES if self.lies or self.dice.random() < 0.7 else self.dice.randrange(_SCARCE_BYTES)
        disk = _line(
            new=name,
            files=str(start),
            cut_after=cut_after,
            seed=self.dice.randrange(1 << 30),
            lies=self.lies,
            spare_bytes=spare_bytes,
        )
        self.disk.ask(disk)
        life = self.product.ask(_line(folder=str(self.mount / name), name=name, seed=self.dice.randrange(1 << 30), steps=_STEPS))
        cut = self.disk.ask(_line(cut=name, into=str(left)))
        self.events += cut["events"]
        self.full += cut["refused"] > 0
        self.fell += life["status"] != 0
        self.told = self.told.and_then([(0, what, value) for what, value in life["told"]])
        self._look(name, left)
        shutil.rmtree(start)
        self.cycles += 1

    def _look(self, name: str, left: Path) -> None:
        """Have a copy of what is left looked at; what is left itself is where the next life begins."""
        looked_at = self.folder / f"{name}-looked-at"
        shutil.copytree(left, looked_at)
        answer = self.checker.ask(_line(folder=str(looked_at), keys=self.told.keys, heads=self.told.heads))
        shutil.rmtree(looked_at)
        self.lost += bool(answer["lost"])
        self.corrupt += bool(answer["corrupt"])
        if answer["lost"] or answer["corrupt"]:
            self.faults.append(f"{name}: {answer['corrupt'] or 'lost ' + ', '.join(answer['lost'][:3])}")
            shutil.rmtree(left)
        else:
            left.rename(self.folder / "left")


def campaign(cycles: int, tell: Callable[[str], None], seed: int) -> dict[str, Any]:
    """Return ``{"ok", "cycles", "events", "fell", "full", "lost", "corrupt", "faults", "mended", "proof"}``; where nothing can be
    mounted ``{"cycles": 0, "why"}``.

    ``fell``: lives that the cut ended; the others were cut after they had closed. ``full``: lives whose disk was full. ``proof``:
    how many cycles lost something on a disk whose syncs do nothing. ``mended``: cuts while a damaged ledger was salvaged.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        try:
            with _mounted(folder / "mount") as disk, Peer("crash.lossy_life") as product, Peer("crash.power_check") as checker:
                chain = Chain(folder, folder / "mount", disk, product, checker, Random(seed))
                for _ in range(cycles):
                    chain.cycle()
                shutil.rmtree(folder / "left", ignore_errors=True)
                lying = Chain(folder, folder / "mount", disk, product, checker, Random(seed), lies=True)
                for _ in range(_LIES):
                    lying.cycle()
                mending = Mending(folder, folder / "mount", disk, product, checker, Random(seed))
                mending.begin()
                for _ in range(cycles // 3):
                    mending.cycle()
        except CannotMount as error:
            tell(f"power: NO lossy file system, and so NO run of the product's own SQLite on one: {error}")
            return {"cycles": 0, "why": str(error)}
    tell(f"power: {chain.cycles} cuts of a mounted file system, {chain.fell} of them in the middle of work")
    faults = chain.faults + mending.faults
    for fault in faults[:10]:
        tell(f"power: FAULT {fault}")
    return {
        "ok": not faults and bool(lying.lost or lying.corrupt),
        "cycles": chain.cycles,
        "events": chain.events,
        "fell": chain.fell,
        "full": chain.full,
        "lost": chain.lost,
        "corrupt": chain.corrupt,
        "faults": faults,
        "mended": mending.cycles,
        "proof": {"cycles": lying.cycles, "lost": lying.lost, "corrupt": lying.corrupt},
    }


class CannotMount(Exception):
    """This machine, or this user, cannot mount a file system of its own."""


@contextmanager
def _mounted(mount: Path) -> Iterator[Peer]:
    """Mount the lossy file system; unmount it afterwards, whatever still uses it.

    Raises:
        CannotMount: it cannot be.
    """
    if not Path("/dev/fuse").exists():
        raise CannotMount("there is no /dev/fuse here")
    if importlib.util.find_spec("mfusepy") is None:
        raise CannotMount("mfusepy is not installed")
    mount.mkdir()
    with Peer("crash.lossy_mount", str(mount)) as disk:
        try:
            _await_mount(mount, disk)
            yield disk
        finally:
            subprocess.run(["umount", "-l", str(mount)], check=False, capture_output=True)


def _await_mount(mount: Path, disk: Peer) -> None:
    ends = time.monotonic() + _MOUNT_WITHIN_S
    while not mount.is_mount():
        if disk.has_ended:
            raise CannotMount("its process ended; see what it said above")
        if time.monotonic() > ends:
            raise CannotMount(f"it was not mounted within {_MOUNT_WITHIN_S:g} s")
        time.sleep(0.02)  # the kernel's doing: there is nothing to wait on but looking again


def _line(**order: Any) -> str:
    return json.dumps(order)
