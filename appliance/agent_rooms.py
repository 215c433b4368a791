"""Builds planning and execution: tools, what guards them, the planners, the runner. Read with ``app``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from appliance.contracts.clock import Clock, IdSource
from appliance.contracts.plant import Plant
from appliance.contracts.ports import AlarmHands, AlarmShelf, FieldBus, ProcedureStore, Wording
from appliance.contracts.store import Ledger
from appliance.execution.runner import Runner, retry_waits
from appliance.execution.settling import verify_waits
from appliance.execution.shipped import shipped_tools
from appliance.execution.toolbox import Toolbox
from appliance.memory.memory import Memory
from appliance.planning.phrases import Phrasebook
from appliance.planning.planner import Planner
from appliance.planning.playbooks import Playbooks


class AgentRooms:
    """Everything between an understood input and its words. ``delivered`` is called after a commit that queued words,
    ``progress`` with a turn's id after one that changed the state of a step; the two ``waits`` yield pauses in s."""

    def __init__(
        self,
        *,
        ledger: Ledger,
        clock: Clock,
        ids: IdSource,
        epoch: int,
        plant: Plant,
        bus: FieldBus,
        memory: Memory,
        procedures: ProcedureStore,
        wording: Wording,
        phrasebook: Phrasebook,
        playbooks: Playbooks,
        alarm_hands: AlarmHands,
        alarm_shelf: AlarmShelf,
        delivered: Callable[[], None],
        progress: Callable[[str], None],
        settle_waits: Callable[[], Iterable[float]] = verify_waits,
        retry_waits: Callable[[], Iterator[float]] = retry_waits,
    ) -> None:
        tools = shipped_tools(
            plant=plant,
            bus=bus,
            recaller=memory,
            writer=memory,
            procedures=procedures,
            wording=wording,
            clock=clock,
            ids=ids,
            alarm_hands=alarm_hands,
            alarm_shelf=alarm_shelf,
        )
        self.toolbox = Toolbox(tools)
        bounds_s = {name: contract.sla.max_execution_time_ms / 1000 for name, contract in self.toolbox.contracts.items()}
        self.planner = Planner(phrasebook, playbooks, plant, bounds_s)
        self.runner = Runner(
            ledger, self.toolbox, clock, ids, epoch, wording,
            delivered=delivered, progress=progress, settle_waits=settle_waits, retry_waits=retry_waits,
        )  # fmt: skip
