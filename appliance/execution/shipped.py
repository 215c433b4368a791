"""The tools the product ships, each with the ports it needs: one line a tool."""

from __future__ import annotations

from collections.abc import Callable

from appliance.contracts.clock import Clock, IdSource
from appliance.contracts.history import TagHistory
from appliance.contracts.plant import Plant
from appliance.contracts.ports import AlarmHands, AlarmShelf, FieldBus, MemoryWriter, ProcedureStore, Recaller, Wording
from appliance.contracts.principal import AccessLevel
from appliance.contracts.procedures import Procedures
from appliance.execution.spill import Spill
from appliance.execution.toolbox.toolbox import AnyTool
from appliance.execution.tools.acknowledge_alarm import AcknowledgeAlarm
from appliance.execution.tools.ask import Ask
from appliance.execution.tools.cancel_checks import CancelChecks
from appliance.execution.tools.cancel_step import CancelStep
from appliance.execution.tools.create_work_order import CreateWorkOrder
from appliance.execution.tools.list_alarms import ListAlarms
from appliance.execution.tools.list_checks import ListChecks
from appliance.execution.tools.notify import Notify, Receivers
from appliance.execution.tools.read_playbook import ReadPlaybook
from appliance.execution.tools.read_plc_log import ReadPlcLog
from appliance.execution.tools.read_result import ReadResult
from appliance.execution.tools.read_tags import ReadTags
from appliance.execution.tools.read_vitals import ReadNow, ReadVitals
from appliance.execution.tools.record_episode import RecordEpisode
from appliance.execution.tools.report_work import ReportWork
from appliance.execution.tools.reset_alarm import ResetAlarm
from appliance.execution.tools.run_playbook import RunPlaybook, WithQuestions
from appliance.execution.tools.say import Say
from appliance.execution.tools.schedule_check import ScheduleCheck, Understand
from appliance.execution.tools.search_memory import SearchMemory
from appliance.execution.tools.shelve_alarm import ShelveAlarm
from appliance.execution.tools.stop_work import StopWork
from appliance.execution.tools.trend_of_tag import TrendOfTag
from appliance.execution.tools.unshelve_alarm import UnshelveAlarm
from appliance.execution.tools.update_work_order import UpdateWorkOrder
from appliance.execution.tools.write_report import WriteReport
from appliance.execution.tools.write_tag import WriteTag


def shipped_tools(
    *,
    plant: Plant,
    bus: FieldBus,
    recaller: Recaller,
    writer: MemoryWriter,
    procedures: ProcedureStore,
    wording: Wording,
    clock: Clock,
    ids: IdSource,
    alarm_hands: AlarmHands,
    alarm_shelf: AlarmShelf,
    receivers: Receivers,
    understand: Understand,
    read_vitals: ReadNow,
    history: TagHistory,
    spill: Spill,
    playbooks: Procedures,
    with_questions: WithQuestions = lambda tx, plan, asked: plan,
    write_level: Callable[[str], AccessLevel] = lambda key: AccessLevel.OPERATOR,
) -> list[AnyTool]:
    """Return every shipped tool, built; the toolbox checks their contracts when it loads them. ``write_level``: the level that
    writing a tag needs, by its key."""
    return [
        ReadTags(bus, plant, clock),
        ReadPlcLog(bus, wording, "" if plant.event_log is None else plant.event_log.link),
        WriteTag(bus, plant, clock, write_level),
        SearchMemory(recaller, wording, clock),
        RecordEpisode(writer),
        CreateWorkOrder(clock),
        UpdateWorkOrder(clock, plant),
        Notify(clock, ids, receivers),
        ScheduleCheck(clock, ids, wording, understand),
        ListChecks(clock, wording),
        CancelChecks(clock, wording),
        ReadVitals(read_vitals, wording),
        WriteReport(procedures),
        Say(clock, ids),
        Ask(clock, ids, wording),
        ListAlarms(plant, wording, clock),
        AcknowledgeAlarm(alarm_hands, plant, wording),
        ResetAlarm(alarm_hands, plant, wording),
        ShelveAlarm(alarm_shelf),
        UnshelveAlarm(alarm_shelf),
        StopWork(plant, wording, clock, ids),
        CancelStep(plant, wording, clock, ids),
        ReportWork(plant, wording),
        TrendOfTag(history, plant, wording),
        ReadResult(spill),
        ReadPlaybook(playbooks, wording),
        RunPlaybook(playbooks, wording, ids, with_questions),
    ]
