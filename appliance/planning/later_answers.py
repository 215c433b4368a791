"""The plans for what people want done later or elsewhere: checks that are due later, words for a work order that there is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from appliance.contracts.plan import Intent, Step
from appliance.contracts.tag import DataType, Tag
from appliance.planning.tongue import Tongue

Steps = tuple[Step, ...]


def schedule_check(intent: Intent, tag: Tag, tongue: Tongue) -> Steps:
    """Store the sentence that asks for the value now: when it is due it is understood as if somebody said it then."""
    name = "check_sentence_state" if tag.type is DataType.BOOL else "check_sentence"
    sentence = tongue.reply(name, asset=tongue.asset(tag.asset), quantity=tongue.tag(tag.key))
    check = {"minutes": intent.slots["minutes"], "sentence": sentence}
    return Step("check", "schedule_check", check), _say("{steps.check.sentence}")


def list_checks(intent: Intent, tongue: Tongue, context: Mapping[str, Any]) -> Steps:
    """Say what waits."""
    return Step("checks", "list_checks", {}), _say("{steps.checks.sentence}")


def cancel_checks(intent: Intent, tongue: Tongue, context: Mapping[str, Any]) -> Steps:
    """Cancel all that wait: they only read, and asking again is one sentence."""
    return Step("cancel", "cancel_checks", {}), _say("{steps.cancel.sentence}")


def work_order_done(intent: Intent, tongue: Tongue, context: Mapping[str, Any]) -> Steps:
    """Pass on that the newest work order of an asset is done."""
    asset = str(intent.slots["asset"])
    return _update(tongue, asset, "ask_work_order_done_for", "work_order_done", {"done": True})


def work_order_note(intent: Intent, tongue: Tongue, context: Mapping[str, Any]) -> Steps:
    """Note one of the reasons that can be said in the newest work order of an asset."""
    asset, note = str(intent.slots["asset"]), str(intent.slots["reason"])
    return _update(tongue, asset, "ask_work_order_note_for", "work_order_noted", {"note": note}, note=note)


def vitals(intent: Intent, tongue: Tongue, context: Mapping[str, Any]) -> Steps:
    """Say how the machine is that the appliance runs on."""
    return Step("vitals", "read_vitals", {}), _say("{steps.vitals.sentence}")


def _update(tongue: Tongue, asset: str, question: str, done: str, change: Mapping[str, Any], **words: str) -> Steps:
    name = tongue.asset(asset)
    asking = {"question": tongue.reply(question, asset=name, **words), "requires_keyword": False, "approves": "update"}
    return (
        Step("confirm", "ask", asking),
        Step("update", "update_work_order", {"asset": asset, **change}, "confirm"),
        _say(tongue.reply(done, asset=name), id="done", when="confirm"),
        _say(tongue.reply("cancelled"), id="cancelled", when="not confirm"),
    )


def _say(text: str, *, id: str = "answer", when: str = "") -> Step:
    return Step(id, "say", {"text": text}, when)
