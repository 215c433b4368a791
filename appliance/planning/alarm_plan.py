"""The plan for an alarm: its playbook with this alarm's facts filled in, or the plain plan when no playbook fits.

What is known now (alarm, asset, names, the measured value) is filled in here; ``{steps.…}`` stays and is filled when a step
runs. An alarm always gets a plan: a playbook that is missing, or is not written in the language, is passed over.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from appliance.contracts.alarm import Alarm, AlarmChange
from appliance.contracts.alarm_definition import AlarmDefinition, Priority
from appliance.contracts.errors import Refused
from appliance.contracts.plan import PLAYBOOK_SOURCE, Plan, Step
from appliance.contracts.tag import Tag
from appliance.foundation.sentence import joined, literal
from appliance.planning.answers import say
from appliance.planning.playbooks.playbook_filler import Filler, Occasion
from appliance.planning.playbooks.playbook_steps import ASSET
from appliance.planning.playbooks.playbooks import Playbooks
from appliance.planning.tongue import Tongue

_CONFIDENCE = 0.9  # of an episode that only says what the gateway reported
_ONLY_TOLD = 2  # plans that were rejected


def plan_for(alarm: Mapping[str, Any], tongue: Tongue, playbooks: Playbooks, rejected: int = 0) -> Plan:
    """Return the plan for an alarm event (the payload of its admission). ``rejected``: how many plans for it could not be used;
    after the first one its playbook is passed over, after the second it is only told.

    Raises:
        Malformed: an alarm the plant model does not have.
    """
    plan = _plan_for(alarm, tongue, playbooks if rejected == 0 else None)
    if rejected < _ONLY_TOLD:
        return plan
    told = plan.steps[0].arguments
    return replace(plan, steps=(say(joined(told.get("lead", ""), told["text"]), id=plan.steps[0].id),))


def announcement_of(alarm: Mapping[str, Any], tongue: Tongue) -> str:
    """Return the sentence that tells an alarm event without a plan.

    Raises:
        Malformed: an alarm the plant model does not have.
    """
    lead = _Facts.of(alarm, tongue.definition(str(alarm["alarm_id"])), tongue).words["lead"]
    is_over = alarm.get("change") == AlarmChange.CLEARED
    return tongue.reply("alarm_cleared", text=lead) if is_over else lead


def _plan_for(alarm: Mapping[str, Any], tongue: Tongue, playbooks: Playbooks | None) -> Plan:
    definition = tongue.definition(str(alarm["alarm_id"]))
    facts = _Facts.of(alarm, definition, tongue).literal()
    if (notice := str(alarm.get("notice") or "")) in _NOTICES:
        return Plan(f"alarm_{notice}", f"phrase:alarm_{notice}", (_NOTICES[notice](facts, alarm, tongue),))
    if alarm.get("change") == AlarmChange.CLEARED:
        return Plan("alarm_cleared", "phrase:alarm_cleared", _cleared(facts, alarm, tongue))
    playbook = None if playbooks is None else playbooks.for_alarm(definition.playbook, definition.fault, tongue.language)
    if playbooks is None or playbook is None:
        return Plan("alarm_raised", "phrase:alarm_raised", _plain(facts, tongue))
    try:
        steps = Filler(facts.occasion(tongue), tongue, playbook).steps()
    except Refused:  # it wants something written that this machine does not have, or not so far
        return Plan("alarm_raised", "phrase:alarm_raised", _plain(facts, tongue))
    return Plan("alarm_raised", f"{PLAYBOOK_SOURCE}{playbook.name}@{playbooks.commit}", steps)


def lead_of(definition: AlarmDefinition, tongue: Tongue) -> str:
    """Return the announcement of an alarm: its text and a full stop."""
    return tongue.sentence(tongue.alarm_text(definition))


def text_of(alarm: Alarm, tongue: Tongue) -> str:
    """Return an alarm's text with its value in it, without a full stop; its id when the plant model does not have it any more."""
    definition = tongue.plant.alarm_by_id.get(alarm.alarm_id)
    if definition is None:
        return alarm.alarm_id.replace("_", " ")
    return _Facts.of({"value": alarm.value, "unit": alarm.unit}, definition, tongue).words["text"]


