"""Cuts recorded lives off at random points, and has every image that is left looked at."""

from __future__ import annotations

import json
import pickle
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from crash.power_disk import Disk, Event
from crash.power_peer import Peer

_KEPT = 5  # images with a fault that are kept to be looked at


@dataclass(frozen=True, slots=True)
class Told:
    """What somebody was told before the power failed."""

    keys: tuple[str, ...] = ()
    heads: Mapping[str, Any] = field(default_factory=dict)

    def and_then(self, acknowledged: list[tuple[int, str, Any]]) -> Told:
        """Return this with what was told afterwards."""
        keys, heads = list(self.keys), dict(self.heads)
        for _, what, value in acknowledged:
            if what == "key":
                keys.append(value)
            else:
                heads |= value
        return Told(tuple(keys), heads)


@dataclass(frozen=True, slots=True)
class Image:
    """What a cut left, and what had been told by then. ``where`` says of which life and before which event."""

    where: str
    files: Mapping[str, bytes]
    told: Told

    def write(self, folder: Path) -> Path:
        """Write the files into a new folder."""
        folder.mkdir(parents=True)
        for name, content in self.files.items():
            (folder / name).write_bytes(content)
        return folder


@dataclass(frozen=True, slots=True)
class Recorded:
    """One life, as ``power_record`` wrote it; ``before`` is what had been told before it began."""

    name: str
    files: dict[str, bytes]
    events: list[Event]
    acknowledged: list[tuple[int, str, Any]]
    before: Told

    @classmethod
    def read(cls, name: str, path: Path, before: Told) -> Recorded:
        """Read a recording and remove it."""
        files, events, acknowledged = pickle.loads(path.read_bytes())
        path.unlink()
        return cls(name, files, events, acknowledged, before)

    @property
    def opening(self) -> int:
        """Events before anybody was told anything: making or migrating the file, taking it over."""
        return self.acknowledged[0][0] if self.acknowledged else len(self.events)

    def cuts(self, dice: Random, images: int, *, within: int | None = None) -> Iterator[Image]:
        """Yield images of cuts at random events, in the life's order; only of its first ``within`` events if that is given."""
        last = len(self.events) if within is None else within
        disk, played = Disk(self.files), 0
        for point in sorted(dice.randint(0, last) for _ in range(images)):
            for event in self.events[played:point]:
                disk.play(event)
            played = point
            told = self.before.and_then([entry for entry in self.acknowledged if entry[0] <= point])
            yield Image(f"{self.name}, event {point} of {len(self.events)}", disk.after_cut(dice), told)


class Bench:
    """Has images looked at by other processes while the next is made. Faulty ones are kept below ``kept``, if it is given."""

    def __init__(self, folder: Path, checkers: tuple[Peer, ...], kept: Path | None = None) -> None:
        self._folder, self._kept, self._checkers = folder, kept, checkers
        self._under_way: dict[int, tuple[Image, Path]] = {}
        self.images, self.lost, self.corrupt = 0, 0, 0
        self.faults: list[str] = []
        self.sqlite = ""

    def look(self, image: Image) -> None:
        """Hand an image to whoever is free next."""
        turn = self.images % len(self._checkers)
        self._collect(turn)
        folder = image.write(self._folder / f"image-{self.images}")
        self.images += 1
        order = {"folder": str(folder), "keys": image.told.keys, "heads": image.told.heads}
        self._checkers[turn].order(json.dumps(order))
        self._under_way[turn] = image, folder

    def finish(self) -> None:
        """Wait for what is under way."""
        for turn in tuple(self._under_way):
            self._collect(turn)

    def _collect(self, turn: int) -> None:
        if turn not in self._under_way:
            return
        image, folder = self._under_way.pop(turn)
        answer = self._checkers[turn].answer()
        self.sqlite = answer["sqlite"]
        self.lost += bool(answer["lost"])
        self.corrupt += bool(answer["corrupt"])
        if answer["lost"] or answer["corrupt"]:
            self.faults.append(f"{image.where}: {answer['corrupt'] or 'lost ' + ', '.join(answer['lost'][:3])}")
            if self._kept is not None and len(self.faults) <= _KEPT:
                image.write(self._kept / folder.name)
        shutil.rmtree(folder)
