"""One call of every tool that goes well, and those that do not, with what must be said about them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Case:
    """``given`` are names of ``World``'s methods; with one the world is a new one. ``arguments`` may name what they found:
    ``{activation}``. ``code`` is empty for a call that goes well; ``disposition`` is that of T7; ``why`` is in what is said in
    English. ``needs_plc``: the table that stands for the field does not look so closely. ``ends``: how its turn does."""

    tool: str
    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    given: tuple[str, ...] = ()
    code: str = ""
    disposition: str = "none"
    why: str = ""
    needs_plc: bool = False
    ends: str = "finished"

    @property
    def id(self) -> str:
        """What the test is called."""
        return f"{self.tool}: {self.name}"


_SET = {"key": "motor_3.fan_speed", "value": 60, "what": "setting the fan speed of motor 3 to 60 percent"}
_ORDER = {"asset": "motor_3", "title": "Check the fan"}
_REPORT = {"title": "Over-temperature", "asset": "motor_3", "lines": ["The filter was cleaned."]}
_EPISODE = {"text": "The fan filter was blocked.", "scope": "line_3", "asset": "motor_3", "fault": "over_temperature"}
_SHELVE = {"alarm": "motor_3_over_temperature", "minutes": 30, "reason": "maintenance"}
_NO_ALARM = {"alarm": "motor_9_hot"}

WELL = [
    Case("read_tags", "one", {"keys": ["motor_3.temperature"]}),
    Case("read_tags", "a silent machine is an answer", {"keys": ["motor_3.temperature", "motor_3.fan_speed"]}, ("away",)),
    Case("read_plc_log", "newest", {"newest": 4}),
    Case("write_tag", "within its limits", _SET, disposition="applied"),
    Case("trend_of_tag", "rising", {"key": "motor_3.temperature", "minutes": 20}, ("past",)),
    Case("trend_of_tag", "nothing is known", {"key": "pump_3.pressure"}, ("nothing",)),
    Case("search_memory", "found", {"question": "fan filter", "scope": "line_3"}, ("memory",)),
    Case("search_memory", "nothing found", {"question": "fan filter", "scope": "line_4"}),
    Case("record_episode", "new", _EPISODE),
    Case("write_report", "new", _REPORT, disposition="applied"),
    Case("create_work_order", "new", _ORDER),
    Case("update_work_order", "done", {"asset": "motor_3", "note": "filter cleaned", "done": True}, ("work_order",)),
    Case("notify", "a webhook", {"text": "Motor 3 was repaired.", "webhook": "maintenance"}),
    Case("notify", "a topic", {"text": "Motor 3 was repaired.", "topic": "shift"}),
    Case("schedule_check", "later", {"minutes": 10, "sentence": "{reading}"}),
    Case("list_checks", "one", {}, ("check",)),
    Case("cancel_checks", "all", {}, ("check",)),
    Case("read_vitals", "well"),
    Case("say", "plain", {"text": "Hello."}),
    Case("list_alarms", "one", {}, ("alarm",)),
    Case("list_alarms", "none", {}, ("nothing",)),
    Case("acknowledge_alarm", "named", {"activation": "{activation}"}, ("alarm",)),
    Case("reset_alarm", "nothing to reset", {}, ("nothing",)),
    Case("shelve_alarm", "named", _SHELVE),
    Case("unshelve_alarm", "shelved", {"alarm": "motor_3_over_temperature"}, ("shelved",)),
    Case("stop_work", "nothing runs"),
    Case("cancel_step", "nothing runs", {"number": 2}),
    Case("report_work", "nothing runs"),
    Case("read_playbook", "all"),
    Case("read_playbook", "one", {"name": "over-temperature"}),
    Case("run_playbook", "its steps are done", {"playbook": "check-motor", "parameters": {"asset": "motor_3"}}, ("cool",)),
    Case("read_result", "the first page", {"result": "{result}", "length": 100}, ("long_result",)),
    Case("ask", "a question", {"question": "{question}"}, ends="waiting"),
]

REFUSED = [
    Case("read_tags", "not declared", {"keys": ["motor_3.mood"]}, code="refused", why="no such value"),
    Case("read_plc_log", "the PLC is away", {}, ("away",), "unavailable", why="cannot reach the controller on line 3"),
    Case("write_tag", "not declared", {**_SET, "key": "motor_3.mood"}, code="refused", why="no such value"),
    Case("write_tag", "not writable", {**_SET, "key": "motor_3.temperature"}, code="refused", needs_plc=True),
    Case("write_tag", "above its limits", {**_SET, "value": 101}, code="refused", needs_plc=True),
    Case("write_tag", "no number", {**_SET, "value": "fast"}, code="refused", needs_plc=True),
    Case("write_tag", "the PLC is away", _SET, ("away",), "unavailable", why="cannot reach the controller of motor 3"),
    Case("write_tag", "on hold", _SET, ("hold",), "on_hold", why="on hold by anna"),
    Case("trend_of_tag", "not declared", {"key": "motor_3.mood"}, code="refused", why="no such value"),
    Case("search_memory", "an empty question", {"question": "", "scope": "line_3"}, code="tool_validation"),
    Case("record_episode", "no words", {**_EPISODE, "text": ""}, code="tool_validation"),
    Case("write_report", "on hold", _REPORT, ("hold",), "on_hold", why="on hold by anna"),
    Case("create_work_order", "on hold", _ORDER, ("hold",), "on_hold", why="on hold by anna"),
    Case("create_work_order", "no asset", {"asset": "", "title": "x"}, code="tool_validation"),
    Case("update_work_order", "there is none", {"asset": "pump_3", "done": True}, code="refused", why="no work order"),
    Case("update_work_order", "no id", {"id": "wo_9", "done": True}, code="refused", why="no such work order"),
    Case("notify", "no such webhook", {"text": "x", "webhook": "boss"}, code="refused", why="cannot send messages there"),
    Case("notify", "no visible words", {"text": "\u200b", "topic": "shift"}, code="malformed"),
    Case("schedule_check", "not understood", {"minutes": 5, "sentence": "{unclear}"}, code="refused"),
    Case("schedule_check", "it acts", {"minutes": 5, "sentence": "{acting}"}, code="refused"),
    Case("cancel_checks", "no such check", {"id": "ck_9"}, code="refused", why="no such check"),
    Case("say", "no words", {"text": ""}, code="tool_validation"),
    Case("acknowledge_alarm", "no such alarm", {"activation": "plc:9"}, code="refused"),
    Case("reset_alarm", "no such alarm", {"activation": "plc:9"}, code="refused"),
    Case("shelve_alarm", "no such alarm", {**_SHELVE, **_NO_ALARM}, code="refused", why="no such alarm"),
    Case("shelve_alarm", "too long", {**_SHELVE, "minutes": 100_000}, code="refused"),
    Case("unshelve_alarm", "no such alarm", _NO_ALARM, code="refused"),
    Case("unshelve_alarm", "not shelved", {"alarm": "motor_3_over_temperature"}, ("nothing",), "refused"),
    Case("read_result", "no such result", {"result": "r_9"}, code="refused"),
    Case("read_result", "another session's", {"result": "{result}"}, ("result_of_another",), "refused"),
    Case("ask", "no words", {"question": ""}, code="tool_validation"),
    Case("cancel_step", "there is no step nought", {"number": 0}, code="tool_validation"),
    Case("read_playbook", "no such playbook", {"name": "dancing"}, code="refused"),
    Case("run_playbook", "no such playbook", {"playbook": "dancing"}, code="refused"),
]

TIMED_OUT = [
    Case("read_tags", "it hangs", {"keys": ["motor_3.temperature"]}, ("hurry",), "timeout"),
    Case("read_plc_log", "it hangs", {}, ("hurry",), "timeout", needs_plc=True),
    Case("trend_of_tag", "it hangs", {"key": "motor_3.temperature"}, ("hurry",), "timeout"),
    Case("record_episode", "it hangs", _EPISODE, ("hurry",), "timeout"),
]

UNSURE = [
    Case("write_tag", "its answer is lost", _SET, ("lost_answer",), "", "applied", "It was done: setting the fan speed"),
]
