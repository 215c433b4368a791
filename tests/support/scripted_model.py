"""A language model that answers what a test tells it to, and a room in which plans are asked of it."""

from __future__ import annotations

import importlib
import json
import pkgutil
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from appliance.contracts.admission import Door, Request, RequestKind
from appliance.contracts.model import ModelReply, ModelRequest, Usage
from appliance.contracts.plan import Action, ActionState, Intent, Step
from appliance.contracts.planning import Asked
from appliance.contracts.plant import Plant
from appliance.contracts.principal import PRINCIPAL, AccessLevel, Identification, Principal
from appliance.contracts.store import Transaction
from appliance.contracts.tool import ToolContract
from appliance.contracts.turn import Turn, TurnState
from appliance.execution import tools as tool_files
from appliance.foundation.supervisor import Degraded
from appliance.memory.memory import Memory
from appliance.memory.settings import MemorySettings
from appliance.planning.model.context import Contexts
from appliance.planning.model.frozen import FrozenKnowledge
from appliance.planning.model.model_planner import ModelPlanner
from appliance.planning.phrases import Phrasebook
from appliance.store import actions, admissions, deliveries, sessions, turns
from drivers.models.tokens import TokenCounter
from tests.support.ledger import Bench, open_bench
from tests.support.planning import PHRASES, shipped_phrasebook, shipped_plant, shipped_playbooks

Answer = str | Exception | Callable[[ModelRequest], str]


@dataclass
class ScriptedModel:
    """Implements ``LanguageModel``. ``answers`` are given in order, the last one again and again."""

    answers: list[Answer] = field(default_factory=list)
    context_tokens: int = 4_096
    name: str = "test/scripted"
    requests: list[ModelRequest] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._counter = TokenCounter()

    def count_tokens(self, text: str) -> int:
        """As the driver counts before a server has told it more."""
        return self._counter.count(text)

    def request_tokens(self, request: ModelRequest) -> int:
        """As the driver counts for a server that takes the schema as a grammar."""
        return self._counter.request(request, "schema")

    def give_up(self, name: str) -> bool:
        """There is no other."""
        return False

    async def complete(self, request: ModelRequest) -> ModelReply:
        """Answer, or raise what is to be raised."""
        self.requests.append(request)
        answer = self.answers[min(len(self.requests), len(self.answers)) - 1]
        if isinstance(answer, Exception):
            raise answer
        text = answer(request) if callable(answer) else answer
        return ModelReply(text, "test", "scripted", Usage(1, 1))

    @property
    def prompts(self) -> list[str]:
        """Everything that was sent, a text a request."""
        return ["\n".join(message.content for message in request.messages) for request in self.requests]


def plan_of(*steps: Mapping[str, Any], goes_on: bool = False) -> str:
    """Return a plan as a model writes it."""
    return json.dumps({"steps": list(steps), "goes_on": goes_on}, ensure_ascii=False)


def step(id: str, tool: str, **arguments: Any) -> dict[str, Any]:
    """One step of it."""
    return {"id": id, "tool": tool, "arguments": arguments}


def somebody(level: AccessLevel = AccessLevel.OPERATOR) -> Principal:
    """A person at the socket with a level."""
    return Principal("anna", Identification.SOCKET, "operator", level)


def shipped_contracts() -> dict[str, ToolContract]:
    """The contract of every tool that has a file."""
    found: dict[str, ToolContract] = {}
    for each in pkgutil.iter_modules(tool_files.__path__):
        module = importlib.import_module(f"{tool_files.__name__}.{each.name}")
        for value in vars(module).values():
            contract = getattr(value, "contract", None)
            if isinstance(contract, ToolContract) and value.__module__ == module.__name__:
                found[contract.name] = contract
    return found


