"""Which tools a model is offered: of those that read always the same ones, as many as the window has room for, and of the others,
whoever wrote them, the few the words ask for.

Only tools the asker may see are ever considered. Some are offered to no model: a question of a model's own would look like one
of the appliance's, a record would make a guess a fact, and work is stopped by people.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
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

_ALWAYS_SHARE = 0.05  # of the window, for tools that read and are always shown
_LETTERS_PER_TOKEN = 3.5
_MOST_BESIDES_SMALL, _MOST_BESIDES = 4, 8
_MOST_ACTING_SMALL, _MOST_ACTING = 4, 16
_FIRST = ("say", "read_tags", "trend_of_tag", "list_alarms", "search_memory", "read_plc_log", "read_playbook", "read_result")
_HAN = re.compile(r"[\u3400-\u9fff]+")
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
    "read_vitals": "health disk memory load battery appliance yourself self 健康 磁盘 内存 状态 自检 你自己",
    "list_checks": "check checks later scheduled reminder 检查 稍后 定时 提醒",
    "report_work": "work doing busy running status progress 工作 正在 忙 进度",
}
"""Tool -> words of both languages that ask for it; those of other tools are the words of their names and descriptions."""


@dataclass(frozen=True, slots=True)
class Offer:
    """``reading`` are the same for every sentence of an asker; ``besides``, which read as well, and ``acting`` depend on the
    words."""

    reading: tuple[ToolContract, ...]
    besides: tuple[ToolContract, ...]
    acting: tuple[ToolContract, ...]

    @property
    def contracts(self) -> dict[str, ToolContract]:
        """All of them by name."""
        return {contract.name: contract for contract in (*self.reading, *self.besides, *self.acting)}


def own_arguments(contract: ToolContract) -> frozenset[str]:
    """Return the arguments of a tool that are not a model's to give; ``what`` of an effect is how people are told of it."""
    return _NOT_THEIRS | {"what"} if contract.has_effect else _NOT_THEIRS


def choose(visible: Mapping[str, ToolContract], said: str, context_tokens: int) -> Offer:
    """Return what to offer of the tools the asker may see, for a sentence and a model's window."""
    able = [contract for contract in visible.values() if _may_be_planned(contract)]
    is_small = context_tokens < SMALL_WINDOW_TOKENS
    reading = sorted((c for c in able if not _acts(c)), key=_reading_order)
    fixed = [c for c in reading if not (is_small and c.name in _WORDS)]
    always = fixed[: _always(fixed, context_tokens * _ALWAYS_SHARE)]
    besides = _asked_for([c for c in reading if c not in always], said, is_small=is_small)
    acting = _asked_for([c for c in able if _acts(c)], said, is_small=is_small)
    most_besides, most_acting = (_MOST_BESIDES_SMALL, _MOST_ACTING_SMALL) if is_small else (_MOST_BESIDES, _MOST_ACTING)
    return Offer(tuple(always), tuple(besides[:most_besides]), tuple(acting[:most_acting]))


def _always(reading: Sequence[ToolContract], tokens: float) -> int:
    """Return how many are always shown: those named first here, and of the others those for which there is room. It depends on
    nothing but what the asker may see and the window, so that a session keeps its prefix."""
    first = sum(contract.name in _FIRST for contract in reading)
    letters = 0.0
    for count, contract in enumerate(reading):
        letters += len(contract.name) + len(contract.description) + sum(map(len, contract.schema.arguments.model_fields))
        if count >= first and letters > tokens * _LETTERS_PER_TOKEN:
            return count
    return len(reading)


def _asked_for(contracts: Sequence[ToolContract], said: str, *, is_small: bool) -> list[ToolContract]:
    """Return the likeliest first. A small window gets only those that have words in common with the sentence, unless that is in
    other letters than their descriptions, so that none could."""
    ranked = sorted(((-_likeness(c, said), c.name, c) for c in contracts), key=lambda each: each[:2])
    return [c for rank, _, c in ranked if rank < 0 or not is_small or (c.name not in _WORDS and not said.isascii())]


def _may_be_planned(contract: ToolContract) -> bool:
    if contract.name in NEVER_OFFERED or contract.keeps_something:
        return False
    return _acts(contract) or contract.security.data_scope != "ledger" or contract.name in _LEDGER_READERS


def _acts(contract: ToolContract) -> bool:
    return contract.changes_something or contract.extends_plan


def _reading_order(contract: ToolContract) -> tuple[int, str]:
    """Ours first, then those of other packages, which somebody wanted here, then ours that few ask for."""
    first = _FIRST.index(contract.name) if contract.name in _FIRST else len(_FIRST) + (contract.name in _WORDS)
    return (first, contract.name)


def _likeness(contract: ToolContract, said: str) -> int:
    """Count the words that ask for a tool: whole words where words are parted, parts of the sentence in Chinese."""
    written = _WORDS.get(contract.name)
    if written is None:
        told = f"{contract.name} {contract.description}".casefold()
        known = {w for w in re.findall(r"[a-z]+", told) if len(w) >= _FEWEST_LETTERS}
        known |= {run[at : at + 2] for run in _HAN.findall(told) for at in range(len(run) - 1)}
    else:
        known = set(written.split())
    spoken = said.casefold()
    parted = set(re.findall(r"[a-z]+", spoken))
    return sum(word in parted if word.isascii() else word in spoken for word in known)
