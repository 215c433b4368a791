"""A language model as one more planner (A1): it widens what can be asked, never what may be done.

It is asked when phrases, playbooks and examples have no answer. Its plan passes the same checks as any other and a few more:
every step that changes something waits for a person's yes to exactly that step, and what it says is said to be a model's words.
"""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from appliance.contracts.condition import all_of
from appliance.contracts.errors import Malformed, Refused, Unavailable
from appliance.contracts.model import ContextOverflow, LanguageModel, Message, ModelReply, ModelRequest, ModelsAway
from appliance.contracts.plan import MODEL_SOURCE, Plan, Step
from appliance.contracts.planning import Asked, needing
from appliance.contracts.plant import Plant
from appliance.contracts.tool import ToolContract
from appliance.foundation.untrusted import clean, unmarked
from appliance.planning.model import model_plan, prompt
from appliance.planning.model.context import SCALES, Contexts, ModelContext
from appliance.planning.phrases import Phrasebook
from appliance.planning.plan_check import check
from appliance.planning.tongue import Tongue
from appliance.planning.writing import guarded_write

log = logging.getLogger(__name__)

MOST_ROUNDS = 4
"""Times a model is asked for one request: it may look at results three times, then it has to answer."""

_TRIES = 3  # a plan that is none is asked for again twice
_MOST_ASKED = 24  # requests of one round, lengths of several models and plans that were none together
_ROUND = re.compile(r"m([1-9])_")
_LONGEST_ECHO = 300


