"""Which alarms a lost link, or a lost device behind it, is about. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator

from appliance.contracts.plant import Plant
from appliance.contracts.reading import Quality, Reading, Visibility
from drivers.alarms.watch import AlarmWatch

Place = tuple[str, int | None]
"""A link, or with a device id one device behind it."""


class LinkSight:
    """Knows what is in sight, and which alarms are about that (``unreachable``) or need it (all that watch a tag).

    A lost link is one alarm, not one for each device behind it: those of its devices then stay as they are. Only when no alarm
    is about the link itself a device's own alarm tells of it, since a PLC that cannot be seen must not go unnoticed.
    """

    def __init__(self, plant: Plant, watches: Iterable[AlarmWatch]) -> None:
        self._place_of: dict[str, tuple[Place, Place]] = {
            tag.key: ((tag.link, None), (tag.link, tag.device_id)) for tag in plant.tags
        }
        self._unreachable: defaultdict[str, list[tuple[AlarmWatch, Place]]] = defaultdict(list)
        self._valued: defaultdict[str, list[tuple[AlarmWatch, Place]]] = defaultdict(list)
        for watch in watches:
            condition = watch.condition
            if condition.link is not None:
                self._unreachable[condition.link].append((watch, (condition.link, condition.device_id)))
            elif condition.tag is not None:
                place = self._place_of[condition.tag][1]
                self._valued[place[0]].append((watch, place))
        self._unsure: set[Place] = {place for alarms in self._unreachable.values() for _, place in alarms}
        self._lost: set[Place] = set()

    @property
    def is_unsure(self) -> bool:
        """Whether there is an ``unreachable`` alarm of something nobody has spoken of yet."""
        return bool(self._unsure)

    def seen_by(self, readings: Collection[Reading]) -> list[Visibility]:
        """Return what good readings prove to be in sight, of what nobody has spoken of yet."""
        good = {place for r in readings if r.quality is Quality.GOOD for place in self._place_of.get(r.tag, ())}
        return [Visibility(*place, is_visible=True, why="") for place in sorted(good & self._unsure, key=str)]

    def lost_by(self, change: Visibility) -> Iterator[AlarmWatch]:
        """Yield the alarms whose condition cannot be seen any more."""
        if not change.is_visible:
            for watch, (_, device_id) in self._valued.get(change.link, ()):
                if change.device_id in (None, device_id):
                    yield watch

    def note(self, change: Visibility) -> list[tuple[AlarmWatch, bool | None]]:
        """Take in a change; return the ``unreachable`` alarms it is about, and whether each holds (None: not known)."""
        place = (change.link, change.device_id)
        (self._lost.discard if change.is_visible else self._lost.add)(place)
        self._unsure.discard(place)
        alarms = self._unreachable.get(change.link, [])
        return [(watch, self._holds(of, alarms)) for watch, of in alarms if change.device_id in (None, of[1])]

    def _holds(self, place: Place, alarms: list[tuple[AlarmWatch, Place]]) -> bool | None:
        link = (place[0], None)
        if link in self._lost:
            return True if place == link or all(of != link for _, of in alarms) else None
        return None if place in self._unsure else place in self._lost
