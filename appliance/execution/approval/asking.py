"""Puts the questions into a plan that its steps need: what will happen, said exactly, before it happens. Pure.

In: a plan and what the gate decided about its steps. Out: the plan, in which each step that needs a person's yes comes after a
question that is bound to it, and what follows runs only on a yes.

Of a plan that a language model made, every question about an act says first that the model proposes it, and whatever text the
model chose stands between quotation marks that it cannot close: none of it can pass for the appliance's own words.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from appliance.contracts.condition import Done, all_of, condition_of
from appliance.contracts.errors import Malformed, Refused
from appliance.contracts.plan import Plan, Step
from appliance.contracts.plant import Plant
from appliance.contracts.ports import Wording
from appliance.contracts.principal import AccessLevel
from appliance.contracts.tool import ToolContract
from appliance.execution.approval import writes
from appliance.execution.approval.consent import APPROVES, BASIS, BINDING, DIGEST, LEVEL, NEEDS_CODE, QUESTION_TOOL
from appliance.foundation.canonical import canonical_json
from appliance.foundation.sentence import capital, literal
from appliance.foundation.untrusted import clean
from appliance.store.step_names import named_in, step_digest

LONGEST_SAID = 400
"""Characters of the arguments that a question can state; nobody follows more, and what is not followed is not agreed to."""

_NOTICE_TOOL = "notify"
_PLACEHOLDER = re.compile(r"\{\{|\{[^{}]*\}")
_OPEN, _CLOSE = "\u201c", "\u201d"
_QUOTES = str.maketrans(dict.fromkeys('"\u201c\u201d\u201e\u201f\u2033\u2036\u275d\u275e\u301d\u301e\u301f\uff02', "'"))
"""Whatever looks like a double quotation mark: inside of ours it is an apostrophe."""

BasisOf = Callable[[str, Mapping[str, Any], str], str]
"""Tool, stored arguments, language -> what a yes to the call rests on (``Definitions.basis_of``)."""


@dataclass(frozen=True, slots=True)
class Need:
    """What the gate wants of a step: a question if ``asks``. ``level`` is that of the call, as its word."""

    asks: bool
    needs_code: bool
    level: str


class Questions:
    """Words the questions of one language and binds them to their steps."""

    def __init__(
        self,
        plant: Plant,
        wording: Wording,
        contracts: Mapping[str, ToolContract],
        language: str,
        basis_of: BasisOf = lambda tool, arguments, language: "",
        *,
        is_of_model: bool = False,
    ) -> None:
        """``is_of_model``: the turn's plan is a language model's, whoever wrote the procedure that it runs."""
        self._basis_of = basis_of
        self._is_of_model = is_of_model
        self._plant = plant
        self._wording = wording
        self._contracts = contracts
        self._language = language

    def put_into(self, plan: Plan, needs: Mapping[str, Need], *, is_own: bool, all_after: bool) -> Plan:
        """Return the plan with its questions. ``needs`` are those of the steps that change something, by id. ``is_own``: no model
        worded a question of it. ``all_after``: what comes after a question without naming its step waits for the yes as well.

        Raises:
            Refused: a step cannot be stated exactly.
            Malformed: a question is about a step that is not there, or not behind it.
        """
        asked = _asked_for(plan)
        taken = {step.id for step in plan.steps}
        steps: list[Step] = []
        gate = ""
        gated: dict[str, str] = {}
        for step in plan.steps:
            step = self._bound(step, plan, needs, is_own=is_own) if step.tool == QUESTION_TOOL else step
            waits_for = [gate] if all_after and gate else [gated[name] for name in named_in(step.arguments) if name in gated]
            if waits_for and not {*gated, *gated.values()}.intersection(condition_of(step.when).steps):
                step = replace(step, when=all_of([step.when, *waits_for]))
            need = needs.get(step.id)
            if need is None or not need.asks or step.id in asked:
                steps.append(step)
                continue
            asking, refusing = _free(f"ask_{step.id}", taken), _free(f"no_{step.id}", taken)
            gated[step.id] = gate = asking
            steps += [
                Step(asking, QUESTION_TOOL, self._question(step, need), step.when, step.optional, step.after),
                replace(step, when=asking),
                Step(refusing, "say", {"text": self._wording.reply("cancelled", self._language)}, f"not {asking}"),
            ]
        return replace(plan, steps=tuple(steps))

    def _bound(self, step: Step, plan: Plan, needs: Mapping[str, Need], *, is_own: bool) -> Step:
        """Fill in what makes the yes to a question count. One that a code belongs to, or of a plan in which a model had a hand,
        is worded here anew: it says what will happen, whatever it said."""
        about = str(step.arguments.get(APPROVES) or "")
        if not about:
            own = {name: told for name, told in step.arguments.items() if name not in BINDING}
            level = self._level_of_yes(step, plan, needs)
            return replace(step, arguments=(self._marked(own) if level else own) | level)
        behind = [other for other in plan.steps[plan.steps.index(_of(plan, step.id)) :] if other.id == about]
        if not behind:
            raise Malformed(f"{step.id}: there is no later step {about!r} to approve")
        need = needs.get(about, Need(asks=False, needs_code=False, level=""))
        if need.needs_code or not is_own:
            return replace(step, arguments=self._question(behind[0], need))
        return replace(step, arguments=self._marked(step.arguments) | self._binding(behind[0], need))

    def _level_of_yes(self, step: Step, plan: Plan, needs: Mapping[str, Need]) -> dict[str, str]:
        """Return what a yes lets be done needs: who may not do it cannot have it done by saying yes."""
        on_yes = (other.id for other in plan.steps if Done(step.id) in condition_of(other.when).terms)
        levels = [AccessLevel.of_word(needs[name].level) for name in on_yes if name in needs]
        return {LEVEL: max(levels).word} if levels else {}

    def _question(self, step: Step, need: Need) -> dict[str, Any]:
        try:
            what = self.statement(step)
        except Refused as refused:
            refused.facts["step"] = step.id
            raise
        question = what if need.needs_code else self._wording.reply("approve", self._language, what=what)
        return self._marked({"question": question, "requires_keyword": True}) | self._binding(step, need)

    def _marked(self, asking: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments of a question about an act, which says whose proposal that is if it is a model's."""
        if not self._is_of_model:
            return dict(asking)
        return {**asking, "question": self._wording.reply("model_proposes", self._language, what=asking["question"])}

    def _binding(self, step: Step, need: Need) -> dict[str, Any]:
        bound = {APPROVES: step.id, DIGEST: step_digest(step.tool, step.arguments), LEVEL: need.level}
        basis = self._basis_of(step.tool, step.arguments, self._language)
        return bound | ({BASIS: basis} if basis else {}) | ({NEEDS_CODE: True} if need.needs_code else {})

    def statement(self, step: Step) -> str:
        """Return what a step does, exactly, as a sentence; what is filled in when it runs is filled in there in the same way.

        Raises:
            Refused: it cannot be stated: a write whose value is not known yet, or more than anybody can follow.
        """
        write = writes.write_of(step.tool, step.arguments)
        if write is not None:
            if has_placeholder(step.arguments):
                raise Refused(self._wording.reply("not_stated", self._language))
            writes.require_sayable(write, self._plant, self._wording, self._language)
            return literal(writes.said(write, self._plant, self._wording, self._language))
        if step.tool == _NOTICE_TOOL:
            return self._notice(step)
        details = ", ".join(self._details(step.arguments))
        if len(details) > LONGEST_SAID:
            raise Refused(self._wording.reply("not_stated", self._language))
        what = literal(self._what(step.tool))
        said = f"{what}: {details}" if details else what
        return capital(self._wording.reply("to_call", self._language, what=said))

    def _notice(self, step: Step) -> str:
        """Return what is sent to whom; both are bounded by the tool."""
        told = {name: str(step.arguments.get(name, "")) for name in ("webhook", "topic", "text")}
        text = _in_words(told["text"], str)
        if len(text) > LONGEST_SAID:
            raise Refused(self._wording.reply("not_stated", self._language))
        to = self._quoted(_in_words(told["webhook"] or told["topic"], str))
        text = self._quoted(text.rstrip(".。"))
        return capital(self._wording.reply("to_notify", self._language, to=to, text=text))

    def _details(self, arguments: Mapping[str, Any]) -> Iterator[str]:
        """Yield each argument as words. Texts keep placeholders and doubled braces, to be filled in as the step's own are."""
        for name, value in arguments.items():
            if value in ("", None, (), [], {}):
                continue
            name = name.replace("_", " ")
            match value:
                case str():
                    words = _in_words(value, self._spoken)
                    yield f"{name} {words if self._is_of_plant(value) else self._quoted(words)}"
                case bool() | int() | float():
                    yield f"{name} {self._spoken(value)}"
                case _:
                    yield f"{name} {literal(canonical_json(value))}"

    def _spoken(self, value: Any) -> str:
        return self._wording.spoken(value, self._language)

    def _is_of_plant(self, name: str) -> bool:
        return name in self._plant.tag_by_key or name in self._plant.asset_by_id or name in self._plant.alarm_by_id

    def _quoted(self, words: str) -> str:
        """Return a text as a question quotes it: a model's between marks that are not in it."""
        return f"{_OPEN}{words.translate(_QUOTES)}{_CLOSE}" if self._is_of_model else words

    def _what(self, tool: str) -> str:
        try:
            return self._wording.reply(f"what_{tool}", self._language)
        except Malformed:  # a tool of another package: it says itself what it does
            return self._contracts[tool].description


def has_placeholder(arguments: Any) -> bool:
    """Whether something in the arguments is filled in only when the step runs."""
    match arguments:
        case str():
            return any(found != "{{" for found in _PLACEHOLDER.findall(arguments))
        case Mapping():
            return any(map(has_placeholder, arguments.values()))
        case list() | tuple():
            return any(map(has_placeholder, arguments))
        case _:
            return False


def _in_words(text: str, spoken: Callable[[Any], str]) -> str:
    if has_placeholder(text):
        return text
    return literal(spoken(clean(text.replace("{{", "{").replace("}}", "}"), LONGEST_SAID + 1)))


def _asked_for(plan: Plan) -> frozenset[str]:
    """Return the steps that a question of the plan is bound to."""
    return frozenset(str(s.arguments.get(APPROVES)) for s in plan.steps if s.tool == QUESTION_TOOL and s.arguments.get(APPROVES))


def _of(plan: Plan, step_id: str) -> Step:
    return next(step for step in plan.steps if step.id == step_id)


def _free(name: str, taken: set[str]) -> str:
    name = name[:60]
    found = next(each for each in (name, *(f"{name}_{n}" for n in range(2, 1_000))) if each not in taken)
    taken.add(found)
    return found
