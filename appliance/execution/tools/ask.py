"""``ask``: puts a yes/no question. Its action then waits; only a person's answer ends the waiting.

A question whose yes lets a CRITICAL call be made ends with a code of three digits, made here and said digit by digit: who answers
has heard it. Each is for one question, and no two open ones have the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from pydantic import Field

from appliance.contracts.clock import Clock, IdSource
from appliance.contracts.errors import Refused
from appliance.contracts.ports import Wording
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
from appliance.execution.fields import Fields
from appliance.execution.urgency import urgency_of
from appliance.store import confirmations, deliveries

CODE_DIGITS = 3
"""Digits of a code: enough that chatter does not hit it in three tries, few enough to be kept in mind."""
_MOST_CODES = 100  # open at the same time; each turn that waits has one question


class Arguments(Fields):
    """``requires_keyword``: a bare yes is not enough, because the answer lets the machine be changed.

    ``approves``, ``digest``, ``needs_code``, ``level`` and ``basis`` bind the yes to one step (``approval/consent``); only our
    own code gives them.
    """

    question: str = Field(min_length=1, max_length=1_000)
    lead: str = Field(default="", max_length=400)
    requires_keyword: bool = False
    approves: str = ""
    digest: str = ""
    needs_code: bool = False
    level: str = ""
    basis: str = ""


class Result(Fields):
    """The question's id and the delivery that asks it."""

    confirmation: str
    delivery: str


class Ask:
    """Queues the question and records that it is open, in one transaction with the action's waiting."""

    contract: ClassVar[ToolContract] = ToolContract(
        name="ask",
        description="Ask a yes/no question and wait for the answer",
        schema=SchemaContract(Arguments, Result, required_fields=("question",)),
        sla=SlaContract(max_execution_time_ms=1_000),
        security=SecurityContract(AccessLevel.PUBLIC, "speech"),
        telemetry=TelemetryContract("ask.started", "ask.queued", "ask.failed", redact=("question", "lead")),
        has_effect=False,
    )

    def __init__(self, clock: Clock, ids: IdSource, wording: Wording) -> None:
        self._clock = clock
        self._ids = ids
        self._wording = wording

    def apply(self, tx: Transaction, call: ToolCall, arguments: Arguments) -> Mapping[str, object]:
        """Write delivery and confirmation."""
        code = self._fresh_code(tx) if arguments.needs_code else ""
        delivery = deliveries.queue(
            tx,
            self._clock,
            self._ids,
            turn_id=call.turn_id,
            language=call.language,
            lead=arguments.lead,
            text=self._said(arguments.question, code, call.language),
            priority=urgency_of(call.context, is_first=not deliveries.has_words(tx, call.turn_id)),
        )
        confirmation = confirmations.ask(
            tx,
            self._clock,
            self._ids,
            turn_id=call.turn_id,
            action_id=call.action_id,
            question=arguments.question,
            delivery_id=delivery.id,
            code=code,
        )
        return {"confirmation": confirmation.id, "delivery": delivery.id}

    def _fresh_code(self, tx: Transaction) -> str:
        taken = confirmations.codes_in_use(tx)
        if len(taken) >= _MOST_CODES:
            raise Refused("too many questions that need a code are open", open=len(taken)).worded("too_many_codes")
        while (code := self._ids.digits(CODE_DIGITS)) in taken or "0" in code:  # a spoken "zero" may be heard as "two"
            pass
        return code

    def _said(self, question: str, code: str, language: str) -> str:
        if not code:
            return question
        return f"{question} {self._wording.reply('say_code', language, code=' '.join(code))}".strip()