@dataclass(frozen=True, slots=True)
class _Facts:
    """What is known of the alarm when the plan is made; ``words`` is what ``{alarm.…}`` names.

    ``remark`` is said behind the announcement of an alarm that is no news, or that the gateway did not report.
    """

    definition: AlarmDefinition
    scope: str
    words: Mapping[str, str]
    record: Mapping[str, Any]
    remark: str

    def occasion(self, tongue: Tongue) -> Occasion:
        """What a playbook is run for because of this alarm."""
        words = {f"alarm.{name}": text for name, text in self.words.items()} | {ASSET: self.words["asset"]}
        about = {ASSET: self.definition.asset}
        ready = literal(lead_of(self.definition, tongue))
        return Occasion(self.scope, about, words, self.definition.fault, self.record, self.words["lead"], ready, self.remark)

    def literal(self) -> _Facts:
        """Return the facts as a plan takes them, in which a single brace would begin the name of a result."""
        record = {name: literal(value) if isinstance(value, str) else value for name, value in self.record.items()}
        return replace(self, words={name: literal(text) for name, text in self.words.items()}, record=record)

    @staticmethod
    def of(alarm: Mapping[str, Any], definition: AlarmDefinition, tongue: Tongue) -> _Facts:
        tag = tongue.plant.tag_by_key.get(definition.tag or "")
        value, unit = alarm.get("value"), str(alarm.get("unit") or (tag.unit if tag else ""))
        if value is None:
            said = tongue.reply("value_unknown")
        else:
            said_unit, decimals = _unit_to_say(alarm, tag, tongue), tag.decimals if tag else 0
            said = tongue.phrases.vocabulary.spoken_number(float(value), said_unit, decimals)
        text = tongue.alarm_text(definition).replace("{value}", said)
        words = {
            "lead": tongue.sentence(text),
            "text": text.strip().rstrip(".!。！"),
            "value": said,
            "asset": tongue.asset(definition.asset),
            "area": tongue.plant.asset_by_id[definition.asset].area,
            "quantity": tongue.tag(tag.key) if tag else "",
            "id": definition.id,
            "fault": definition.fault,
            "priority": str(Priority(definition.priority)),
            "raised": str(alarm.get("source_utc") or ""),
        }
        record = {"alarm": definition.id, "activation": alarm.get("activation_id"), "value": value, "unit": unit}
        return _Facts(definition, tongue.plant.site, words, record, _remark(alarm, tongue))


def _remark(alarm: Mapping[str, Any], tongue: Tongue) -> str:
    parts = [_still_active(alarm, tongue)] if alarm.get("is_state") else []
    return " ".join([*parts, tongue.reply("alarm_missed")] if alarm.get("was_missed") else parts)


def _still_active(alarm: Mapping[str, Any], tongue: Tongue) -> str:
    """Say that it is no news, and for how long it has been so if that is known; the runner words the duration."""
    if alarm.get("active_for") is None:
        return tongue.reply("still_active")
    return tongue.reply("still_active_for", age="{alarm.active_for}")


def _unit_to_say(alarm: Mapping[str, Any], tag: Tag | None, tongue: Tongue) -> str:
    """Return the unit the value is said with; none when that of the message is not to be trusted.

    What a gateway writes must not put words into the appliance's mouth: only units with words are said. A value in another
    unit than its tag's is said bare, since naming the tag's would make it another value.
    """
    own = tag.unit if tag else ""
    told = str(alarm.get("unit") or own)
    if own and told != own:
        return ""
    return told if tongue.phrases.vocabulary.has_unit(told) else ""


def _cleared(facts: _Facts, alarm: Mapping[str, Any], tongue: Tongue) -> tuple[Step, ...]:
    """Tell that it is over; of one whose raise has not come, nobody was told that it began."""
    name = "alarm_came_and_went" if alarm.get("came_and_went") else "alarm_cleared"
    text = tongue.reply(name, text=facts.words["lead"])
    return say(text, id="announce"), _remember(facts, text)


def _again(facts: _Facts, alarm: Mapping[str, Any], tongue: Tongue) -> Step:
    """Tell once more of an alarm that nobody has answered."""
    return say(f"{facts.words['lead']} {_still_active(alarm, tongue)}", id="announce")


def _chatter(facts: _Facts, alarm: Mapping[str, Any], tongue: Tongue) -> Step:
    """Tell, once, of an alarm that comes and goes too often to be told each time."""
    return say(tongue.reply("alarm_chatter", text=facts.words["lead"], count=str(alarm["count"])), id="announce")


_NOTICES: Mapping[str, Callable[[_Facts, Mapping[str, Any], Tongue], Step]] = {"again": _again, "chatter": _chatter}
"""What is told of an alarm besides its coming and going -> the step that tells it."""


def _plain(facts: _Facts, tongue: Tongue) -> tuple[Step, ...]:
    """Announce, remember, ask for a work order: what can be done about any alarm."""
    words, asset = facts.words, facts.definition.asset
    value = tongue.reply("alarm_value", value=words["value"])
    announcement = {"lead": words["lead"], "text": joined(facts.remark, value)}
    if words["lead"] != literal(lead_of(facts.definition, tongue)):
        announcement = {"text": joined(words["lead"], facts.remark)}
    order = {"asset": asset, "title": tongue.reply("work_order_title", asset=words["asset"]), "detail": words["lead"]}
    question = tongue.reply("ask_work_order_for", asset=words["asset"])
    return (
        Step("announce", "say", announcement),
        _remember(facts, words["lead"]),
        Step("confirm", "ask", {"question": question, "requires_keyword": False, "approves": "order"}),
        Step("order", "create_work_order", order, "confirm", expects=order["title"]),
        say(tongue.reply("work_order_made"), id="done", when="confirm"),
        say(tongue.reply("no_work_order"), id="closed", when="not confirm"),
    )


def _remember(facts: _Facts, text: str) -> Step:
    arguments = {
        "text": text,
        "confidence": _CONFIDENCE,
        "asset": facts.definition.asset,
        "fault": facts.definition.fault,
        "scope": facts.scope,
        "facts": dict(facts.record),
    }
    return Step("remember", "record_episode", arguments, optional=True)
