"""First-out: which of several alarms came first, and so most likely tells of the cause. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from appliance.contracts.alarm import Alarm
from appliance.contracts.plant import Plant
from drivers.alarms.watch import is_own


def first_out(came: Sequence[Alarm]) -> Alarm:
    """Return the first to come of ``came``, which is in the order of admission and not empty.

    Times of one source are by one clock and compare: a gateway may deliver in another order than the PLC saw. Those of two
    sources do not, so the source that was heard first counts; nor do they say more than the order where the appliance itself
    looked, since its clock may have been set meanwhile.
    """
    first = came[0]
    if first.source_utc is None or is_own(first.source):
        return first
    timed = [(alarm.source_utc, alarm) for alarm in came if alarm.source == first.source and alarm.source_utc is not None]
    return min(timed, key=lambda pair: pair[0])[1]


def first_outs(came: Sequence[Alarm], plant: Plant) -> Mapping[str, Alarm]:
    """Return group -> its first-out, of the declared groups some alarm of ``came`` belongs to."""
    groups: dict[str, list[Alarm]] = {}
    for alarm in came:
        definition = plant.alarm_by_id.get(alarm.alarm_id)
        if definition is not None and definition.group is not None:
            groups.setdefault(definition.group, []).append(alarm)
    return {group: first_out(members) for group, members in groups.items()}