class ModelPlanner:
    """Implements :class:`appliance.contracts.planning.PlanMaker` over a model, if there is one."""

    def __init__(self, model: LanguageModel | None, contexts: Contexts, phrasebook: Phrasebook, plant: Plant) -> None:
        self._model = model
        self._contexts = contexts
        self._phrasebook = phrasebook
        self._plant = plant

    async def plan(self, asked: Asked) -> Plan | None:
        """Return the model's plan, or None: no model, none that answers, none whose plan is one, or nothing left to ask for.

        Whoever was understood and waits for the end of a plan that goes on is told when there is none.
        """
        round_number = 1 + max((int(found[1]) for step in asked.earlier if (found := _ROUND.match(step.step_id))), default=0)
        if self._model is None or not asked.intent.text.strip() or round_number > MOST_ROUNDS:
            return None
        plan = await self._asked_of(self._model, asked, round_number)
        return self._no_answer(asked) if plan is None and round_number > 1 else plan

    async def _asked_of(self, model: LanguageModel, asked: Asked, round_number: int) -> Plan | None:
        prefix, is_last = f"m{round_number}_", round_number == MOST_ROUNDS
        name, smaller, tries_left = model.name, 0, _TRIES
        corrections: tuple[Message, ...] = ()
        for _ in range(_MOST_ASKED):
            if smaller >= len(SCALES):  # whoever answered before can take a request
                if tries_left < _TRIES or not model.give_up(name):
                    return None
                smaller = 0
            if model.name != name:
                name, smaller = model.name, 0
            try:
                try:
                    context = await self._contexts.of(asked, model, smaller=smaller, is_last=is_last)
                except ContextOverflow:
                    smaller = len(SCALES)  # all of them were tried
                    raise
                request = self._request(asked, context, corrections, is_last=is_last)
                _require_room(model, request)
                reply = await model.complete(request)
            except ContextOverflow as error:
                log.warning("model_plan.too_long", extra={"why": error.message, "smaller": smaller})
                smaller, corrections = smaller + 1, ()
                continue
            except (ModelsAway, Unavailable) as error:
                log.info("model_plan.no_model", extra={"why": error.message})
                return None
            try:
                return self._plan(asked, context.offer.contracts, reply, prefix, is_last=is_last)
            except (Malformed, Refused) as error:
                log.warning("model_plan.rejected", extra={"why": clean(error.message, _LONGEST_ECHO), "source": _source(reply)})
                echo, why = unmarked(reply.text, _LONGEST_ECHO), error.message.replace(prefix, "")
                corrections = (Message("assistant", echo or "{}"), Message("user", prompt.correction(why)))
                tries_left -= 1
                if not tries_left:
                    if isinstance(error, Refused):  # there is nothing else than what will not be done, which is to be on record
                        error.facts["source"] = _source(reply)
                        needing(error, ("write_tag",))
                        asked.passed_over.append(error)
                    return None
        return None

    def _no_answer(self, asked: Asked) -> Plan:
        text = self._phrasebook.reply("model_no_answer", asked.intent.language)
        return Plan(asked.intent.name, f"{MODEL_SOURCE}none", (Step("answer", "say", {"text": text}),))

    def _request(self, asked: Asked, context: ModelContext, corrections: Sequence[Message], *, is_last: bool) -> ModelRequest:
        offered = context.offer.contracts
        if is_last:  # small models would look again and again
            offered = {name: each for name, each in offered.items() if name == "say" or each in context.offer.acting}
        return ModelRequest(
            messages=(*context.messages, *corrections),
            most_tokens=context.reply_tokens,
            schema=model_plan.schema_of(offered, context.names),
            schema_name="plan",
            purpose="plan",
            session_id=asked.session_id,
            turn_id=asked.turn_id,
        )

    def _plan(self, asked: Asked, offered: Mapping[str, ToolContract], reply: ModelReply, prefix: str, *, is_last: bool) -> Plan:
        """Return what a model answered as a plan of ours.

        Raises:
            Malformed, Refused: it is none; the message says why, to the model.
        """
        told = model_plan.read(reply.text)
        language = asked.intent.language
        tongue = Tongue(self._phrasebook.phrases(language), self._plant)
        steps = model_plan.steps_of(told, offered, prefix, asked.earlier, asked.tools)
        steps = _without_foretelling(steps, offered)
        acting = [step.id for step in steps if offered[step.tool].changes_something or offered[step.tool].extends_plan]
        if len(acting) > 1:
            raise Malformed("at most one step of a plan may change something; do the first one now")
        follows = any(offered[step.tool].extends_plan for step in steps)
        is_talking = follows or any(step.tool == "say" for step in steps)
        goes_on = not acting and not is_last and (told.goes_on or not is_talking)
        if goes_on:
            steps = tuple(step for step in steps if step.tool != "say")  # what it says comes when it has seen the results
            if not steps:
                raise Malformed('"goes_on" is true and there is no reading step')
        elif not is_talking:
            raise Malformed("end with a `say` step, or give only reading steps and set goes_on to true")
        self._check_names(steps)
        ours: list[Step] = []
        for step in steps:
            ours.append(self._as_ours(step, [each.id for each in ours if each.id in acting], tongue))
        known = [(done.tool, done.arguments) for done in asked.earlier]
        if goes_on and all((step.tool, step.arguments) in known for step in ours):
            raise Malformed("these results are there already; answer with `say`")
        estimate_s = sum(offered[step.tool].sla.max_execution_time_ms / 1000 for step in ours if step.tool in offered)
        plan = Plan(asked.intent.name, _source(reply), tuple(ours), round(estimate_s, 3), goes_on)
        check(plan, asked.tools)
        return plan

    def _as_ours(self, step: Step, done: Sequence[str], tongue: Tongue) -> Step:
        """Return a step with what the appliance adds: what a write is called, whose words are said and only if what was to be
        ``done`` before them was, where is searched. The gate puts the question before what changes something."""
        arguments = dict(step.arguments)
        match step.tool:
            case "write_tag":
                tag, value = self._plant.tag_by_key.get(str(arguments.get("key"))), arguments.get("value")
                if tag is None or isinstance(value, bool) or not isinstance(value, int | float):
                    raise Malformed(f"step {step.id}: key has to be a tag and value a number")
                _, writing = guarded_write(tag, _number(value), tongue, write=step.id)
                return replace(writing, when="", after=step.after)
            case "say":
                arguments = {"lead": tongue.reply("model_says"), "text": str(arguments.get("text", ""))}
                return replace(step, arguments=arguments, when=all_of(done))
            case "search_memory":
                return replace(step, arguments=arguments | {"scope": self._plant.site})
            case _:
                return step

    def _check_names(self, steps: Sequence[Step]) -> None:
        """Raises Malformed: a tag or machine the plant does not have, however deep in the arguments it is named."""
        for step in steps:
            for told in _mappings(step.arguments):
                keys = [told.get("key"), *(told["keys"] if isinstance(told.get("keys"), list) else ())]
                for key in keys:
                    if key is not None and str(key) not in self._plant.tag_by_key:
                        raise Malformed(f"step {step.id}: there is no tag {clean(str(key), 64)}")
                asset = told.get("asset")
                if asset and str(asset) not in self._plant.asset_by_id:
                    raise Malformed(f"step {step.id}: there is no machine {clean(str(asset), 64)}")


def _without_foretelling(steps: Sequence[Step], offered: Mapping[str, ToolContract]) -> tuple[Step, ...]:
    """Return the steps without what is said beside a procedure: its steps come behind all of these, and tell what came of it."""
    if not any(offered[step.tool].extends_plan for step in steps):
        return tuple(steps)
    said = {step.id for step in steps if step.tool == "say"}
    kept = [step for step in steps if step.id not in said]
    return tuple(replace(step, after=tuple(name for name in step.after if name not in said)) for step in kept)


def _mappings(value: Any) -> Iterator[Mapping[str, Any]]:
    """Yield a mapping and all that it holds."""
    match value:
        case Mapping():
            yield value
            for held in value.values():
                yield from _mappings(held)
        case list():
            for held in value:
                yield from _mappings(held)


def _require_room(model: LanguageModel, request: ModelRequest) -> None:
    """Raises ContextOverflow: with its schema, where the model has to read that, and its answer it is more than the window."""
    tokens = model.request_tokens(request) + request.most_tokens
    if tokens > model.context_tokens:
        raise ContextOverflow(f"{tokens} tokens with the answer; {model.context_tokens} fit", context_tokens=model.context_tokens)


def _number(value: int | float) -> float:
    """Return a number as a write takes it; one of more digits than any register holds is beyond every limit."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _source(reply: ModelReply) -> str:
    return clean(f"{MODEL_SOURCE}{reply.provider}/{reply.model}", 200)
