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
        "model_says": "",
        "model_no_answer": "",
        "nothing_pending": "",
        "asked_somebody_else": "who question",
        "who_is_at_the_machine": "",
        "which_one": "",
        "asked_too_long_ago": "",
        "needs_keyword": "",
        "needs_code": "code",
        "wrong_code": "code",
        "wrong_codes": "",
        "code_of_none": "",
        "may_not_confirm": "",
        # what may be done, and how it is asked for
        "approve": "what",
        "say_code": "code",
        "to_set": "asset quantity value",
        "to_call": "what",
        "not_stated": "",
        "no_tag": "key",
        "not_a_value": "asset quantity known",
        "needs_level": "",
        "not_permitted": "",
        "breaker_open": "",
        "too_often": "asset quantity count within",
        "nobody_there": "",
        "needs_yes": "",
        "code_missing": "",
        "interlock_unreadable": "asset quantity",
        "interlock_stale": "asset quantity age",
        "interlock_not_met": "state",
        "interlock_unjudged": "why",
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
        **{
            f"trend_{course}": "quantity asset first last lowest highest window lately"
            for course in ("rose", "rose_lately", "fell", "fell_lately", "moved", "steady")
        },
        "trend_short": "window",
        "trend_gap": "gap",
        "trend_gap_now": "gap",
        "trend_none": "quantity asset window",
        "trend_not_kept": "quantity asset",
        "trend_no_number": "quantity asset",
        "confirm_set": "asset quantity value",
        "set_done": "asset quantity value",
        "setting": "asset quantity value",
        "status_online": "sentence",
        "status_offline": "sentence",
        "stop": "",
        "hushed": "",
        "help": "",
        # procedures
        "playbooks_none": "",
        "playbooks_one": "titles",
        "playbooks_many": "count titles",
        "playbook_read": "title text",
        "playbook_steps": "steps",
        "playbook_unknown": "title",
        "playbook_for_alarms": "title",
        "playbook_not_for": "asset title",
        "playbook_needs": "title example",
        "playbook_bounds": "low high",
        "playbook_circle": "title path",
        "playbook_too_long": "title",
        # examples
        "understood_as": "sentence",
        "did_you_mean": "sentence",
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
        "ask_work_order_done_for": "asset",
        "ask_work_order_note_for": "asset note",
        "work_order_done": "asset",
        "work_order_noted": "asset",
        # checks that are due later
        "check_sentence": "asset quantity",
        "check_sentence_state": "asset quantity",
        "check_scheduled": "what after",
        "check_due": "what",
        "check_due_late": "what late",
        "check_missed": "what why",
        "check_missed_down": "",
        "check_missed_full": "",
        "check_missed_clock": "",
        "check_in": "what after",
        "check_when_clock_is_set": "what",
        "checks_none": "",
        "checks_one": "checks",
        "checks_many": "count checks",
        "checks_cancelled_none": "",
        "checks_cancelled_one": "what",
        "checks_cancelled_many": "count",
        # what is handed to people
        "ticket_handed": "who",
        "ticket_opened": "",
        "ticket_title_opened": "ticket",
        "ticket_title_resolved": "ticket",
        "ticket_title_auto_resolved": "ticket",
        "ticket_title_expired": "ticket",
        "ticket_text": "tool why command",
        "ticket_text_closed": "tool why",
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
        "vitals": "parts",
        "vitals_unknown": "",
        "vitals_temperature": "value",
        "vitals_disk": "value",
        "vitals_memory": "value",
        "vitals_power_low": "",
        "vitals_power_was_low": "",
        "vitals_slowed": "",
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
        "what_trend_of_tag": "",
        "what_notify": "",
        "what_update_work_order": "",
        "what_schedule_check": "",
        "what_list_checks": "",
        "what_cancel_checks": "",
        "what_read_vitals": "",
        "what_read_playbook": "",
        "what_run_playbook": "",
        "failed_refused": "why",
        "failed_held": "who",
        "failed_held_why": "who why",
        "the_key_switch": "",
        "failed_unavailable": "why",
        "failed_timeout": "why",
        "failed_malformed": "why",
        "failed_corrupt": "why",
        "failed_uncertain": "why",
        "failed_broken": "why",
        "failed_blocked": "why",
        "failed_halted": "why",
        "failed_needs_yes": "why",
        "plc_unreachable": "",
        "plc_back": "",
        "broker_lost": "",
        "broker_back": "",
        "models_away": "",
        "models_back": "",
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
