"""The tools the product ships, each with the ports it needs: one line a tool."""

from __future__ import annotations

from appliance.contracts.clock import Clock, IdSource
from appliance.contracts.plant import Plant
from appliance.contracts.ports import AlarmHands, AlarmShelf, FieldBus, MemoryWriter, ProcedureStore, Recaller, Wording
from appliance.execution.toolbox import AnyTool
from appliance.execution.tools.acknowledge_alarm import AcknowledgeAlarm
from appliance.execution.tools.ask import Ask
from appliance.execution.tools.cancel_step import CancelStep
from appliance.execution.tools.create_work_order import CreateWorkOrder
from appliance.execution.tools.list_alarms import ListAlarms
from appliance.execution.tools.read_plc_log import ReadPlcLog
from appliance.execution.tools.read_tags import ReadTags
from appliance.execution.tools.record_episode import RecordEpisode
from appliance.execution.tools.report_work import ReportWork
from appliance.execution.tools.reset_alarm import ResetAlarm
from appliance.execution.tools.say import Say
from appliance.execution.tools.search_memory import SearchMemory
from appliance.execution.tools.shelve_alarm import ShelveAlarm
from appliance.execution.tools.stop_work import StopWork
from appliance.execution.tools.unshelve_alarm import UnshelveAlarm
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
) -> list[AnyTool]:
    """Return every shipped tool, built; the toolbox checks their contracts when it loads them."""
    return [
        ReadTags(bus, plant, clock),
        ReadPlcLog(bus, wording),
        WriteTag(bus, plant, clock),
        SearchMemory(recaller, wording, clock),
        RecordEpisode(writer),
        CreateWorkOrder(clock),
        WriteReport(procedures),
        Say(clock, ids),
        Ask(clock, ids),
        ListAlarms(plant, wording, clock),
        AcknowledgeAlarm(alarm_hands, plant, wording),
        ResetAlarm(alarm_hands, plant, wording),
        ShelveAlarm(alarm_shelf),
        UnshelveAlarm(alarm_shelf),
        StopWork(plant, wording, clock, ids),
        CancelStep(plant, wording, clock, ids),
        ReportWork(plant, wording),
    ]
