"""From what was said to a plan that may be stored: understood, planned, looked at by the approvals, checked.

The same parts as in the core, on a plant of 500 tags, in every language that ships; nothing is asked of a model or of the field.
"""

from __future__ import annotations

import gc
import inspect
import json
import time
from collections import Counter
from pathlib import Path
from typing import Any

from appliance.contracts.errors import Refused
from appliance.contracts.plan import Intent
from appliance.contracts.planning import Asked
from appliance.contracts.plant import Plant
from appliance.execution.approval.approvals import Approvals
from appliance.execution.approval.settings import ApprovalSettings
from appliance.execution.shipped import shipped_tools
from appliance.execution.toolbox.toolbox import Toolbox
from appliance.planning.phrases import Phrasebook
from appliance.planning.plan_check import check
from appliance.planning.planner import Planner
from appliance.planning.planners import NotUnderstood, PhrasePlanner, Planners
from appliance.planning.playbooks.playbooks import Playbooks
from bench.durable_core import DurableCore, durable_core
from bench.figures import Findings
from bench.plants import floor_plant
from bench.quantiles import quantiles
from bench.utterances import utterances
from demo.site import CONFIG

ASSETS, TAGS_EACH = 50, 10
MOST_P99_MS = 5.0
_SEED = 5
_WARM_UP = 100


class PlanMaking:
    """The way from a sentence to a plan."""

    def __init__(self, core: DurableCore, plant: Plant, book: Phrasebook, playbooks: Playbooks) -> None:
        ports: dict[str, Any] = dict.fromkeys(inspect.signature(shipped_tools).parameters)  # their contracts are all that is used
        toolbox = Toolbox(shipped_tools(**ports | {"plant": plant}))
        self._book = book
        self._contracts = toolbox.contracts
        planner = Planner(book, playbooks, plant)
        self._planners = Planners([PhrasePlanner(planner), NotUnderstood(planner)])
        no_field: Any = None  # no interlock is configured, so nothing is read
        self._approvals = Approvals(ApprovalSettings(), toolbox, plant, no_field, core.database, core.wording, core.clock)
        self.came_to: Counter[str] = Counter()

    async def make(self, text: str, language: str) -> tuple[float, float]:
        """Make one plan and return how long that took and what it took of the processor, in ms; a sentence that is refused is an
        answer, too."""
        began_ns, began_cpu_ns = time.perf_counter_ns(), time.process_time_ns()
        intent = self._book.understand(text, language) or Intent("not_understood", language, text)
        asked = Asked(intent, {"last_said": "", "pending": [], "online": True}, tools=self._contracts)
        try:
            plan = await self._planners.plan(asked)
            assert plan is not None
            plan = await self._approvals.prepare(plan, asked)
            check(plan, self._contracts)
            json.dumps(plan.to_json())
            came_to = "not understood" if intent.name == "not_understood" else "planned"
        except Refused:
            came_to = "refused"
        self.came_to[came_to] += 1
        return (time.perf_counter_ns() - began_ns) / 1e6, (time.process_time_ns() - began_cpu_ns) / 1e6


async def measure_planning(findings: Findings, folder: Path, *, count: int) -> None:
    """Fill in ``utterance_to_plan_ms``, ``plans_s`` and what the sentences came to."""
    plant = Plant.model_validate(floor_plant(ASSETS, TAGS_EACH))
    playbooks = Playbooks.load(CONFIG / "playbooks", "bench")
    book = Phrasebook.load(CONFIG / "phrases", plant).knowing(playbooks)
    book.prepare()
    said = list(utterances(book, plant, count + _WARM_UP, _SEED))
    async with durable_core(folder) as core:
        making = PlanMaking(core, plant, book, playbooks)
        for text, language in said[:_WARM_UP]:
            await making.make(text, language)
        making.came_to.clear()
        gc.collect()
        began_s = time.perf_counter()
        times = [await making.make(text, language) for text, language in said[_WARM_UP:]]
        took_s = time.perf_counter() - began_s
    figures = findings.figures
    figures["tags"] = ASSETS * TAGS_EACH
    figures["utterances"] = count
    figures["utterances_came_to"] = dict(sorted(making.came_to.items()))
    figures["utterance_to_plan_ms"] = quantiles([took_ms for took_ms, _ in times], 50, 99)
    figures["utterance_to_plan_cpu_ms"] = quantiles([cpu_ms for _, cpu_ms in times], 50, 99)  # whatever else this machine does
    figures["plans_s"] = round(count / took_s)
    p99_ms = figures["utterance_to_plan_ms"]["p99"]
    says = f"from a phrase to a plan at most {MOST_P99_MS:g} ms in 99 of 100 cases, with {ASSETS * TAGS_EACH} tags"
    findings.reach("utterance_to_plan_p99_ms", p99_ms, MOST_P99_MS, says)
