"""What the words of a question rest on besides a call's arguments: how everything that these name is defined now.

Whoever says yes agrees to names: "the alarm, motor 3 is too hot", "the fan speed of motor 3", "send it to maintenance". What a
name stands for is in the configuration, which may be another one when the yes comes: a yes is therefore bound to a digest of the
definitions, of whatever tool's call, and counts no more when one of them was changed.

In: a call's tool and stored arguments. Out: a digest. Tags, assets and alarms are found wherever the arguments name them; what
else only one tool's arguments name (``contracts.tool.DefiningTool``), that tool tells.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeGuard

from appliance.contracts.alarm_definition import AlarmDefinition
from appliance.contracts.plant import Plant
from appliance.contracts.tag import Tag
from appliance.contracts.tool import DefiningTool
from appliance.execution.approval.subjects import Subjects
from appliance.execution.toolbox.toolbox import Toolbox
from appliance.foundation.canonical import digest

_READING = {"poll", "deadband", "deadband_percent"}  # how a tag is watched says nothing of what it is
_PLACE = {"protocol", "host", "port", "serial"}


class Definitions:
    """Tells how what calls name is defined on one plant."""

    def __init__(self, plant: Plant, toolbox: Toolbox) -> None:
        self._plant = plant
        self._toolbox = toolbox
        self._subjects = Subjects(plant)
        self._known: dict[str, str] = {}  # name -> digest of all that has it

    def basis_of(self, tool: str, arguments: Mapping[str, Any], language: str) -> str:
        """Return a digest of how what a call names is defined; empty when it names nothing of the configuration.

        A call that names what it is about by a number, or not at all ("all alarms"), rests on all that it could be about.
        """
        own = self._own(tool, arguments, language)
        about = self._subjects.of(tool, arguments)
        meant = () if about.is_known else (name for names in about.things for name in names)
        named = {name: self._defined(name) for name in {*_texts_in(arguments), *_texts_in(own), *meant}}
        named = {name: defined for name, defined in named.items() if defined}
        return digest({"named": named, "own": own}) if named or own is not None else ""

    def _own(self, tool: str, arguments: Mapping[str, Any], language: str) -> Any:
        found = self._toolbox.find(tool) if tool in self._toolbox.contracts else None
        return found.definition_of(arguments, language) if _is_defining(found) else None

    def _defined(self, name: str) -> str:
        """Return a digest of the tag, asset or alarm of a name, empty when there is none."""
        known = self._known.get(name)
        if known is None:
            plant = self._plant
            tag, asset, alarm = plant.tag_by_key.get(name), plant.asset_by_id.get(name), plant.alarm_by_id.get(name)
            told = {
                "tag": None if tag is None else self._tag(tag),
                "asset": None if asset is None else asset.model_dump(mode="json"),
                "alarm": None if alarm is None else self._alarm(alarm),
            }
            if not any(told.values()):
                return ""
            known = self._known[name] = digest(told)
        return known

    def _tag(self, tag: Tag) -> dict[str, Any]:
        """How a tag is declared, where it leads, and what its machine is called."""
        declared = tag.model_dump(mode="json", exclude=_READING)
        return {"tag": declared, "place": self._place(tag.link), "asset": self._defined(tag.asset)}

    def _alarm(self, alarm: AlarmDefinition) -> dict[str, Any]:
        """How an alarm is defined, with the tags by which it is judged, and what its machine is called."""
        keys = {key for key in (alarm.tag, *alarm.watched_tags) if key}
        link = "" if alarm.condition is None else alarm.condition.link or ""
        return {
            "alarm": alarm.model_dump(mode="json"), "tags": {key: self._defined(key) for key in keys},
            "place": self._place(link), "asset": self._defined(alarm.asset),
        }  # fmt: skip

    def _place(self, link: str) -> dict[str, Any]:
        found = self._plant.link_by_id.get(link)
        return {} if found is None else found.model_dump(mode="json", include=_PLACE)


def _is_defining(tool: object) -> TypeGuard[DefiningTool]:
    return hasattr(tool, "definition_of")


def _texts_in(told: Any) -> Iterator[str]:
    """Yield every text in arguments, however deep."""
    match told:
        case str():
            yield told
        case Mapping():
            for held in told.values():
                yield from _texts_in(held)
        case list() | tuple():
            for held in told:
                yield from _texts_in(held)
