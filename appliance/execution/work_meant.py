"""Which of the appliance's work a person means who wants it stopped or told of, and how it is called. Nothing is guessed.

In: the call of an interjection's tool. Out: turns, newest first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from appliance.contracts import lane as lanes
from appliance.contracts.errors import Malformed
from appliance.contracts.plan import Action
from appliance.contracts.plant import Plant
from appliance.contracts.ports import Wording
from appliance.contracts.principal import AccessLevel, Identification, principal_of
from appliance.contracts.store import Transaction
from appliance.contracts.tool import ToolCall
from appliance.contracts.turn import Turn, TurnState
from appliance.store import turns

_FLOOR = "voice"  # who speaks at the machine, and may mean what everybody hears
_LONGEST_NAME = 120  # characters of what was said, as the name of the work


def own_lane(call: ToolCall) -> str:
    """Return the lane in which the speaker's other talk is led."""
    return lanes.own(call.lane)


def all_work(tx: Transaction) -> list[Turn]:
    """Return everything that is under way or waits for an answer, without interjections."""
    return [turn for turn in turns.under_way(tx) if not lanes.is_beside(turn.lane)]


def about(work: Sequence[Turn], asset: str) -> list[Turn]:
    """Return the work that is about an asset."""
    return [turn for turn in work if turn.lane == lanes.of_asset(asset) or asset in _assets(turn.context.get("slots", {}))]


def meant(tx: Transaction, call: ToolCall) -> list[Turn]:
    """Return what a speaker means by "that": the running turn of the own lane, else the newest of it that waits for an answer,
    else, at the machine, whatever runs. More than one means that nobody can tell which."""
    work = all_work(tx)
    own = [turn for turn in work if turn.lane == own_lane(call)]
    running = [turn for turn in own if turn.state in turns.ACTIVE]
    waiting = [turn for turn in own if turn.state is TurnState.CONFIRMING]
    if running or waiting:
        return (running or waiting)[:1]
    if call.context.get("by") != _FLOOR:
        return []
    return [turn for turn in work if turn.state in turns.ACTIVE]


def may_stop(call: ToolCall, turn: Turn) -> bool:
    """Whether a speaker may stop a turn's work: whoever stands at the machine may stop all of it, as they see what happens there;
    others what somebody of their level asked for (of alarms: an operator), and a visitor nobody's but their own."""
    who = call.principal
    if who.identified is Identification.VOICE:
        return True
    needed = principal_of(turn.context).level
    return who.level >= (needed if turn.lane == own_lane(call) else max(needed, AccessLevel.INTERNAL))


def name_of(turn: Turn, plant: Plant, wording: Wording, language: str) -> str:
    """Return how a turn's work is called in a sentence: what was said, or the alarm it is about."""
    alarm = turn.context.get("alarm")
    if alarm is not None:
        definition = plant.alarm_by_id.get(str(alarm.get("alarm_id")))
        text = str(alarm.get("alarm_id")).replace("_", " ") if definition is None else _text_of(definition.text, language)
        return wording.reply("work_alarm", language, alarm=text.replace("{value}", "").strip(" .。,，"))
    if "flood" in turn.context:
        return wording.reply("work_flood", language)
    return str(turn.context.get("said", ""))[:_LONGEST_NAME].strip().rstrip(".。!！?？")


def step_name(step: Action, wording: Wording, language: str) -> str:
    """Return how a step is called in a sentence: by its ``what``, or by what its tool does."""
    what = str(step.arguments.get("what") or "")
    if what and "{" not in what:
        return what
    try:
        return wording.reply(f"what_{step.tool}", language)
    except Malformed:  # a tool that brings no words of its own
        return step.tool.replace("_", " ")


def _text_of(texts: Any, language: str) -> str:
    return str(texts.get(language) or next(iter(texts.values()), ""))


def _assets(slots: Any) -> set[str]:
    named = {str(slots.get("asset", "")), str(slots.get("tag", "")).partition(".")[0]}
    return named - {""}
