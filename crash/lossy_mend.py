"""Power cuts while a damaged ledger is salvaged: what a salvage without a cut saves is saved with one, once."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from crash.power_disk import PAGE_BYTES
from crash.power_peer import Peer
from crash.power_work import DATABASE

_STEPS = 25
_CUTS_WITHIN = 400  # events: about as many as a salvage of such a ledger has
_PLENTY_BYTES = 512 * 1024 * 1024


@dataclass
class Mending:
    """Spoils a page, has the product open the file on the lossy disk, cuts the power, and has it opened again."""

    folder: Path
    mount: Path
    disk: Peer
    product: Peer
    checker: Peer
    dice: Random
    cycles: int = 0
    faults: list[str] = field(default_factory=list)
    _keys: list[str] = field(default_factory=list)
    _whole: bytes = b""

    def begin(self) -> None:
        """Make the ledger that is to be spoilt."""
        folder = self.folder / "whole"
        folder.mkdir()
        life = self.product.ask(_line(folder=str(folder), name="whole", seed=self.dice.randrange(1 << 30), steps=_STEPS))
        self._keys = [value for what, value in life["told"] if what == "key"]
        self._whole = (folder / DATABASE).read_bytes()

    def cycle(self) -> None:
        """Spoil, open, cut, open."""
        self.cycles += 1
        page = self.dice.randrange(1, len(self._whole) // PAGE_BYTES)
        name = f"mend-{self.cycles}"
        places = [self.folder / f"{name}-{what}" for what in ("reference", "start", "left")]
        for place in places:
            place.mkdir()
        reference, start, left = places
        spoilt = bytearray(self._whole)
        spoilt[page * PAGE_BYTES : (page + 1) * PAGE_BYTES] = bytes(PAGE_BYTES)
        for place in (reference, start):
            (place / DATABASE).write_bytes(spoilt)
        wanted = self._looked_at(reference)
        new = {"new": name, "files": str(start), "cut_after": self.dice.randint(1, _CUTS_WITHIN), "lies": False}
        self.disk.ask(_line(**new, seed=self.dice.randrange(1 << 30), spare_bytes=_PLENTY_BYTES))
        self.product.ask(_line(folder=str(self.mount / name), name=name, seed=1, steps=2))
        self.disk.ask(_line(cut=name, into=str(left)))
        found = self._looked_at(left)
        if wanted["corrupt"] or found != wanted:
            self.faults.append(f"{name}, page {page}, cut after {new['cut_after']}: {found}, without a cut {wanted}")
        for place in places:
            shutil.rmtree(place)

    def _looked_at(self, folder: Path) -> dict[str, Any]:
        return self.checker.ask(_line(folder=str(folder), keys=self._keys, heads={}, is_mended=True))


def _line(**order: Any) -> str:
    return json.dumps(order)
