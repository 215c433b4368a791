"""What a call is about, so that a rule of the site can name it: tags, assets, alarms, topics, webhooks.

In: a tool's name and its arguments. Out: the things, each with all its names (a tag with its asset, an alarm with its own). Some
calls name what they are about by a number ("this activation", "that work order") or not at all ("all alarms"): the ledger knows
what that is, and it is looked up in the transaction that decides. Without one it is only known what it could be.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from appliance.contracts.alarm import AlarmState
from appliance.contracts.plant import Plant
from appliance.contracts.store import Transaction
from appliance.execution.alarms_meant import ACKNOWLEDGEABLE, RESETTABLE, known_to
from appliance.store import alarms, work_orders

TAGS, ASSETS, ALARMS = frozenset({"key", "keys"}), frozenset({"asset"}), frozenset({"alarm", "activation"})
"""Arguments that name such things; ``activation`` by a number."""
TOPIC, WEBHOOK = "topic", "webhook"
_FIELDS = ("key", "keys", "asset", "alarm", TOPIC, WEBHOOK)
_BY_STATE: Mapping[str, tuple[AlarmState, ...]] = {"acknowledge_alarm": ACKNOWLEDGEABLE, "reset_alarm": RESETTABLE}
"""Tools that act on one activation or, without one, on all that the speaker knew of in these states."""
_ORDER_TOOL = "update_work_order"

Thing = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class About:
    """``things`` a call is about, each with all its names; if not ``is_known``, those it could be about."""

    things: tuple[Thing, ...]
    is_known: bool = True

    @property
    def first(self) -> str:
        """The name for records, empty when it is about nothing in particular or not known."""
        return self.things[0][0] if self.things and self.is_known else ""


class Subjects:
    """Tells what calls are about on one plant."""

    def __init__(self, plant: Plant) -> None:
        self._plant = plant

    def of(self, tool: str, arguments: Mapping[str, Any]) -> About:
        """Return what the arguments alone tell."""
        named = tuple(dict.fromkeys(self._named(arguments)))
        if named or not _is_open(tool, arguments):
            return About(named)
        if tool == _ORDER_TOOL:
            return About(tuple((asset.id,) for asset in self._plant.assets), is_known=False)
        return About(tuple((alarm.id, alarm.asset) for alarm in self._plant.alarms), is_known=False)

    def found(self, tx: Transaction, tool: str, arguments: Mapping[str, Any], turn_id: str) -> About:
        """Return what it is about as the ledger has it; without a turn, all that it could be."""
        about = self.of(tool, arguments)
        if about.is_known or not turn_id:
            return About(about.things)
        if tool == _ORDER_TOOL:
            order = work_orders.load(tx, str(arguments["id"]))
            return About(() if order is None else ((order.asset,),))
        activation = arguments.get("activation")
        if activation is None:
            shown = known_to(tx, turn_id, _BY_STATE[tool], only_last=bool(arguments.get("only_last")))
            meant = [identity for identity, _ in shown]
        else:
            meant = [str(activation)]
        rows = [alarm for identity in meant if (alarm := alarms.by_activation(tx, identity)) is not None]
        return About(tuple(dict.fromkeys((alarm.alarm_id, alarm.asset) for alarm in rows)))

    def _named(self, arguments: Mapping[str, Any]) -> Iterator[Thing]:
        for field in _FIELDS:
            told = arguments.get(field)
            for name in told if isinstance(told, list | tuple) else [told]:
                if isinstance(name, str) and name:
                    yield self._thing(name)

    def _thing(self, name: str) -> Thing:
        owner = self._plant.tag_by_key.get(name) or self._plant.alarm_by_id.get(name)
        return (name,) if owner is None else (name, owner.asset)


def _is_open(tool: str, arguments: Mapping[str, Any]) -> bool:
    return tool in _BY_STATE or (tool == _ORDER_TOOL and bool(arguments.get("id")))