@dataclass
class PlanningRoom:
    """A ledger, memories, the contracts of the shipped tools, and a model planner."""

    bench: Bench
    memory: Memory
    plant: Plant
    phrasebook: Phrasebook
    model: ScriptedModel
    contexts: Contexts
    planner: ModelPlanner
    contracts: dict[str, ToolContract]

    def visible(self, level: AccessLevel) -> dict[str, ToolContract]:
        """The tools somebody of this level may see."""
        return {name: each for name, each in self.contracts.items() if each.security.access_level <= level}

    async def asked(
        self, said: str, *, language: str = "en", level: AccessLevel = AccessLevel.OPERATOR, session: str = "", turn: str = "",
        earlier: Sequence[Action] = (),
    ) -> Asked:  # fmt: skip
        """What the planner is asked for a sentence."""
        session = session or await self.session()
        intent = Intent("not_understood", language, said)
        tools, who = self.visible(level), somebody(level)
        return Asked(intent, {"online": True}, who, tools, session, turn, earlier=tuple(earlier))

    async def session(self, lane: str = "console:anna") -> str:
        """The id of a lane's open session."""
        bench = self.bench
        return await bench.database.transaction(lambda tx: sessions.open_for(tx, bench.clock, bench.ids, lane))

    async def past(
        self, said: str, calls: Sequence[tuple[str, dict[str, Any], dict[str, Any]]] = (), replies: Sequence[str] = (), *,
        language: str = "en", lane: str = "console:anna", level: AccessLevel = AccessLevel.OPERATOR,
    ) -> str:  # fmt: skip
        """Write a turn that has ended: what was said, its calls with their results, what was answered. Return its id."""
        bench = self.bench

        def work(tx: Transaction) -> str:
            turn_id = bench.ids.mint("tr")
            request = Request(Door.CONSOLE, RequestKind.UTTERANCE, lane, f"key:{turn_id}", {}, 5)
            turn = Turn(
                id=turn_id, session_id=sessions.open_for(tx, bench.clock, bench.ids, lane, None),
                admission_id=admissions.insert(tx, bench.clock, bench.ids, request, "digest").id, lane=lane, language=language,
                state=TurnState.IDLE, intent="not_understood", plan=None,
                context={"said": said, PRINCIPAL: somebody(level).to_json()}, blocking_reason="", failure="",
                state_hash="", lifespan_s=300.0, offline=False, opened_utc=bench.clock.utc(), updated_utc=bench.clock.utc(),
            )  # fmt: skip
            turns.insert(tx, turn)
            steps = [Step(f"s{n}", tool, arguments) for n, (tool, arguments, _) in enumerate(calls)]
            for action, (_, _, result) in zip(actions.insert_plan(tx, bench.ids, turn_id, steps), calls, strict=True):
                actions.change(tx, action.id, ActionState.DONE, result)
            for text in replies:
                deliveries.queue(tx, bench.clock, bench.ids, turn_id=turn_id, language=language, text=text, priority=5)
            return turn_id

        return await bench.database.transaction(work)


@asynccontextmanager
async def open_planning(
    folder: Path, answers: Sequence[Answer] = ("",), *, plant: Plant | None = None, context_tokens: int = 4_096
) -> AsyncIterator[PlanningRoom]:
    """Build it in a folder of its own."""
    async with open_bench(folder) as bench:
        memory = Memory(bench.database, bench.clock, bench.ids, MemorySettings(), None, None, Degraded())
        phrasebook = shipped_phrasebook() if plant is None else Phrasebook.load(PHRASES, plant)
        plant = plant or shipped_plant()
        model = ScriptedModel(list(answers), context_tokens)
        knowledge = FrozenKnowledge(bench.database, bench.clock, shipped_playbooks(), plant.site)
        contexts = Contexts(bench.database, bench.clock, phrasebook, plant, memory, knowledge)
        planner = ModelPlanner(model, contexts, phrasebook, plant)
        try:
            yield PlanningRoom(bench, memory, plant, phrasebook, model, contexts, planner, shipped_contracts())
        finally:
            await memory.stop()
