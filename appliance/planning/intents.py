"""The intents the planner has a plan for, and what a sentence of each must name for that plan to be possible."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

INTENTS: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        "read_tag": frozenset({"asset", "tag"}),
        "trend_of_tag": frozenset({"asset", "tag"}),
        "list_alarms": frozenset(),
        "acknowledge_alarm": frozenset(),
        "reset_alarm": frozenset(),
        "shelve_alarm": frozenset({"alarm", "minutes"}),
        "unshelve_alarm": frozenset({"alarm"}),
        "set_tag": frozenset({"asset", "tag", "amount"}),
        "set_tag_to_limit": frozenset({"asset", "tag", "limit"}),
        "create_work_order": frozenset({"asset"}),
        "work_order_done": frozenset({"asset"}),
        "work_order_note": frozenset({"asset", "reason"}),
        "schedule_check": frozenset({"asset", "tag", "minutes"}),
        "list_checks": frozenset(),
        "cancel_checks": frozenset(),
        "vitals": frozenset(),
        "confirm": frozenset(),
        "deny": frozenset(),
        "repeat": frozenset(),
        "stop": frozenset(),
        "stop_work": frozenset(),
        "cancel_step": frozenset({"step"}),
        "report_work": frozenset(),
        "status": frozenset(),
        "what_pending": frozenset(),
        "list_playbooks": frozenset(),
        "read_playbook": frozenset({"playbook"}),
        "run_playbook": frozenset({"playbook"}),
        "help": frozenset(),
    }
)
"""Intent -> the slots it needs: an asset, a tag, an alarm, minutes, a reason, a step's number, an amount (a list filled by
``plant: amounts``), a limit, a playbook (by ``plant: playbooks``; the sentences of playbooks themselves name theirs)."""

INTERJECTIONS = frozenset({"stop", "stop_work", "cancel_step", "report_work"})
"""Intents about what is being done now, which cannot wait behind it. So is every sentence with the slot ``that``: a "cancel that"
may be meant for the work as well as for a question."""

REQUIRED = ("confirm", "deny")
"""Intents every language must have: without them no question could be answered."""

LIMITS = ("high", "low")
"""Values of the slot ``limit``."""
