"""Every reply the product says, by name, with the placeholders its sentence may use.

A language's phrase file must have each of them, so a missing sentence is found when the file is read and not when it
should be heard.
"""

from __future__ import annotations

import string
from collections.abc import Mapping

from appliance.planning.yaml_file import Fault, nearest

REPLIES: Mapping[str, frozenset[str]] = {
    name: frozenset(fields.split())
    for name, fields in {
        # understanding and questions
        "not_understood": "",
        "nothing_pending": "",
        "asked_somebody_else": "who question",
        "who_is_at_the_machine": "",
        "which_one": "",
        "asked_too_long_ago": "",
        "needs_keyword": "",
        "cancelled": "",
        "unanswered": "",
        "put_aside": "work",
        "pending_questions": "questions",
        "nothing_said": "",
        "no_such_tag": "asset quantity",
        "not_settable": "asset quantity",
        "out_of_limits": "asset quantity low high",
        "wrong_unit": "asset quantity unit",
        "too_fine": "asset quantity step",
        "refused": "why",
        "tool_failed": "why",
        "hold": "",
        "repeat": "",
        "not_taken": "",
        "not_taken_storage": "",
        "too_much_waits": "",
        # answers
        "tag_value": "asset quantity value",
        "state_value": "asset quantity value",
        "confirm_set": "asset quantity value",
        "set_done": "asset quantity value",
        "setting": "asset quantity value",
        "status_online": "sentence",
        "status_offline": "sentence",
        "stop": "",
        "hushed": "",
        "help": "",
        # the work itself
        "stop_none": "",
        "stop_none_of_yours": "works",
        "stop_none_there": "works",
        "stopping_one": "work",
        "stopping_many": "count",
        "stopped_by_system": "",
        "which_work": "works",
        "work_none": "",
        "work_planning": "work",
        "work_at_step": "work number count what",
        "work_waiting": "question",
        "work_and_more": "count",
        "work_alarm": "alarm",
        "work_flood": "",
        "step_cancelled": "number what",
        "step_cancelling": "number what",
        "step_missing": "number count",
        "step_done": "number what",
        "step_skipped": "number what",
        "step_failed": "number what",
        "step_unknown": "number what",
        "step_asks": "number question",
        # work orders
        "ask_work_order_for": "asset",
        "work_order_title": "asset",
        "work_order_detail": "asset",
        "work_order_made": "",
        "work_order_queued": "",
        "no_work_order": "",
        # alarms
        "alarm_value": "value",
        "value_unknown": "",
        "alarm_cleared": "text",
        "alarm_came_and_went": "text",
        "still_active": "",
        "still_active_for": "age",
        "alarm_missed": "",
        "alarm_chatter": "text count",
        # floods
        "flood_opened": "count first priorities areas",
        "flood_found": "count priorities areas",
        "flood_grown": "count priorities",
        "flood_over": "count active priorities areas",
        "flood_over_calm": "count",
        "flood_calm": "count",
        "flood_again": "count unacknowledged first priorities",
        "flood_critical": "count",
        "flood_high": "count",
        "flood_medium": "count",
        "flood_low": "count",
        "flood_lower": "count",
        "flood_areas": "areas",
        "flood_more_areas": "areas count",
        # the controller's log, past cases
        "plc_log_events": "count events",
        "plc_log_empty": "",
        "cases_none": "",
        "cases_one": "count best",
        "cases_many": "count best",
        "alarms_none": "",
        "alarms_one": "count alarms",
        "alarms_many": "count alarms",
        "alarm_unacknowledged": "alarm",
        "alarm_acknowledged": "alarm",
        "alarm_returned_unacknowledged": "alarm",
        "alarm_latched": "alarm",
        "alarm_shelved": "alarm",
        "reset_none": "",
        "reset_one": "alarm",
        "reset_many": "count",
        "confirm_shelve": "alarm minutes reason",
        "shelve_why": "",
        "shelved": "alarm minutes",
        "unshelved": "alarm",
        "acknowledged_none": "",
        "acknowledged_one": "alarm",
        "acknowledged_many": "count",
        # the appliance about itself
        "still_offline": "",
        "back_online": "",
        "restarted": "",
        "from_earlier": "",
        "answer_unsaid": "",
        "answers_unsaid": "count",
        "effect_unknown": "what",
        "effect_applied": "what",
        "effect_not_applied": "what",
        "effect_still_unknown": "what",
        "effect_stopped": "what",
        "effect_done": "what",
        **dict.fromkeys(
            (
                *("what_write_tag", "what_read_tags", "what_read_plc_log", "what_search_memory", "what_record_episode"),
                *("what_create_work_order", "what_say", "what_ask", "what_list_alarms", "what_acknowledge_alarm"),
                *("what_reset_alarm", "what_shelve_alarm", "what_unshelve_alarm"),
            ),
            "",
        ),
        "what_write_report": "",
        "failed_refused": "why",
        "failed_held": "who",
        "failed_held_why": "who why",
        "the_key_switch": "",
        "failed_unavailable": "why",
        "failed_timeout": "why",
        "failed_malformed": "why",
        "failed_corrupt": "why",
        "failed_uncertain": "why",
        "plc_unreachable": "",
        "plc_back": "",
        "broker_lost": "",
        "broker_back": "",
        "coordinator_lost": "",
        "coordinator_back": "",
        "sync_stopped": "",
        "sync_goes_on": "",
        # its storage
        "storage_full": "",
        "storage_used_up": "",
        "storage_held": "",
        "storage_unwritable": "",
        "storage_back": "",
        "ledger_damaged": "",
        "ledger_lost": "",
        "ledger_salvaged": "",
        "machine_changed": "",
        "hold_ended": "",
        "audit_broken": "",
        "audit_whole": "",
        "clock_behind": "",
        "clock_right": "",
        "part_degraded": "",
        "needs_attention": "what",
    }.items()
}
"""Reply name -> placeholders it may use."""


def placeholders(template: str) -> set[str]:
    """Return the names in braces.

    Raises:
        ValueError: the braces do not pair.
    """
    return {field for _, field, _, _ in string.Formatter().parse(template) if field is not None}


def faults_of(replies: Mapping[str, str]) -> list[Fault]:
    """Return what is wrong with a language's ``replies:``: unknown, missing and misfilled sentences."""
    faults: list[Fault] = []
    for name, template in replies.items():
        key = f"replies.{name}"
        if name not in REPLIES:
            faults.append((key, "is not a known reply", nearest(name, REPLIES)))
            continue
        try:
            strange = placeholders(template) - REPLIES[name]
        except ValueError as error:
            faults.append((key, str(error), "Pair the braces."))
            continue
        faults += [(key, f"unknown placeholder {{{field}}}", nearest(field, REPLIES[name])) for field in sorted(strange)]
    faults += [(f"replies.{name}", "is missing", "Write that sentence.") for name in REPLIES if name not in replies]
    return faults
