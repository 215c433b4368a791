"""The alarms' part of the conductor: which alarms and floods get a turn, and what the turn's plan may read.

In: admissions of alarms and floods. Out: turns in PLANNING, and their plans. What a flood tells of, and what is no news any more,
gets no turn; its admission has ended then.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from appliance.alarms.floods import Floods
from appliance.contracts.admission import Admission, Outcome, RequestKind
from appliance.contracts.alarm import AlarmChange, AlarmState
from appliance.contracts.clock import Clock
from appliance.contracts.errors import Malformed, Refused
from appliance.contracts.flood import FloodNews
from appliance.contracts.plan import Plan
from appliance.contracts.plant import Plant
from appliance.contracts.store import Ledger, Transaction
from appliance.contracts.turn import Turn
from appliance.coordination.availability import Availability
from appliance.planning.planner import Planner
from appliance.session.turns import Also, Turns
from appliance.store import alarms, announcements, floods

_INTENTS = {"chatter": "alarm_chatter", "again": "alarm_again"}


@dataclass(frozen=True, slots=True)
class AlarmTurns:
    """Opens and plans the turns of alarms and floods. ``announced`` is called after the ledger knows that one is told of."""

    ledger: Ledger
    turns: Turns
    planner: Planner
    floods: Floods
    availability: Availability
    plant: Plant
    clock: Clock
    announced: Callable[[], None]

    @property
    def are_held(self) -> bool:
        """Whether alarms are to be left in the queue for now: it is being decided whether they are a flood."""
        return self.floods.is_gathering

    async def open(self, admission: Admission, language: str) -> Turn | None:
        """Open the conversation, or tell it the news; None when there is nothing to tell and the admission has ended.

        Raises:
            Malformed: an alarm the plant model does not have: it was admitted under another one.
        """
        if admission.kind is RequestKind.FLOOD:
            return await self._open_flood(admission, language)
        event = admission.payload
        definition = self.plant.alarm_by_id.get(event["alarm_id"])
        if definition is None:
            raise Malformed(f"the plant model has no alarm {event['alarm_id']}", alarm=event["alarm_id"])
        if await self.floods.takes(admission) or await self._is_stale(admission):
            return None
        is_news = event["change"] == AlarmChange.RAISED and event.get("notice") != "chatter"

        def bind(tx: Transaction, turn: Turn) -> None:
            if alarms.required(tx, event["activation_id"]).session_id is None:
                alarms.bind_session(tx, event["activation_id"], turn.session_id)
            if is_news:
                announcements.note(tx, self.clock, event["activation_id"], turn.id)

        raised = "alarm_cleared" if event["change"] == AlarmChange.CLEARED else "alarm_raised"
        try:
            turn = await self.turns.open(
                admission,
                language=language,
                intent=_INTENTS.get(event.get("notice", ""), raised),
                context={"alarm": {**event, "priority": definition.priority, **self._age(event)}},
                offline=not self.availability.is_online,
                asset=definition.asset,
                also=bind,
            )
        except Refused:
            if await self.floods.has_ended(admission):  # a flood was faster
                return None
            raise
        self.announced()
        return turn

    async def _open_flood(self, admission: Admission, language: str) -> Turn:
        return await self.turns.open(
            admission,
            language=language,
            intent="alarm_flood",
            context={"flood": dict(admission.payload)},
            offline=not self.availability.is_online,
        )

    async def _is_stale(self, admission: Admission) -> bool:
        """Whether a repetition is not wanted any more; its admission is ended then."""
        if admission.payload.get("notice") != "again":
            return False
        activation = admission.payload["activation_id"]
        alarm = await self.ledger.transaction(lambda tx: alarms.by_activation(tx, activation))
        if alarm is not None and alarm.state is AlarmState.UNACKNOWLEDGED:
            return False
        await self.turns.close_admission(admission, Outcome.DONE)
        return True

    def _age(self, event: Any) -> dict[str, Any]:
        """Return for how long an alarm that is no news has been active, ready to be said; nothing when nobody knows."""
        age_s = event.get("active_for_s")
        if age_s is None and event.get("is_state") and event.get("source_utc") and self.clock.is_synced:
            age_s = (self.clock.utc() - datetime.fromisoformat(event["source_utc"])).total_seconds()
        if age_s is None or age_s < 0:
            return {}
        whole_s = round(age_s / 60) * 60 if age_s >= 120 else round(age_s)
        return {"active_for": {"value": whole_s, "unit": "s"}}

    def announcement(self, turn: Turn) -> str:
        """Return the sentence that tells the alarm of a turn whose plan has not; empty for other turns, and for one whose alarm
        the plant model does not have any more."""
        if "alarm" not in turn.context:
            return ""
        try:
            return self.planner.announcement(turn.context["alarm"], turn.language)
        except Malformed:
            return ""

    async def plan(self, turn: Turn, rejected: int = 0) -> tuple[Plan, Also | None]:
        """Return the plan of an alarm's or a flood's turn, and what is to be written with it. It can be asked again.
        ``rejected``: how many plans of this turn could not be used; see :meth:`Planner.plan_alarm`.

        Raises:
            Malformed: an alarm the plant model does not have, or a language without phrases.
        """
        if "flood" not in turn.context:
            return self.planner.plan_alarm(turn.context["alarm"], turn.language, rejected), None
        flood_id = turn.context["flood"]["flood"]
        stock = await self.floods.take_stock(flood_id, FloodNews(turn.context["flood"]["news"]))

        def note(tx: Transaction) -> None:
            announcements.note(tx, self.clock, flood_id, turn.id, is_flood=True, was_heard=stock.was_heard)
            floods.told(tx, flood_id, stock.summary.count)

        return self.planner.plan_flood(stock.news, stock.summary, turn.language), note
