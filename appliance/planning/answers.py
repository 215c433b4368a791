"""The plans for what people say: one small function an intent.

A sentence that changes the machine is read back first, exactly, and asks for the keyword; nothing is written before a
person has confirmed it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from appliance.contracts.errors import Malformed, Refused
from appliance.contracts.plan import Intent, Step
from appliance.contracts.tag import DataType, Tag
from appliance.foundation.sentence import capital, literal
from appliance.planning import later_answers
from appliance.planning.tongue import Tongue
from appliance.planning.writing import guarded_write, names_of, refused, require_settable

Steps = tuple[Step, ...]
Answer = Callable[[Intent, Tongue, Mapping[str, Any]], Steps]

_TREND_MINUTES = 30  # of a question that does not say how far back


def steps_for(intent: Intent, tongue: Tongue, context: Mapping[str, Any]) -> Steps:
    """Return the steps that answer an intent.

    Raises:
        Refused: it will not be done; the message is the sentence to say.
        Malformed: no such intent.
    """
    answer = _ANSWERS.get(intent.name)
    if answer is None:
        raise Malformed(f"no plan for the intent {intent.name!r}", intent=intent.name)
    return answer(intent, tongue, context)


def needed_for(intent: str) -> tuple[str, ...]:
    """Return the tools without which an intent could not be carried out, besides those that everybody may call."""
    return (_NEEDED[intent],) if intent in _NEEDED else ()


def say(text: str, *, id: str = "answer", when: str = "") -> Step:
    """A step that says ``text``."""
    return Step(id, "say", {"text": text}, when)


# values ----------------------------------------------------------------------------------------------------------------
def _read_tag(intent: Intent, tongue: Tongue, context: Mapping[str, Any]) -> Steps:
    tag = _tag(intent, tongue)
    name = "state_value" if tag.type is DataType.BOOL else "tag_value"
    text = tongue.reply(name, asset=tongue.asset(tag.asset), quantity=tongue.tag(tag.key), value="{steps.read.value}")
    return Step("read", "read_tags", {"keys": [tag.key]}), say(capital(text))


def _trend_of_tag(intent: Intent, tongue: Tongue, context: Mapping[str, Any]) -> Steps:
    look = {"key": _tag(intent, tongue).key, "minutes": intent.slots.get("minutes", _TREND_MINUTES)}
    return Step("trend", "trend_of_tag", look), say("{steps.trend.sentence}")


def _set_tag(intent: Intent, tongue: Tongue, context: Mapping[str, Any]) -> Steps:
    tag = _settable(intent, tongue)
    unit = str(intent.slots.get("unit", tag.unit))
    if unit != tag.unit:
        raise refused(tongue, "wrong_unit", tag, unit=tongue.unit(tag.unit))
    return _write(tag, float(intent.slots["amount"]), tongue)


def _set_tag_to_limit(intent: Intent, tongue: Tongue, context: Mapping[str, Any]) -> Steps:
    tag = _settable(intent, tongue)
    low, high = require_settable(tag, tongue)
    return _write(tag, high if intent.slots["limit"] == "high" else low, tongue)


def _write(tag: Tag, value: float, tongue: Tongue) -> Steps:
    """Read back, wait for the keyword, write, say what the machine then shows."""
    return (
        *guarded_write(tag, value, tongue),
        say(capital(tongue.reply("set_done", **names_of(tag, tongue), value="{steps.write.shown}")), id="done", when="confirm"),
        say(tongue.reply("cancelled"), id="cancelled", when="not confirm"),
    )


def _tag(intent: Intent, tongue: Tongue) -> Tag:
    """The tag an intent is about.

    Raises:
        Refused: its asset has no such tag, or the sentence left something out.
    """
    slots = intent.slots
    if "refusal" in slots and "asset" in slots:
        names = {"asset": tongue.asset(str(slots["asset"])), "quantity": str(slots["quantity"])}
        raise Refused(capital(tongue.reply(str(slots["refusal"]), **names)))
    tag = tongue.plant.tag_by_key.get(str(slots.get("tag")))
    if tag is None:
        raise Refused(tongue.reply("not_understood"))
    return tag


def _settable(intent: Intent, tongue: Tongue) -> Tag:
    tag = _tag(intent, tongue)
    require_settable(tag, tongue)
    return tag


# alarms and work -------------------------------------------------------------------------------------------------------
def _list_alarms(intent: Intent, tongue: Tongue, context: Mapping[str, Any]) -> Steps:
    return Step("alarms", "list_alarms", {}), say("{steps.alarms.sentence}")


def _which(intent: Intent) -> dict[str, Any]:
    """Somebody who names one alarm means the one they were told of last, and no other."""
    return {} if intent.slots.get("every") else {"only_last": True}


def _acknowledge_alarm(intent: Intent, tongue: Tongue, context: Mapping[str, Any]) -> Steps:
    return Step("acknowledge", "acknowledge_alarm", _which(intent)), say("{steps.acknowledge.sentence}")


def _reset_alarm(intent: Intent, tongue: Tongue, context: Mapping[str, Any]) -> Steps:
    return Step("reset", "reset_alarm", _which(intent)), say("{steps.reset.sentence}")


def _shelve_alarm(intent: Intent, tongue: Tongue, context: Mapping[str, Any]) -> Steps:
    """Keeping an alarm quiet is read back like a write: whoever hears it knows what will not be said, and why."""
    alarm, minutes, reason = str(intent.slots["alarm"]), intent.slots["minutes"], str(intent.slots.get("reason", ""))
    if not reason:
        raise Refused(tongue.reply("shelve_why"))
    words = {"alarm": tongue.phrases.vocabulary.spoken_alarm(alarm), "minutes": f"{float(minutes):g}"}
    shelve, done = {"alarm": alarm, "minutes": minutes, "reason": reason}, capital(tongue.reply("shelved", **words))
    question = tongue.reply("confirm_shelve", **words, reason=reason)
    return (
        Step("confirm", "ask", {"question": question, "requires_keyword": True, "approves": "shelve"}),
        Step("shelve", "shelve_alarm", shelve, "confirm", expects=done),
        say(done, id="done", when="confirm"),
        say(tongue.reply("cancelled"), id="cancelled", when="not confirm"),
    )


def _unshelve_alarm(intent: Intent, tongue: Tongue, context: Mapping[str, Any]) -> Steps:
    alarm = str(intent.slots["alarm"])
    said = capital(tongue.reply("unshelved", alarm=tongue.phrases.vocabulary.spoken_alarm(alarm)))
    return Step("unshelve", "unshelve_alarm", {"alarm": alarm}, expects=said), say(said)


def _create_work_order(intent: Intent, tongue: Tongue, context: Mapping[str, Any]) -> Steps:
    asset = str(intent.slots["asset"])
    name = tongue.asset(asset)
    order = {
        "asset": asset,
        "title": tongue.reply("work_order_title", asset=name),
        "detail": tongue.reply("work_order_detail", asset=name),
    }
    made = "work_order_made" if context.get("online", True) else "work_order_queued"
    question = tongue.reply("ask_work_order_for", asset=name)
    return (
        Step("confirm", "ask", {"question": question, "requires_keyword": False, "approves": "order"}),
        Step("order", "create_work_order", order, "confirm", expects=order["title"]),
        say(tongue.reply(made), id="done", when="confirm"),
        say(tongue.reply("no_work_order"), id="cancelled", when="not confirm"),
    )


# procedures ------------------------------------------------------------------------------------------------------------
def _list_playbooks(intent: Intent, tongue: Tongue, context: Mapping[str, Any]) -> Steps:
    return Step("read", "read_playbook", {}), say("{steps.read.sentence}")


def _read_playbook(intent: Intent, tongue: Tongue, context: Mapping[str, Any]) -> Steps:
    return Step("read", "read_playbook", {"name": str(intent.slots["playbook"])}), say("{steps.read.sentence}")


# the conversation itself -----------------------------------------------------------------------------------------------
def _repeat(intent: Intent, tongue: Tongue, context: Mapping[str, Any]) -> Steps:
    last = str(context.get("last_said") or "")
    return (say(literal(last) if last else tongue.reply("nothing_said")),)


def _status(intent: Intent, tongue: Tongue, context: Mapping[str, Any]) -> Steps:
    name = "status_online" if context.get("online") else "status_offline"
    return Step("alarms", "list_alarms", {}), say(tongue.reply(name, sentence="{steps.alarms.sentence}"))


def _what_pending(intent: Intent, tongue: Tongue, context: Mapping[str, Any]) -> Steps:
    questions = [str(question) for question in context.get("pending", ())]
    if not questions:
        return (say(tongue.reply("nothing_pending")),)
    return (say(tongue.reply("pending_questions", questions=literal(" ".join(questions)))),)


def _asked_somebody_else(intent: Intent, tongue: Tongue, context: Mapping[str, Any]) -> Steps:
    who = str(intent.slots["who"]) or tongue.reply("who_is_at_the_machine")
    return (say(literal(tongue.reply("asked_somebody_else", who=who, question=str(intent.slots["question"])))),)


def _which_one(intent: Intent, tongue: Tongue, context: Mapping[str, Any]) -> Steps:
    """Name the questions that wait to who gave an answer that may be to none of them, and how to say which one is meant."""
    said, asset = tongue.reply("which_one", questions=str(intent.slots["questions"])), str(intent.slots["asset"])
    if asset:
        said = f"{said} {tongue.reply('which_asset', asset=tongue.asset(asset))}"
    return (say(literal(said)),)


# the work itself -------------------------------------------------------------------------------------------------------
def _stop(intent: Intent, tongue: Tongue, context: Mapping[str, Any]) -> Steps:
    """The word alone may be meant for a machine, which is said first; our own work and words end as well."""
    words_only = bool(intent.slots.get("words"))
    stop = {"words_only": words_only, "may_mean_machine": not words_only}
    return Step("stop", "stop_work", stop), say("{steps.stop.sentence}")


def _stop_work(intent: Intent, tongue: Tongue, context: Mapping[str, Any]) -> Steps:
    every, asset = bool(intent.slots.get("every")), str(intent.slots.get("asset", ""))
    stop = {"every": every, "asset": asset, "may_mean_machine": every or bool(asset)}
    return Step("stop", "stop_work", stop), say("{steps.stop.sentence}")


def _cancel_step(intent: Intent, tongue: Tongue, context: Mapping[str, Any]) -> Steps:
    return Step("cancel", "cancel_step", {"number": int(intent.slots["step"])}), say("{steps.cancel.sentence}")


def _report_work(intent: Intent, tongue: Tongue, context: Mapping[str, Any]) -> Steps:
    return Step("report", "report_work", {}), say("{steps.report.sentence}")


def _code_again(intent: Intent, tongue: Tongue, context: Mapping[str, Any]) -> Steps:
    """Say a question's code again, digit by digit, to who left it out or read another one back."""
    return (say(tongue.reply(intent.name, code=" ".join(str(intent.slots["code"])))),)


