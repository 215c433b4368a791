"""A recording of a line: JSON lines. The first holds the plant model it was made of, each other one what changed at a sample.

``{"recording": 1, "started_utc": …, "every_s": …, "plant": {…}}``, then ``{"t_s": 1.5, "tags": {"motor_3.load": {"raw": [705],
"quality": "good", "value": 70.5}}}``. A tag that could not be read has quality ``stale``, or ``bad`` with no ``raw``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import IO, Any, Self

from pydantic import BaseModel, ConfigDict, Field

from appliance.contracts.errors import ConfigError
from appliance.contracts.link import Addressing
from appliance.contracts.plant import Plant
from appliance.contracts.reading import Quality, Reading, Value
from appliance.foundation.yaml_file import validate

FORMAT = 1


class Sampled(BaseModel):
    """One tag at one sample."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    raw: tuple[int, ...]
    quality: Quality
    value: Value | None = None

    @property
    def is_unread(self) -> bool:
        """Whether no answer came: what ``raw`` holds, if anything, is older."""
        return self.quality is Quality.STALE or not self.raw


class Sample(BaseModel):
    """What changed, ``t_s`` seconds after the start."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    t_s: float = Field(ge=0)
    tags: dict[str, Sampled]


class Recording(BaseModel):
    """A whole recording."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    recording: int = Field(ge=FORMAT, le=FORMAT)
    started_utc: datetime
    every_s: float = Field(gt=0)
    plant: Plant
    samples: tuple[Sample, ...] = ()

    @property
    def lasts_s(self) -> float:
        """Seconds from the first sample to the last."""
        return self.samples[-1].t_s if self.samples else 0.0

    def check(self, file: str) -> Self:
        """Return it, once every tag it names is one of its plant.

        Raises:
            ConfigError: a tag is not, or has another size.
        """
        for place, sample in enumerate(self.samples):
            for key, sampled in sample.tags.items():
                tag = self.plant.tag_by_key.get(key)
                if tag is None or len(sampled.raw) not in (0, tag.register_count):
                    why = "is no tag of the recorded plant" if tag is None else "has another number of registers"
                    raise ConfigError(why, file=f"{file}:{place + 2}", key=key, cure="Record it again.")
        return self


class RecordingFile:
    """Appends to a new recording. Every line is flushed, so that what was recorded survives whatever ends it."""

    def __init__(self, path: Path, plant: Plant, started_utc: datetime, every_s: float) -> None:
        try:
            self._file: IO[str] = path.open("x", encoding="utf-8")
        except OSError as error:
            cure = "Name another file." if isinstance(error, FileExistsError) else "Name a file that can be written."
            raise ConfigError(f"cannot be made ({error.strerror})", file=str(path), key="-o", cure=cure) from error
        self._last: dict[str, Sampled] = {}
        self.samples = 0
        self._write(
            {
                "recording": FORMAT,
                "started_utc": started_utc.isoformat(timespec="milliseconds"),
                "every_s": every_s,
                "plant": _on_the_wire(plant).model_dump(mode="json", exclude_unset=True),
            }
        )

    def add(self, t_s: float, readings: Iterable[Reading]) -> None:
        """Write what changed."""
        changed: dict[str, Any] = {}
        for reading in readings:
            now = Sampled(raw=reading.raw, quality=reading.quality, value=reading.value)
            if self._last.get(reading.tag) != now:
                self._last[reading.tag] = now
                changed[reading.tag] = now.model_dump(mode="json")
        self.samples += 1
        self._write({"t_s": round(t_s, 3), "tags": changed})

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _write(self, line: Mapping[str, Any]) -> None:
        self._file.write(json.dumps(line, ensure_ascii=False, allow_nan=False) + "\n")
        self._file.flush()


def load_recording(path: Path) -> Recording:
    """Read a recording. A last line without an end was being written when the recording ended, and is left out.

    Raises:
        ConfigError: it cannot be read, or is not a recording.
    """
    try:
        text = path.read_text(encoding="utf-8")
        head, *lines = text.rpartition("\n")[0].split("\n")
        content = {**json.loads(head), "samples": [json.loads(line) for line in lines]}
    except OSError as error:
        raise ConfigError(
            f"cannot be read ({error.strerror})", file=str(path), key="(file)", cure="Name one there is."
        ) from error
    except (ValueError, TypeError) as error:
        raise ConfigError(
            "is not a recording", file=str(path), key="(file)", cure="Make one by `floorhand plant record`."
        ) from error
    return validate(Recording, content, str(path)).check(str(path))


def _on_the_wire(plant: Plant) -> Plant:
    """The addresses of a plant that was read are wire addresses: written out again, they must not be converted again."""
    links = [
        link.model_copy(
            update={"devices": tuple(device.model_copy(update={"addressing": Addressing.WIRE}) for device in link.devices)}
        )
        for link in plant.links
    ]
    return plant.model_copy(update={"links": links})
