"""Builds planning and execution: tools, what guards them, the planners, the runner. Read with ``app``.

The same objects are built for tests and crash runs: there is one way to a runner, and it leads through the approvals.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator

from appliance.contracts.clock import Clock, IdSource
from appliance.contracts.embedding import Embedder
from appliance.contracts.escalation import Escalator
from appliance.contracts.history import TagHistory
from appliance.contracts.model import LanguageModel
from appliance.contracts.plant import Plant
from appliance.contracts.ports import AlarmHands, AlarmShelf, FieldBus, ProcedureStore, Wording
from appliance.contracts.store import Ledger
from appliance.contracts.third_party import ToolPorts
from appliance.execution.approval.approvals import Approvals
from appliance.execution.approval.settings import ApprovalSettings
from appliance.execution.runner import Runner, retry_waits
from appliance.execution.settling import verify_waits
from appliance.execution.shipped import shipped_tools
from appliance.execution.spill import Spill
from appliance.execution.toolbox.third_party import ThirdParty, build_toolbox
from appliance.execution.tools.notify import Receivers
from appliance.execution.tools.read_vitals import ReadNow
from appliance.execution.workers.warden import Warden
from appliance.foundation.supervisor import Degraded, Faults
from appliance.memory.memory import Memory
from appliance.planning.examples import ExamplePlanner
from appliance.planning.model.context import Contexts
from appliance.planning.model.frozen import FrozenKnowledge
from appliance.planning.model.model_planner import ModelPlanner
from appliance.planning.phrases import Phrasebook
from appliance.planning.planner import Planner
from appliance.planning.planners import NotUnderstood, PhrasePlanner, Planners
from appliance.planning.playbooks.playbooks import Playbooks
from appliance.planning.playbooks.procedure_book import ProcedureBook


class AgentRooms:
    """Everything between an understood input and its words. ``delivered`` is called after a commit that queued words,
    ``progress`` with a turn's id after one that changed the state of a step; the two ``waits`` yield pauses in s.

    ``model`` and ``embedder`` may be None: then nothing is asked of them, and everything else works. ``found`` are tools of
    other packages.
    """

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
        embedder: Embedder | None,
        procedures: ProcedureStore,
        wording: Wording,
        phrasebook: Phrasebook,
        playbooks: Playbooks,
        alarm_hands: AlarmHands,
        alarm_shelf: AlarmShelf,
        receivers: Receivers,
        read_vitals: ReadNow,
        history: TagHistory,
        rules: ApprovalSettings,
        escalator: Escalator,
        spill: Spill,
        model: LanguageModel | None,
        warden: Warden,
        degraded: Degraded,
        delivered: Callable[[], None],
        progress: Callable[[str], None],
        found: ThirdParty | None = None,
        settle_waits: Callable[[], Iterable[float]] = verify_waits,
        retry_waits: Callable[[], Iterator[float]] = retry_waits,
    ) -> None:
        shipped = shipped_tools(
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
            receivers=receivers,
            understand=phrasebook.understand,
            read_vitals=read_vitals,
            history=history,
            spill=spill,
            playbooks=ProcedureBook(playbooks, phrasebook, plant),
            with_questions=lambda tx, plan, asked: self.approvals.with_questions(tx, plan, asked),
            write_level=rules.level_of,
        )
        self.found = found or ThirdParty()
        self.toolbox = build_toolbox(shipped, self.found, ToolPorts(bus, plant, wording, clock), warden, degraded)
        self.approvals = Approvals(rules, self.toolbox, plant, bus, ledger, wording, clock)
        self.faults = Faults(degraded)
        bounds_s = {name: contract.sla.max_execution_time_ms / 1000 for name, contract in self.toolbox.contracts.items()}
        self.planner = Planner(phrasebook, playbooks, plant, bounds_s)
        knowledge = FrozenKnowledge(ledger, clock, playbooks, plant.site)
        self.contexts = Contexts(ledger, clock, phrasebook, plant, memory, knowledge)
        phrases = PhrasePlanner(self.planner)
        self.examples = ExamplePlanner(phrasebook, phrases, embedder)
        self.planners = Planners(
            [phrases, self.examples, ModelPlanner(model, self.contexts, phrasebook, plant), NotUnderstood(self.planner)]
        )
        self.runner = Runner(
            ledger, self.toolbox, clock, ids, epoch, wording, approvals=self.approvals, escalator=escalator, spill=spill,
            faults=self.faults, delivered=delivered, progress=progress, settle_waits=settle_waits, retry_waits=retry_waits,
        )  # fmt: skip

    @property
    def services(self) -> dict[str, Callable[[], Awaitable[None]]]:
        """Name -> what runs for ever."""
        return {"examples": self.examples.run}
