"""Builds the agent as this appliance is configured: its rules, models, tools of other packages, tickets and later checks, and
what people may ask of all this through the local API. Read with ``app``; ``agent_rooms`` is the part that tests build, too."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable
from typing import Any

from appliance.access.keys import KeyRing
from appliance.access.tokens import Tokens
from appliance.agent_rooms import AgentRooms
from appliance.alarm_rooms import AlarmRooms
from appliance.console.acts import Acts
from appliance.contracts.history import TagHistory
from appliance.contracts.ports import Admitter, Wording
from appliance.delivery.settings import WebhookEvent
from appliance.delivery_rooms import DeliveryRooms
from appliance.execution.approval.approval_desk import ApprovalDesk
from appliance.execution.approval.settings import ApprovalSettings
from appliance.execution.spill import Spill
from appliance.execution.toolbox.stress import Stress
from appliance.execution.toolbox.tool_desk import ToolDesk
from appliance.execution.workers.warden import Warden
from appliance.field_rooms import FieldSources
from appliance.health.vitals import read_vitals
from appliance.later_rooms import LaterRooms
from appliance.model_rooms import build_model
from appliance.opening import Opened
from appliance.planning.model.context_view import ContextView
from appliance.playbook_desk import PlaybookDesk
from appliance.settings_rules import shipped_contracts, shipped_tool_levels
from drivers.models.chain import PART
from drivers.models.tokens import TokenCounter


class ConfiguredAgent:
    """:attr:`rooms` are planning and execution, :attr:`later` what outlives its turn. ``delivered`` is called after a commit
    that queued words or a message, ``progress`` with a turn's id after one that changed the state of a step."""

    def __init__(
        self,
        opened: Opened,
        *,
        epoch: int,
        gate: Admitter,
        sources: FieldSources,
        alarms: AlarmRooms,
        delivery: DeliveryRooms,
        wording: Wording,
        delivered: Callable[[], None],
        progress: Callable[[str], None],
        stack: contextlib.AsyncExitStack,
    ) -> None:
        self._opened = opened
        settings, ledger, clock, ids = opened.settings, opened.ledger, opened.clock, opened.ids
        self._rules = ApprovalSettings(settings.approvals, settings.writes)
        self.later = LaterRooms(
            settings, ledger, clock, ids, gate, wording,
            origin=opened.origin, takers=delivery.takers_of(WebhookEvent.TICKET),
            said=delivery.dispatcher.notify, posted=delivery.webhooks.notify,
        )  # fmt: skip
        delivery.webhooks.listeners.append(self.later.tickets.notify)
        self.model = build_model(settings, ledger, clock, ids, opened.degraded, stack)
        warden = Warden(settings.data_dir / "tools")
        stack.push_async_callback(warden.close)
        self.rooms = AgentRooms(
            ledger=ledger,
            clock=clock,
            ids=ids,
            epoch=epoch,
            plant=settings.plant,
            bus=sources.bus,
            memory=opened.memory,
            embedder=opened.embedder,
            procedures=opened.procedures,
            wording=wording,
            phrasebook=opened.phrasebook,
            playbooks=opened.playbooks,
            alarm_hands=alarms.handling,
            alarm_shelf=alarms.inhibitions,
            receivers=delivery.receivers,
            read_vitals=lambda: read_vitals(settings.data_dir).to_json(),
            history=sources.history,
            rules=self._rules,
            escalator=self.later.escalation,
            spill=Spill(settings.data_dir / "spill", degraded=opened.degraded),
            model=self.model,
            warden=warden,
            degraded=opened.degraded,
            found=opened.third_party,
            delivered=delivered,
            progress=progress,
        )

    @property
    def services(self) -> dict[str, Callable[[], Awaitable[None]]]:
        """Name -> what runs for ever. What is due later comes in by ``later.schedule``, which is a door."""
        return {"examples": self.rooms.examples.run, "tickets": self.later.tickets.run}

    def may_be_over(self, part: str) -> bool:
        """Return whether what degrades a part may be over by now. No model is asked only to find out: that would cost money."""
        return part == PART and self.model is not None and not self.model.is_known_away

    @property
    def facts(self) -> dict[str, Callable[[], Any]]:
        """What status shows of it."""
        return {
            "language_models": lambda: [] if self.model is None else self.model.facts(),
            "turn_faults": lambda: self.rooms.faults.count,
        }

    def acts(self, keys: KeyRing, history: TagHistory, taught: Callable[[], Awaitable[None]]) -> Acts:
        """Return what people may ask through the local API. ``taught`` tells the ears what can be said now."""
        settings, ledger, clock = self._opened.settings, self._opened.ledger, self._opened.clock
        language, access, rooms = settings.language, settings.access, self.rooms
        roles = dict(access.roles)
        playbooks = self._playbook_desk(taught)
        return Acts(
            ledger=self._opened.standing,
            tokens=Tokens(access, keys, ledger, clock, self._opened.ids),
            context=ContextView(
                ledger,
                rooms.contexts,
                self.model,
                lambda who: rooms.toolbox.visible_to(who.level),
                TokenCounter().count,
                language,
                playbooks.not_taken_up,
            ),
            tickets=self.later.tickets,
            checks=self.later.schedule,
            tools=ToolDesk(rooms.toolbox, rooms.found, Stress(rooms.toolbox, clock, language)),
            approvals=ApprovalDesk(ledger, rooms.approvals, self._rules, clock, roles, access.console, language),
            history=history,
            playbooks=playbooks,
        )

    def _playbook_desk(self, taught: Callable[[], Awaitable[None]]) -> PlaybookDesk:
        opened = self._opened
        return PlaybookDesk(
            opened.procedures, opened.playbooks, opened.phrasebook, opened.playbook_files, plant=opened.settings.plant,
            levels={**opened.third_party.levels, **shipped_tool_levels()}, contracts=shipped_contracts(),
            degraded=opened.degraded, taught=taught,
        )  # fmt: skip