def _help(intent: Intent, tongue: Tongue, context: Mapping[str, Any]) -> Steps:
    """Offer what the asker may do: who may not change anything hears of nothing that does."""
    return (say(tongue.reply("help" if context.get("may_act") else "help_reading")),)


def _fixed(reply: str) -> Answer:
    """A plan that only says a reply without placeholders."""
    return lambda intent, tongue, context: (say(tongue.reply(reply)),)


_ANSWERS: Mapping[str, Answer] = {
    "read_tag": _read_tag,
    "trend_of_tag": _trend_of_tag,
    "set_tag": _set_tag,
    "set_tag_to_limit": _set_tag_to_limit,
    "list_alarms": _list_alarms,
    "acknowledge_alarm": _acknowledge_alarm,
    "reset_alarm": _reset_alarm,
    "shelve_alarm": _shelve_alarm,
    "unshelve_alarm": _unshelve_alarm,
    "create_work_order": _create_work_order,
    "work_order_done": later_answers.work_order_done,
    "work_order_note": later_answers.work_order_note,
    "schedule_check": lambda intent, tongue, context: later_answers.schedule_check(intent, _tag(intent, tongue), tongue),
    "list_checks": later_answers.list_checks,
    "cancel_checks": later_answers.cancel_checks,
    "vitals": later_answers.vitals,
    "list_playbooks": _list_playbooks,
    "read_playbook": _read_playbook,
    "repeat": _repeat,
    "status": _status,
    "what_pending": _what_pending,
    "stop": _stop,
    "stop_work": _stop_work,
    "cancel_step": _cancel_step,
    "report_work": _report_work,
    "help": _help,
    "confirm": _fixed("nothing_pending"),
    "deny": _fixed("nothing_pending"),
    "not_understood": _fixed("not_understood"),
    "nothing_pending": _fixed("nothing_pending"),
    "asked_somebody_else": _asked_somebody_else,
    "which_one": _which_one,
    "asked_too_long_ago": _fixed("asked_too_long_ago"),
    "needs_keyword": _fixed("needs_keyword"),
    "needs_code": _code_again,
    "wrong_code": _code_again,
    "wrong_codes": _fixed("wrong_codes"),
    "code_of_none": _fixed("code_of_none"),
    "may_not_confirm": _fixed("may_not_confirm"),
}
"""Intent -> its plan. Besides those of the phrases: what the conductor asks for when a sentence or an answer fits nothing."""

_NEEDED: Mapping[str, str] = {
    "set_tag": "write_tag",
    "set_tag_to_limit": "write_tag",
    "acknowledge_alarm": "acknowledge_alarm",
    "reset_alarm": "reset_alarm",
    "shelve_alarm": "shelve_alarm",
    "unshelve_alarm": "unshelve_alarm",
    "create_work_order": "create_work_order",
    "work_order_done": "update_work_order",
    "work_order_note": "update_work_order",
    "schedule_check": "schedule_check",
    "cancel_checks": "cancel_checks",
}
"""Intent -> the tool of its plan that not everybody may call."""
