"""The contracts of the tools that plans of phrases and playbooks name."""

from __future__ import annotations

from appliance.contracts.tool import ToolContract
from appliance.execution.tools.acknowledge_alarm import AcknowledgeAlarm
from appliance.execution.tools.ask import Ask
from appliance.execution.tools.create_work_order import CreateWorkOrder
from appliance.execution.tools.list_alarms import ListAlarms
from appliance.execution.tools.notify import Notify
from appliance.execution.tools.read_playbook import ReadPlaybook
from appliance.execution.tools.read_plc_log import ReadPlcLog
from appliance.execution.tools.read_tags import ReadTags
from appliance.execution.tools.record_episode import RecordEpisode
from appliance.execution.tools.reset_alarm import ResetAlarm
from appliance.execution.tools.run_playbook import RunPlaybook
from appliance.execution.tools.say import Say
from appliance.execution.tools.schedule_check import ScheduleCheck
from appliance.execution.tools.search_memory import SearchMemory
from appliance.execution.tools.trend_of_tag import TrendOfTag
from appliance.execution.tools.update_work_order import UpdateWorkOrder
from appliance.execution.tools.write_report import WriteReport
from appliance.execution.tools.write_tag import WriteTag

CONTRACTS: dict[str, ToolContract] = {
    tool.contract.name: tool.contract
    for tool in (
        *(AcknowledgeAlarm, Ask, CreateWorkOrder, ListAlarms, Notify, ReadPlaybook, ReadPlcLog, ReadTags, RecordEpisode),
        *(ResetAlarm, RunPlaybook, Say, ScheduleCheck, SearchMemory, TrendOfTag, UpdateWorkOrder, WriteReport, WriteTag),
    )
}
"""Tool -> its contract."""
