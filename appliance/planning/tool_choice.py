"""Which tools a model is offered: those that read, always the same ones, and of those that act the few the words ask for.

Only tools the asker may see are ever considered. Some are offered to no model: a question of a model's own would look like one
of the appliance's, a record would make a guess a fact, and work is stopped by people.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from appliance.contracts.tool import ToolContract

NEVER_OFFERED = frozenset({"ask", "write_report", "stop_work", "cancel_step"})
"""Tools no model may plan with, whoever asks; nor with others that store something and for which nobody would be asked."""

_LEDGER_READERS = frozenset({"list_alarms", "list_checks", "read_result", "report_work", "read_vitals"})
"""Tools over the ledger that only read it. Any other there writes rows, which its contract does not tell."""

_NOT_THEIRS = frozenset({"scope", "budget_ms", "lead", "approves", "digest", "needs_code", "requires_keyword"})
"""Arguments the appliance gives: where a search may look, what is spoken first, and all that makes up a person's consent."""

SMALL_WINDOW_TOKENS = 6_000
"""Below it a model is offered only what the words ask for; it has room for no more, and the small ones are misled by it."""

_MOST_READING = 8
_MOST_ACTING_SMALL, _MOST_ACTING = 4, 16
_FIRST = ("say", "read_tags", "trend_of_tag", "list_alarms", "search_memory", "read_plc_log", "read_playbook", "read_result")
_FEWEST_LETTERS = 4  # shorter words of a description say nothing about what it is for

_WORDS: Mapping[str, str] = {
    "write_tag": "set change adjust turn switch put increase raise lower reduce decrease faster slower speed up down"
    " maximum minimum 设 调 改 提高 升 降 加快 减 打开 关闭 快 慢 最大 最小",
    "acknowledge_alarm": "acknowledge accept alarm alarms 确认 应答 报警 警报 告警",
    "reset_alarm": "reset clear 复位 重置 清除",
    "shelve_alarm": "shelve silence mute suppress quiet 搁置 静音 屏蔽 安静",
    "unshelve_alarm": "unshelve unmute 取消搁置 恢复报警",
    "create_work_order": "work order job ticket maintenance repair fix mechanic electrician 工单 维修 修 派工 保养",
    "update_work_order": "work order job update close note 工单 更新 备注",
    "notify": "notify tell inform message send 通知 告诉 消息 发送",
    "run_playbook": "playbook procedure run steps 流程 步骤 手册 执行",
}
"""Tool -> words of both languages that ask for it; those of other tools are the words of their names and descriptions."""


@dataclass(frozen=True, slots=True)
class Offer:
    """``reading`` are the same for every sentence of an asker, ``acting`` depend on the words."""

    reading: tuple[ToolContract, ...]
    acting: tuple[ToolContract, ...]

    @property
    def contracts(self) -> dict[str, ToolContract]:
        """All of them by name."""
        return {contract.name: contract for contract in (*self.reading, *self.acting)}


def own_arguments(contract: ToolContract) -> frozenset[str]:
    """Return the arguments of a tool that are not a model's to give; ``what`` of an effect is how people are told of it."""
    return _NOT_THEIRS | {"what"} if contract.has_effect else _NOT_THEIRS


def choose(visible: Mapping[str, ToolContract], said: str, context_tokens: int) -> Offer:
    """Return what to offer of the tools the asker may see, for a sentence and a model's window."""
    able = [contract for contract in visible.values() if _may_be_planned(contract)]
    reading = sorted((c for c in able if not _acts(c)), key=_reading_order)[:_MOST_READING]
    ranked = sorted(((-_likeness(c, said), c.name, c) for c in able if _acts(c)), key=lambda each: each[:2])
    is_small = context_tokens < SMALL_WINDOW_TOKENS
    acting = [c for rank, _, c in ranked if rank < 0 or not is_small][: _MOST_ACTING_SMALL if is_small else _MOST_ACTING]
    return Offer(tuple(reading), tuple(acting))


def _may_be_planned(contract: ToolContract) -> bool:
    if contract.name in NEVER_OFFERED or contract.keeps_something:
        return False
    return _acts(contract) or contract.security.data_scope != "ledger" or contract.name in _LEDGER_READERS


def _acts(contract: ToolContract) -> bool:
    return contract.changes_something or contract.extends_plan


def _reading_order(contract: ToolContract) -> tuple[int, str]:
    return (_FIRST.index(contract.name) if contract.name in _FIRST else len(_FIRST), contract.name)


def _likeness(contract: ToolContract, said: str) -> int:
    """Count the words that ask for a tool: whole words where words are parted, parts of the sentence in Chinese."""
    written = _WORDS.get(contract.name)
    if written is None:
        known = {w for w in re.findall(r"[a-z]+", f"{contract.name} {contract.description}".lower()) if len(w) >= _FEWEST_LETTERS}
    else:
        known = set(written.split())
    spoken = said.casefold()
    parted = set(re.findall(r"[a-z]+", spoken))
    return sum(word in parted if word.isascii() else word in spoken for word in known)
