"""``stop_work``: stops what the appliance itself is doing; never a machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from appliance.contracts.admission import Outcome, RequestKind
from appliance.contracts.clock import Clock, IdSource
from appliance.contracts.interrupt import Cause
from appliance.contracts.plant import Plant
from appliance.contracts.ports import Wording
from appliance.contracts.principal import principal_of
from appliance.contracts.store import Transaction
from appliance.contracts.tool import (
    AccessLevel,
    SchemaContract,
    SecurityContract,
    SlaContract,
    TelemetryContract,
    ToolCall,
    ToolContract,
)
from appliance.contracts.turn import Turn
from appliance.execution.fields import Fields
from appliance.execution.work_meant import about, all_work, may_stop, meant, name_of, own_lane
from appliance.store import admissions, deliveries, stopping

_NAMED = 3  # jobs named one by one when nobody can tell which is meant


class Arguments(Fields):
    """``every``: all of it, and what the speaker has asked for and was not begun. ``asset``: what is about it. ``words_only``:
    only what waits to be said to the speaker. ``may_mean_machine``: the words may have been meant for one; that is said first."""

    every: bool = False
    asset: str = ""
    words_only: bool = False
    may_mean_machine: bool = False


class Result(Fields):
    """The turns that stop, and what to tell of it. None when nothing could be meant, or more than one."""

    turns: list[str]
    sentence: str


class StopWork:
    """Writes the wish to stop in the action's own transaction; from its commit on no step of those turns begins."""

    contract: ClassVar[ToolContract] = ToolContract(
        name="stop_work",
        description="Stop what the appliance is doing",
        schema=SchemaContract(Arguments, Result),
        sla=SlaContract(max_execution_time_ms=1_000),
        security=SecurityContract(AccessLevel.PUBLIC, "ledger"),
        telemetry=TelemetryContract("stop_work.started", "stop_work.done", "stop_work.failed"),
        has_effect=False,
    )

    def __init__(self, plant: Plant, wording: Wording, clock: Clock, ids: IdSource) -> None:
        self._plant = plant
        self._wording = wording
        self._clock = clock
        self._ids = ids

    def apply(self, tx: Transaction, call: ToolCall, arguments: Arguments) -> Mapping[str, object]:
        """Want the work that is meant to stop, and silence what the speaker was going to be told."""
        if arguments.words_only or arguments.may_mean_machine:
            stopping.hush(tx, self._clock, own_lane(call))
        if arguments.words_only:
            return {"turns": [], "sentence": self._reply(call, "hushed")}
        wanted = self._meant(tx, call, arguments)
        work = [turn for turn in wanted if may_stop(call, turn)]
        kept = [turn for turn in wanted if turn not in work]
        if len(work) > 1 and not arguments.every:
            names = "; ".join(self._name(call, turn) for turn in work[:_NAMED])
            return self._told(call, arguments, [], self._reply(call, "which_work", works=names))
        if arguments.every:
            self._drop_queued(tx, call)
        by = str(call.context.get("by", "unknown"))
        reason = str(call.context.get("said", "")) or f"stopped by {by}"
        for turn in work:
            stopping.stop(tx, self._clock, self._ids, turn.id, cause=Cause.USER, by=by, reason=reason)
        match len(work):
            case 0:
                said = self._not_theirs(call, kept) if kept else self._nothing(tx, call, arguments)
                return self._told(call, arguments, [], said)
            case 1:
                said = self._reply(call, "stopping_one", work=self._name(call, work[0]))
            case count:
                said = self._reply(call, "stopping_many", count=str(count))
        return self._told(call, arguments, work, " ".join([said, *([self._not_theirs(call, kept)] if kept else [])]))

    def _meant(self, tx: Transaction, call: ToolCall, arguments: Arguments) -> list[Turn]:
        if arguments.every:
            work = all_work(tx)
        elif arguments.asset:
            work = about(all_work(tx), arguments.asset)
        else:
            work = meant(tx, call)
        return _stoppable(tx, work)

    def _nothing(self, tx: Transaction, call: ToolCall, arguments: Arguments) -> str:
        """Say that nothing stops, and what goes on for others or elsewhere: only words that mean it stop it."""
        work = [] if arguments.every else _stoppable(tx, all_work(tx))
        if not work:
            return self._reply(call, "stop_none")
        theirs = [turn for turn in work if may_stop(call, turn)]
        if not theirs:
            return self._not_theirs(call, work)
        names = "; ".join(self._name(call, turn) for turn in theirs[:_NAMED])
        return self._reply(call, "stop_none_there" if arguments.asset else "stop_none_of_yours", works=names)

    def _not_theirs(self, call: ToolCall, work: Sequence[Turn]) -> str:
        """Say what goes on because it is of somebody who may do more."""
        return self._reply(call, "stop_not_yours", works="; ".join(self._name(call, turn) for turn in work[:_NAMED]))

    def _drop_queued(self, tx: Transaction, call: ToolCall) -> None:
        """End what the speaker has asked for and was not begun; what somebody asked for there who may do more stays."""
        for admission in admissions.waiting_of(tx, RequestKind.UTTERANCE):
            if admission.lane == own_lane(call) and principal_of(admission.payload).level <= call.principal.level:
                admissions.settle(tx, self._clock, admission.id, Outcome.INTERRUPTED)

    def _told(self, call: ToolCall, arguments: Arguments, work: Sequence[Turn], sentence: str) -> Mapping[str, object]:
        """Say first that a machine has to be stopped at its button, where that may have been meant; of nothing then no word."""
        stopped = [turn.id for turn in work]
        if not arguments.may_mean_machine and work:
            return {"turns": stopped, "sentence": sentence}
        return {"turns": stopped, "sentence": f"{self._reply(call, 'stop')} {sentence}"}

    def _name(self, call: ToolCall, turn: Turn) -> str:
        return name_of(turn, self._plant, self._wording, call.language)

    def _reply(self, call: ToolCall, name: str, **values: str) -> str:
        return self._wording.reply(name, call.language, **values)


def _stoppable(tx: Transaction, work: Sequence[Turn]) -> list[Turn]:
    """Return the work that may be stopped. An alarm is announced first: no word of anybody takes that away."""
    return [turn for turn in work if not turn.is_about_alarms or deliveries.has_words(tx, turn.id)]
