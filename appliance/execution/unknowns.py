"""Settling an effect that stayed unknown, outside of its turn: by a person's word, or by asking the tool once more."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from appliance.contracts.clock import Clock
from appliance.contracts.effect import Effect, EffectStatus
from appliance.contracts.errors import Refused, Unavailable
from appliance.contracts.interrupt import Interrupt
from appliance.contracts.plan import ActionState
from appliance.contracts.store import Transaction
from appliance.contracts.tool import EffectDisposition, ToolCall, ToolResult
from appliance.execution.calling import Bell
from appliance.execution.calls import call_of
from appliance.execution.journal import Journal, Page
from appliance.execution.results import TIMEOUT, stored, success
from appliance.execution.settling import Settling, believed
from appliance.execution.toolbox.toolbox import Toolbox, is_verifiable, record_of
from appliance.store import actions, audit, effects, turns

log = logging.getLogger(__name__)

_BY_CHECK = "verify"  # who settled it, when the tool found out
_NOTE_IT = 'Look at the machine, then add what you saw: --note "…"'
_SEE_UNKNOWNS = "What waits to be settled: floorhand unknowns list"


class Unknowns:
    """Settles unknown effects, once each. Who settled what is in the audit log."""

    def __init__(self, journal: Journal, toolbox: Toolbox, settling: Settling, clock: Clock) -> None:
        self._journal = journal
        self._toolbox = toolbox
        self._settling = settling
        self._clock = clock

    async def settle(self, action_id: str, *, happened: bool, note: str, by: str) -> Effect:
        """Record a person's word.

        Raises:
            Refused: there is no such unknown, it is settled already, or the note is empty.
        """
        disposition = EffectDisposition.APPLIED if happened else EffectDisposition.NONE
        kept = success({"settled_by": by, "note": note}, disposition)
        return await self._journal.write(lambda page: self._end(page, action_id, kept, by, note))

    async def verify(self, action_id: str, by: str) -> Effect:
        """Have the tool find out, once, and record what it found. It is returned as it was when the tool cannot tell.

        Raises:
            Refused: there is no such unknown, or its tool has no way to find out.
            Unavailable: the evidence cannot be had now.
        """
        call = await self._journal.write(lambda page: _call_of(page.tx, action_id))
        if call.tool in self._toolbox.names and not is_verifiable(self._toolbox.find(call.tool)):
            cure = f'Look at the machine, then: floorhand unknowns settle {action_id} --as done|not-done --note "…"'
            raise Refused(f"{call.tool} cannot find out what happened; somebody has to look", action=action_id, cure=cure)
        found = await self._settling.check(call, Bell(None, _nobody, action_id), tuple)
        if found.disposition is EffectDisposition.UNKNOWN:
            if found.error_code in (Unavailable.code, TIMEOUT):
                raise Unavailable(found.error, action=action_id)
            return await self._journal.write(lambda page: _effect(page.tx, action_id))

        tool = self._toolbox.find(call.tool)

        def write(page: Page) -> Effect:
            if believed(page.tx, tool, action_id, found).disposition is EffectDisposition.UNKNOWN:
                return _effect(page.tx, action_id)
            settled = self._end(page, action_id, found, by, found.error, is_word=False)
            record = record_of(tool, call, found.value) if found.ok else None
            if record is not None:
                page.record(record)
            return settled

        settled = await self._journal.write(write)
        log.info("unknown.verified", extra={"action": action_id, "status": str(settled.status), "asked_by": by})
        return settled

    def _end(self, page: Page, action_id: str, found: ToolResult, by: str, note: str, *, is_word: bool = True) -> Effect:
        """Settle effect and action. ``is_word``: it is ``by``'s word; else the tool found out, because ``by`` asked."""
        tx = page.tx
        _unknown(tx, action_id)
        happened = found.disposition is EffectDisposition.APPLIED
        status = EffectStatus.APPLIED if happened else EffectStatus.NONE
        who, evidence = (by, None) if is_word else (_BY_CHECK, found.value)
        if is_word and not note.strip():
            raise Refused(f"{action_id} is settled with a note of how you know", action=action_id, cure=_NOTE_IT)
        effects.conclude(tx, self._clock, action_id, status, settled_by=who, result=evidence, note=note)
        actions.change(tx, action_id, ActionState.DONE if happened else ActionState.FAILED, stored(found))
        told = {"by": by, "verdict": "done" if happened else "not-done", "note": note, "verified": not is_word}
        audit.note(tx, self._clock, "unknown_settled", action_id, told)
        return _effect(tx, action_id)


async def _nobody() -> Sequence[Interrupt]:
    """What wants to stop a check that no turn waits for."""
    return ()


def _effect(tx: Transaction, action_id: str) -> Effect:
    effect = effects.of_action(tx, action_id)
    if effect is None:
        raise Refused(f"{action_id} is no unknown effect: it has no effect at all", action=action_id, cure=_SEE_UNKNOWNS)
    return effect


def _unknown(tx: Transaction, action_id: str) -> Effect:
    effect = _effect(tx, action_id)
    if effect.status is not EffectStatus.UNKNOWN:
        raise Refused(_not_unknown(effect), action=action_id, status=str(effect.status), cure=_SEE_UNKNOWNS)
    return effect


def _not_unknown(effect: Effect) -> str:
    """Say what became of an effect that is not unknown, and whose word that is."""
    match effect.status:
        case EffectStatus.APPLIED:
            ended = "done"
        case EffectStatus.NONE:
            ended = "not done"
        case _:
            return f"{effect.action_id} is under way and not unknown ({effect.status})"
    if not effect.was_unknown:
        return f"{effect.action_id} was never unknown: it is known to be {ended}"
    who = "the tool's own check" if effect.settled_by == _BY_CHECK else effect.settled_by
    why = f": {effect.note}" if effect.note else ""
    return f"{effect.action_id} is settled already, as {ended} by {who}{why}"


def _call_of(tx: Transaction, action_id: str) -> ToolCall:
    """Return the call that was made, or may have been."""
    effect = _unknown(tx, action_id)
    return call_of(turns.by_id(tx, effect.turn_id), actions.by_id(tx, action_id), effect.arguments)
