"""A scenario: what the tags of a plant do, and what happens when. One YAML file, validated whole before anything starts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from appliance.contracts.errors import Refused
from appliance.contracts.plant import Plant
from appliance.contracts.reading import Value
from appliance.contracts.tag import MQTT_LINK, DataType, Tag
from appliance.foundation.yaml_file import Fault, nearest, refuse
from drivers.modbus.codec import encode
from drivers.sim.orders import (
    AlarmOrder,
    Behave,
    Burst,
    Drive,
    Fail,
    Jam,
    Misbehave,
    Order,
    Overheat,
    PressureDrop,
    RampTo,
    Recover,
    Set,
)
from drivers.sim.signals import Signal
from drivers.sim.tag_signals import fitting
from drivers.sim.yaml_model import load_model


class TagPlay(BaseModel):
    """What a tag does: its signal, and the standard deviation of the noise on it in the tag's unit."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    play: Signal
    noise: float = Field(default=0.0, ge=0)


class Scenario(BaseModel):
    """``tags`` maps a key ``asset.name``, or a pattern with ``*``, to what it does; the first that fits a tag applies.

    ``events`` are orders with ``at_s``; with ``repeat_every_s`` the whole timeline starts again. ``speed`` is simulated seconds a
    second, ``step_s`` the real time between two steps. Assets named ``motor_…``, ``pump_…`` and ``conveyor_…`` run by themselves
    where the scenario does not play their tags, unless ``machines`` is false. ``plant``: the plant model it is written for, as a
    path from the scenario; absent: any that has what it names.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    about: str = ""
    plant: Path | None = None
    seed: int = 0
    speed: float = Field(default=1.0, gt=0, le=10_000)
    step_s: float = Field(default=0.05, ge=0.005, le=10)
    machines: bool = True
    tags: dict[str, TagPlay] = Field(default_factory=dict)
    events: tuple[Order, ...] = ()
    repeat_every_s: float | None = Field(default=None, gt=0)

    def signals(self, plant: Plant) -> dict[str, tuple[Signal, float]]:
        """Return signal and noise of every tag of ``plant`` that the scenario plays."""
        played: dict[str, tuple[Signal, float]] = {}
        for tag in plant.tags:
            if tag.link == MQTT_LINK:
                continue
            for pattern, each in self.tags.items():
                if fnmatchcase(tag.key, pattern):
                    played[tag.key] = (each.play, each.noise)
                    break
        return played


def load_scenario(path: Path) -> Scenario:
    """Read a scenario file.

    Raises:
        ConfigError: it cannot be read, or is not a scenario; the message names every fault with its cure.
    """
    return load_model(path, Scenario)


def check_against(scenario: Scenario, plant: Plant, file: str) -> None:
    """Check that everything a scenario names is in the plant, and that tags can hold what they are set to.

    Raises:
        ConfigError: naming every unknown tag, asset, alarm, link and device, and every value that does not fit.
    """
    faults = [*_tag_faults(scenario, plant), *_event_faults(scenario, plant)]
    if faults:
        raise refuse(file, faults)


def _tag_faults(scenario: Scenario, plant: Plant) -> Iterator[Fault]:
    keys = [tag.key for tag in plant.tags if tag.link != MQTT_LINK]
    for pattern, played in scenario.tags.items():
        if not any(fnmatchcase(key, pattern) for key in keys):
            yield f"tags.{pattern}", "is no Modbus tag of the plant", nearest(pattern, keys)
        for key in set(played.play.looks_at) - set(keys):
            yield f"tags.{pattern}.play.towards", f"{key} is no Modbus tag of the plant", nearest(key, keys)


def _event_faults(scenario: Scenario, plant: Plant) -> Iterator[Fault]:
    tags = [tag.key for tag in plant.tags if tag.link != MQTT_LINK]
    links = list(plant.link_by_id)
    for place, order in enumerate(scenario.events):
        named: list[tuple[str, str | None, list[str]]] = []
        match order:
            case Overheat() | PressureDrop() | Jam():
                named = [("asset", order.asset, list(plant.asset_by_id))]
            case Recover():
                named = [("asset", order.asset, list(plant.asset_by_id)), ("tag", order.tag, tags)]
            case Set() | RampTo() | Drive() | Fail():
                named = [("tag", order.tag, tags)]
            case AlarmOrder():
                named = [("alarm", order.alarm, list(plant.alarm_by_id))]
            case Burst():
                named = [("alarms", each, list(plant.alarm_by_id)) for each in order.alarms]
            case Misbehave() | Behave():
                named = [("link", order.link, links)]
                devices = {str(tag.device_id) for tag in plant.tags if order.link in (None, tag.link)}
                if order.device_id is not None:
                    named.append(("device_id", str(order.device_id), sorted(devices)))
        tag = plant.tag_by_key.get(order.tag) if isinstance(order, Set | RampTo) else None
        if isinstance(order, Set | RampTo) and tag is not None and tag.link != MQTT_LINK and (why := _unfit(tag, order.to)):
            yield f"events.{place}.to", why, "Correct the value, or name another tag."
        for field, name, known in named:
            if name is not None and name not in known:
                yield f"events.{place}.{field}", f"{name} is not in the plant", nearest(name, known)


def _unfit(tag: Tag, to: Value) -> str:
    """Return why a tag cannot be set to a value, or an empty text."""
    if tag.type is DataType.BOOL and to not in (0, 1):
        return f"{tag.key} is true or false, not {to!r}"
    if tag.type is DataType.STRING and not isinstance(to, str):
        return f"{tag.key} is a text, not {to!r}"
    try:
        encode(tag, fitting(tag, to))
    except Refused as refusal:
        return refusal.message
    return ""


def find_scenarios(folder: Path) -> Mapping[str, Path]:
    """Return the scenario files of a folder by name."""
    return {path.stem: path for path in sorted(folder.glob("*.yaml"))}
