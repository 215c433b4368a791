"""The third level of failure (T5): a ticket, messages to whoever takes tickets, and a sentence, all in the transaction that ends
the action.

In: an action that failed for good. Out: one ticket an action, a delivery row a webhook. Who calls: the stretch. Implements
``contracts.escalation.Escalator``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from appliance.contracts.clock import Clock, IdSource
from appliance.contracts.plan import Action
from appliance.contracts.ports import Wording
from appliance.contracts.store import Transaction
from appliance.contracts.ticket import Ticket
from appliance.contracts.tool import ToolCall, ToolContract, ToolResult
from appliance.contracts.turn import Turn
from appliance.execution.sentences import Sentences
from appliance.foundation.canonical import canonical_json
from appliance.foundation.untrusted import clean
from appliance.store import deliveries, snapshot, tickets

PRIORITY_TICKET = 10
"""Of a ticket's messages: before the changes of alarms, of which a flood may have hundreds for a webhook that takes few."""

_PRIORITY_UNTOLD = 7  # below an alarm's announcement, above what is typed
_LONGEST_INPUT = 4_000  # characters of JSON; the turn has all of it
_PREVIEW = 1_500
_REDACTED = "redacted"
_SHORTEST_SECRET = 4  # characters; a shorter value would be found in plain words


class Escalation:
    """Opens tickets. ``takers`` are the webhooks that take tickets, ``language`` is that of the messages.

    ``public_url`` is where the site serves the addresses of the local API to people; empty: nowhere, and messages have no link.
    """

    def __init__(
        self,
        clock: Clock,
        ids: IdSource,
        wording: Wording,
        *,
        takers: Sequence[str],
        origin: str,
        language: str,
        public_url: str = "",
    ) -> None:
        self._clock = clock
        self._ids = ids
        self._wording = wording
        self._takers = tuple(takers)
        self._origin = origin
        self._language = language
        self._public_url = public_url.rstrip("/")

    def open_in(
        self, tx: Transaction, turn: Turn, action: Action, call: ToolCall, contract: ToolContract, result: ToolResult
    ) -> str:
        """Open the ticket of an action with its messages, and return the sentence that says so in the turn's language."""
        known = tickets.of_action(tx, action.id)
        if known is None:
            result = _without_redacted(result, call, contract)
            known = tickets.open_in(
                tx,
                self._clock,
                self._ids,
                turn_id=turn.id,
                action_id=action.id,
                tool=contract.name,
                input=_input_of(call, contract),
                error_code=result.error_code,
                error=result.error,
                state_hash=snapshot.state_hash(snapshot.take(tx, turn)),
                told=self._takers,
            )
            self.tell(tx, known, tickets.OPENED, Sentences(self._wording, self._language).step_failed(result, contract.name))
        if not known.told:
            return self._wording.reply("ticket_opened", turn.language)
        return self._wording.reply("ticket_handed", turn.language, who=list(known.told))

    def tell(self, tx: Transaction, ticket: Ticket, change: str, why: str) -> None:
        """Queue what became of a ticket for those it was queued for and who still take tickets."""
        for name in ticket.told:
            if name in self._takers:
                payload = self._payload(ticket, change, why)
                queued = deliveries.queue_webhook(
                    tx, self._clock, self._ids, turn_id=None, name=name, payload=payload, priority=PRIORITY_TICKET
                )
                tickets.note_message(tx, ticket.id, change, queued.id)

    def say_untold(self, tx: Transaction) -> list[str]:
        """Queue the one sentence for tickets that no webhook took, and return their ids. Each is said once."""
        untold = [ticket.id for ticket in tickets.note_untold(tx, self._clock)]
        text = self._wording.reply("ticket_untold", self._language)
        if untold and not deliveries.is_waiting(tx, text):
            deliveries.queue(
                tx, self._clock, self._ids, turn_id=None, language=self._language, text=text, priority=_PRIORITY_UNTOLD
            )
        return untold

    def _payload(self, ticket: Ticket, change: str, why: str) -> Mapping[str, Any]:
        """Return the message: the ticket for programs; ``title``, ``text`` and ``link`` are what people read in a group."""
        shown = f"floorhand turns show {ticket.turn_id}"
        words = {"ticket": ticket.id, "tool": ticket.tool, "why": why, "command": shown, "appliance": self._origin}
        return {
            "event": "ticket",
            "change": change,
            "appliance": self._origin,
            "ticket": ticket.id,
            "turn": ticket.turn_id,
            "action": ticket.action_id,
            "tool": ticket.tool,
            "input": ticket.input,
            "error_code": ticket.error_code,
            "error": ticket.error,
            "state_hash": ticket.state_hash,
            "opened_at": ticket.opened_utc.isoformat(timespec="milliseconds"),
            "context": shown,
            "link": f"{self._public_url}/v1/turns/{ticket.turn_id}" if self._public_url else "",
            "title": self._wording.reply(f"ticket_title_{change}", self._language, ticket=ticket.id),
            "text": self._wording.reply(
                "ticket_text" if change == tickets.OPENED else "ticket_text_closed", self._language, **words
            ),
        }


def _without_redacted(result: ToolResult, call: ToolCall, contract: ToolContract) -> ToolResult:
    """Return the result without what must not be logged: a tool may say back what it was given."""
    error, words = result.error, dict(result.words)
    for name in contract.telemetry.redact:
        value = call.arguments.get(name)
        if isinstance(value, str) and len(value) >= _SHORTEST_SECRET:
            error = error.replace(value, _REDACTED)
            words = {each: told.replace(value, _REDACTED) if isinstance(told, str) else told for each, told in words.items()}
    return replace(result, error=error, words=words)


def _input_of(call: ToolCall, contract: ToolContract) -> dict[str, Any]:
    """Return what a call was made with, without what must not be logged, and bounded."""
    shown = {name: _REDACTED if name in contract.telemetry.redact else value for name, value in call.arguments.items()}
    text = canonical_json(shown)
    return shown if len(text) <= _LONGEST_INPUT else {"truncated": True, "preview": clean(text, _PREVIEW)}
